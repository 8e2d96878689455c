"""Metrics of workload Clusters: their number, by syncer readiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds import workload
from shoal.objects.conditions import get_condition
from shoal.telemetry.meters import Lookup, written

CLUSTER_STATES = Lookup(
    "shoal_workload_clusters", "Workload Clusters, by whether they are in sync with the hub.", ("ready",)
)


def states(clusters: Iterable[dict[str, Any]]) -> list[tuple[str, Mapping[str, str], float]]:
    """By the SyncerReady condition; Unknown if it is not set."""
    found = Counter(
        str((get_condition(each, workload.SYNCER_READY) or {}).get("status", "Unknown")) for each in clusters
    )
    return [("", {"ready": ready}, float(number)) for ready, number in found.items()]


def render(only: str | None = None) -> str:
    """Text for /metrics. Empty for a scrape of a single logical cluster."""
    lines = written([CLUSTER_STATES], only)
    return "\n".join(lines) + "\n" if lines else ""
