"""Metrics of workload Clusters: how many there are, and whether their syncers are well."""

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
    """By their condition, which is Unknown where nobody has said it."""
    found = Counter(
        str((get_condition(each, workload.SYNCER_READY) or {}).get("status", "Unknown")) for each in clusters
    )
    return [("", {"ready": ready}, float(number)) for ready, number in found.items()]


def render(only: str | None = None) -> str:
    """For /metrics; nothing for those who see one logical cluster."""
    lines = written([CLUSTER_STATES], only)
    return "\n".join(lines) + "\n" if lines else ""
