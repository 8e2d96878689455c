"""Reports the free capacity of a Worker in its status. It is for people: the scheduler never reads it."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fit.resources import quantities
from shoal.fleet.resources import WORKERS
from shoal.fleet.scheduler.candidate import Usage, candidate
from shoal.fleet.scheduler.ledger import Ledger
from shoal.kinds import fleet
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

SECONDS_EACH = 0.01
"""Minimum interval between two reports of a Worker, multiplied by the number of Workers: larger fleets report less
often.
"""


class CapacityTeller:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock, ledger: Ledger, managed: Reflector, workers: Reflector) -> None:
        self._client, self._clock, self._ledger = client, clock, ledger
        self._managed, self._workers = managed, workers
        self._told: dict[Key, float] = {}
        self.loop: Loop[Key] = Loop("fleet-capacity", clock, self.reconcile)

    def look_at(self, *workers: str) -> None:
        for name in workers:
            if name:
                self.loop.queue.add(("", fleet.NAMESPACE, name))

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.objects.get(key)
        if worker is None:
            self._told.pop(key, None)
            return None
        if not self._managed.synced:
            raise Later("the ManagedClusters have not been listed yet")
        free = available(worker, self._ledger.used(key[2]) if key[1] == fleet.NAMESPACE else Usage())
        status = fleet.status_of(worker)
        if all(status.get(field) == value for field, value in free.items()):
            return None
        now = self._clock.monotonic()
        rest = self._told.get(key, 0.0) + SECONDS_EACH * len(self._workers.objects) - now
        if rest > 0:
            return rest
        self._told[key] = now
        try:
            await self._client.merge(WORKERS, key[2], {"status": free}, key[1], "status")
        except NotFound:
            self._told.pop(key, None)
        return None


def available(worker: Object, used: Usage) -> Object:
    """Returns the part of the status with the free capacity."""
    said = candidate(worker)
    left = {name: max(0, amount - used.amounts[name]) for name, amount in said.allocatable}
    return {"availableCapacity": max(0, said.capacity - used.clusters), "available": quantities(left) or None}
