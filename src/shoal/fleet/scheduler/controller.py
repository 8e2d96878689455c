"""The fleet's scheduler: gives each ManagedCluster to a Worker, and keeps `status.availableCapacity` of Workers.

A binding is the finalizer first, then one compare-and-swap on status. One binding at a time: each sees those before
it. Whoever does not fit waits, and is looked at again when a Worker changes or has a slot free.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.decide import decide
from shoal.fleet.scheduler.ledger import Ledger
from shoal.kinds import fleet
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class Scheduler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._ledger = Ledger()
        self._writing: Key | None = None
        self._gone = False
        """What is being written went away before the answer came: it must not come back into the ledger."""
        self.bindings: Loop[Key] = Loop("fleet-scheduler", clock, self._schedule, workers=1)
        self.capacity: Loop[Key] = Loop("fleet-capacity", clock, self._tell_capacity)
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, self._managed_changed)
        self._workers = Reflector(client, WORKERS, clock, self._worker_changed)
        self.bindings.sources += [self._managed.run, self._workers.run]

    def _managed_changed(self, key: Key, obj: Object | None) -> None:
        self._gone |= obj is None and key == self._writing
        before = self._ledger.managed.get(key)
        freed = self._ledger.note_managed(key, obj)
        now = self._ledger.managed.get(key)
        for seen in (before, now):
            if seen is not None and fleet.assigned_worker(seen):
                self.capacity.queue.add(("", fleet.NAMESPACE, fleet.assigned_worker(seen)))
        if obj is not None:
            self.bindings.queue.add(key)
        if freed:
            self._wake()

    def _worker_changed(self, key: Key, obj: Object | None) -> None:
        different = self._ledger.note_worker(key, obj)
        self.capacity.queue.add(key)
        if different:
            self._wake()

    def _wake(self) -> None:
        for key in self._ledger.waiting():
            self.bindings.queue.add(key)

    async def _schedule(self, key: Key) -> None:
        if not (self._managed.synced and self._workers.synced):
            raise Later("not everything has been listed yet")
        managed = self._ledger.managed.get(key)
        if managed is None:
            return
        decision = decide(managed, self._ledger.candidates(), rfc3339(self._clock.now()))
        self._writing = key
        try:
            if decision.finalizer is not None:
                change = fleet.with_finalizer if decision.finalizer else fleet.without_finalizer
                managed = await self._client.update(MANAGED_CLUSTERS, change(managed))
            if decision.status is not None:
                managed = {**managed, "status": decision.status}
                self._gone = False
                written = await self._client.update(MANAGED_CLUSTERS, managed, "status")
                if not self._gone:
                    self._managed_changed(key, written)
        except NotFound:
            return  # it went away meanwhile: the watch says so too

    async def _tell_capacity(self, key: Key) -> None:
        worker = self._ledger.workers.get(key)
        if worker is None:
            return
        if not self._managed.synced:
            raise Later("the ManagedClusters have not been listed yet")
        used = self._ledger.used(key[2]) if key[1] == fleet.NAMESPACE else 0
        free = max(0, int(fleet.spec_of(worker).get("capacity") or 0) - used)
        if fleet.status_of(worker).get("availableCapacity") == free:
            return
        patch = {"status": {"availableCapacity": free}}
        try:
            await self._client.merge(WORKERS, key[2], patch, key[1], "status")
        except NotFound:
            return
