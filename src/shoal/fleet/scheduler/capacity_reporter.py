"""Reports the free capacity of a Worker in its status. It is for people: the scheduler never reads it."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fit.resources import to_quantities
from shoal.fleet.resources import WORKERS
from shoal.fleet.scheduler.cache import SchedulerCache
from shoal.fleet.scheduler.candidate import WorkerUsage, candidate_of
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]

SECONDS_PER_WORKER = 0.01
"""Minimum interval between two reports of a Worker, multiplied by the number of Workers: larger fleets report less
often.
"""


class CapacityReporter:
    """Keys are Workers."""

    def __init__(
        self, client: Client, clock: Clock, cache: SchedulerCache, managed: Informer, workers: Informer
    ) -> None:
        self._client, self._clock, self._cache = client, clock, cache
        self._managed, self._workers = managed, workers
        self._reported_at: dict[Key, float] = {}
        self.controller: Controller[Key] = Controller("fleet-capacity", clock, self.reconcile)

    def enqueue(self, *workers: str) -> None:
        for name in workers:
            if name:
                self.controller.queue.add(("", infrav1.NAMESPACE, name))

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.get(key)
        if worker is None:
            self._reported_at.pop(key, None)
            return None
        if not self._managed.has_synced:
            raise RequeueError("informer of ManagedClusters has not synced yet")
        free = free_capacity(worker, self._cache.usage_of(key[2]) if key[1] == infrav1.NAMESPACE else WorkerUsage())
        status = infrav1.status_of(worker)
        if all(status.get(field) == value for field, value in free.items()):
            return None
        now = self._clock.monotonic()
        delay = self._reported_at.get(key, 0.0) + SECONDS_PER_WORKER * len(self._workers.objects) - now
        if delay > 0:
            return delay
        self._reported_at[key] = now
        try:
            await self._client.merge_patch(WORKERS, key[2], {"status": free}, key[1], "status")
        except NotFound:
            self._reported_at.pop(key, None)
        return None


def free_capacity(worker: Object, usage: WorkerUsage) -> Object:
    """Returns the part of the status with the free capacity."""
    worker_candidate = candidate_of(worker)
    remaining = {name: max(0, amount - usage.amounts[name]) for name, amount in worker_candidate.allocatable}
    return {
        "availableCapacity": max(0, worker_candidate.capacity - usage.clusters),
        "available": to_quantities(remaining) or None,
    }
