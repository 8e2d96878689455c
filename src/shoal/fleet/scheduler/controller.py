"""The fleet scheduler: binds each ManagedCluster to a Worker.

Decisions are made one after another, and each sees those before it: a selected Worker counts as used at once (assumed),
while the writes run concurrently. A binding is one compare-and-swap on the status. A ManagedCluster that does not fit
stays in the queue (`queue`), and its status says why (`unschedulable_reporter`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.berths import Berths
from shoal.fleet.scheduler.capacity import CapacityTeller
from shoal.fleet.scheduler.decide import bound, level
from shoal.fleet.scheduler.ledger import Ledger, Record
from shoal.fleet.scheduler.ranking import Rankings
from shoal.fleet.scheduler.telling import ReasonTeller
from shoal.fleet.scheduler.waiting import WaitingRoom
from shoal.kinds import fleet
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.loop import Later, Loop
from shoal.telemetry import tracing

Object = dict[str, Any]

LANES = 256
"""Bindings in flight at once: that many share one commit of the store."""


class Scheduler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._ledger = Ledger()
        self._rankings = Rankings(self._ledger)
        self._waiting = WaitingRoom(self._ledger)
        self.bindings: Loop[Key] = Loop("fleet-scheduler", clock, self.reconcile, workers=LANES)
        self._news = asyncio.Event()
        told = self._news.set
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, self._managed_changed, listed=told, shared=True)
        self._workers = Reflector(client, WORKERS, clock, self._worker_changed, listed=told, shared=True)
        self.bindings.sources += [self._managed.run, self._workers.run, self._dispatch]
        self.capacity = CapacityTeller(client, clock, self._ledger, self._managed, self._workers)
        self.telling = ReasonTeller(client, clock, self._ledger, self._waiting)
        self.berths = Berths(self._ledger, self._managed_changed)

    @property
    def loops(self) -> list[Loop[Any]]:
        return [self.bindings, self.capacity.loop, self.telling.loop, self.telling.growing]

    @property
    def informed(self) -> bool:
        return self._managed.synced and self._workers.synced

    def _managed_changed(self, key: Key, obj: Object | None) -> None:
        before = self._ledger.records.get(key)
        was = (before.bound, before.coming) if before is not None else ("", "")
        record = self._ledger.note_managed(key, obj)
        if tracing.tracer is not None:
            self.bindings.queue.follow(key, tracing.following())  # It is scheduled later, together with others.
        now = (record.bound, record.coming) if record is not None else ("", "")
        if was != now or now[1]:  # Capacity for an incoming cluster was reserved before the write.
            self.capacity.look_at(*was, *now)
        if record is None or not record.homeless:
            self._waiting.leave(key)
        else:
            self._wait(record)
        if record is not None and obj is not None and _is_to_be_written(obj):
            self.bindings.queue.add(key)
        self._news.set()

    def _worker_changed(self, key: Key, obj: Object | None) -> None:
        self.capacity.loop.queue.add(key)
        if self._ledger.note_worker(key, obj):
            self._news.set()

    def _wait(self, record: Record) -> None:
        line = self._waiting.add(record)
        if line.closed:
            self.telling.tell(record)

    async def _dispatch(self) -> None:
        """Schedules after events, not within the event handler: a list is delivered object by object, and nothing is
        decided on half of it.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            if self.informed:
                self._place()

    def _place(self) -> None:
        """Assumes a Worker for every ManagedCluster that fits, up to MAX_CONCURRENT_BINDINGS."""
        now = self._clock.monotonic()
        for late in self._ledger.expire(now):
            self.bindings.queue.add(late.key)
        while len(self._ledger.assumed) < LANES and (record := self._waiting.next()) is not None:
            worker = self._rankings.best(record)
            if worker:
                self._waiting.leave(record.key)
                self._ledger.assume(record, worker, now)
                self.bindings.queue.add(record.key)
            else:
                self._waiting.close(record)
        self.telling.look()

    async def reconcile(self, key: Key) -> None:
        record = self._ledger.records.get(key)
        if record is None:
            return
        if not self.informed:
            raise Later("not everything has been listed yet")
        try:
            if record.assumed:
                await self._bind(record, record.assumed)
            elif record.homeless:
                self._wait(record)
            else:
                await self._level(key)
        except NotFound:
            return  # Deleted meanwhile; the watch reports that as well.
        finally:
            self._news.set()

    async def _bind(self, record: Record, worker: str) -> None:
        """Writes the binding. If the outcome is unknown, the assumption stays and the same write is retried: it either
        conflicts, because it was made, or it is made now.
        """
        assert record.obj is not None
        try:
            managed = record.obj
            if not fleet.has_finalizer(managed):
                managed = await self._client.update(MANAGED_CLUSTERS, fleet.with_finalizer(managed))
            status = bound(managed, worker, rfc3339(self._clock.now()))
            written = await self._client.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
        except StatusError:
            self._ledger.forget(record)
            raise
        else:
            self._ledger.note_bound(record, worker, int(written["metadata"]["resourceVersion"]))
            self._waiting.leave(record.key)
        finally:
            self.capacity.look_at(worker)

    async def _level(self, key: Key) -> None:
        managed = self._managed.objects.get(key)
        if managed is None:
            return
        decision = level(managed)
        if decision.finalizer is not None:
            change = fleet.with_finalizer if decision.finalizer else fleet.without_finalizer
            await self._client.update(MANAGED_CLUSTERS, change(managed))
        if decision.status is not None:
            await self._client.update(MANAGED_CLUSTERS, {**managed, "status": decision.status}, "status")


def _is_to_be_written(managed: Object) -> bool:
    decision = level(managed)
    return decision.finalizer is not None or decision.status is not None
