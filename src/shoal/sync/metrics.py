"""Metrics of workload Clusters: their number, by syncer readiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds.workload import workloadcluster
from shoal.objects.conditions import get_condition
from shoal.telemetry.metrics import MetricFunc, render_text

CLUSTER_STATES = MetricFunc("shoal_workload_clusters", "Workload Clusters by readiness.", ("ready",))


def cluster_state_series(clusters: Iterable[dict[str, Any]]) -> list[tuple[str, Mapping[str, str], float]]:
    """By the SyncerReady condition; Unknown if it is not set."""
    counts = Counter(
        str((get_condition(each, workloadcluster.SYNCER_READY) or {}).get("status", "Unknown")) for each in clusters
    )
    return [("", {"ready": ready}, float(number)) for ready, number in counts.items()]


def render(only: str | None = None) -> str:
    """Text for /metrics. Empty for a scrape of a single logical cluster."""
    lines = render_text([CLUSTER_STATES], only)
    return "\n".join(lines) + "\n" if lines else ""
