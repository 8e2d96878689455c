"""Fleet metrics: ManagedClusters and Workers of the hub by phase, and worker slots."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.runtime.informer import Informer
from shoal.telemetry.metrics import Metric, MetricFunc, render_text

MANAGED_CLUSTER_COUNT = MetricFunc("shoal_managed_clusters", "ManagedClusters by phase.", ("phase",))
WORKER_COUNT = MetricFunc("shoal_workers", "Workers by phase.", ("phase",))
WORKER_SLOTS = MetricFunc("shoal_worker_slots", "Slots for hosted clusters on Workers, by state.", ("state",))
_METRICS: tuple[Metric, ...] = (MANAGED_CLUSTER_COUNT, WORKER_COUNT, WORKER_SLOTS)
Series = Iterable[tuple[str, Mapping[str, str], float]]


class FleetMetrics:
    """Reads its informers when metrics are scraped; writes nothing."""

    name = "fleet-metrics"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._managed = Informer(client, MANAGED_CLUSTERS, clock)
        self._workers = Informer(client, WORKERS, clock)

    async def run(self) -> None:
        with (
            MANAGED_CLUSTER_COUNT.registration(partial(_count_by_phase, self._managed)),
            WORKER_COUNT.registration(partial(_count_by_phase, self._workers)),
            WORKER_SLOTS.registration(self._slot_counts),
        ):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._managed.run())
                group.create_task(self._workers.run())

    def _slot_counts(self) -> Series:
        total = sum(infrav1.capacity_of(worker) for worker in self._workers.objects.values())
        used = sum(bool(infrav1.assigned_worker(managed)) for managed in self._managed.objects.values())
        return [("", {"state": "all"}, float(total)), ("", {"state": "taken"}, float(used))]


def _count_by_phase(informer: Informer) -> Series:
    counts = Counter(str(infrav1.status_of(obj).get("phase") or infrav1.PENDING) for obj in informer.objects.values())
    return [("", {"phase": phase}, float(number)) for phase, number in counts.items()]


def render(metric: str | None = None) -> str:
    """Returns the text for /metrics. It is empty for a scrape that is limited to one logical cluster."""
    lines = render_text(_METRICS, metric)
    return "\n".join(lines) + "\n" if lines else ""
