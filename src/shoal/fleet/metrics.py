"""Fleet metrics: ManagedClusters and Workers of the hub by phase, and worker slots."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from shoal.client.reflector import Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet
from shoal.telemetry.meters import Lookup, Meter, written

MANAGED = Lookup("shoal_managed_clusters", "ManagedClusters of the hub.", ("phase",))
HOSTS = Lookup("shoal_workers", "Workers of the hub.", ("phase",))
SLOTS = Lookup("shoal_worker_slots", "Clusters that Workers can host.", ("state",))
_ALL: tuple[Meter, ...] = (MANAGED, HOSTS, SLOTS)
Series = Iterable[tuple[str, Mapping[str, str], float]]


class FleetMetrics:
    """Reads its informers when metrics are scraped; writes nothing."""

    name = "fleet-metrics"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, _nothing, shared=True)
        self._workers = Reflector(client, WORKERS, clock, _nothing, shared=True)

    async def run(self) -> None:
        with (
            MANAGED.read_by(partial(_phases, self._managed)),
            HOSTS.read_by(partial(_phases, self._workers)),
            SLOTS.read_by(self._slots),
        ):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._managed.run())
                group.create_task(self._workers.run())

    def _slots(self) -> Series:
        every = sum(fleet.capacity_of(worker) for worker in self._workers.objects.values())
        taken = sum(bool(fleet.assigned_worker(managed)) for managed in self._managed.objects.values())
        return [("", {"state": "all"}, float(every)), ("", {"state": "taken"}, float(taken))]


def _phases(seen: Reflector) -> Series:
    phases = Counter(str(fleet.status_of(obj).get("phase") or fleet.PENDING) for obj in seen.objects.values())
    return [("", {"phase": phase}, float(number)) for phase, number in phases.items()]


def _nothing(_: object, __: object) -> None:
    pass


def render(only: str | None = None) -> str:
    """Returns the text for /metrics. It is empty for a scrape that is limited to one logical cluster."""
    lines = written(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""
