"""The fleet scheduler: binds each ManagedCluster to a Worker.

Decisions are made one after another, and each sees those before it: a selected Worker counts as used at once (assumed),
while the writes run concurrently. A binding is one compare-and-swap on the status. A ManagedCluster that does not fit
stays in the queue (`queue`), and its status says why (`unschedulable_reporter`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.cache import ClusterInfo, SchedulerCache
from shoal.fleet.scheduler.capacity_reporter import CapacityReporter
from shoal.fleet.scheduler.decide import bound_status, finalizer_and_phase
from shoal.fleet.scheduler.queue import SchedulingQueue
from shoal.fleet.scheduler.ranking import WorkerRankings
from shoal.fleet.scheduler.reservations import Reservations
from shoal.fleet.scheduler.unschedulable_reporter import UnschedulableReporter
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.telemetry import tracing

Object = dict[str, Any]

MAX_CONCURRENT_BINDINGS = 256
"""Bindings in flight at once: that many share one commit of the store."""


class FleetScheduler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._cache = SchedulerCache()
        self._rankings = WorkerRankings(self._cache)
        self._queue = SchedulingQueue(self._cache)
        self.controller: Controller[Key] = Controller(
            "fleet-scheduler", clock, self.reconcile, workers=MAX_CONCURRENT_BINDINGS
        )
        self._wakeup = asyncio.Event()
        self._managed = Informer(client, MANAGED_CLUSTERS, clock)
        self._workers = Informer(client, WORKERS, clock)
        self.controller.watch(self._managed, lambda key, old, new: self._observe_managed_cluster(key, new))
        self.controller.watch(self._workers, self._on_worker)
        for informer in (self._managed, self._workers):
            informer.on_sync(self._wakeup.set)
        self.controller.sources.append(self._run_scheduling)
        self.capacity_reporter = CapacityReporter(client, clock, self._cache, self._managed, self._workers)
        self.unschedulable_reporter = UnschedulableReporter(client, clock, self._cache, self._queue)
        self.reservations = Reservations(self._cache, self._observe_managed_cluster)

    @property
    def controllers(self) -> list[Controller[Any]]:
        return [
            self.controller,
            self.capacity_reporter.controller,
            self.unschedulable_reporter.controller,
            self.unschedulable_reporter.scaleup_controller,
        ]

    @property
    def has_synced(self) -> bool:
        return self._managed.has_synced and self._workers.has_synced

    def _observe_managed_cluster(self, key: Key, obj: Object | None) -> None:
        cached = self._cache.clusters.get(key)
        previous = (cached.bound_worker, cached.reserved_worker) if cached is not None else ("", "")
        info = self._cache.observe_managed_cluster(key, obj)
        if tracing.tracer is not None:
            self.controller.queue.set_trace(
                key, tracing.active_context()
            )  # It is scheduled later, together with others.
        current = (info.bound_worker, info.reserved_worker) if info is not None else ("", "")
        if previous != current or current[1]:  # Capacity for an incoming cluster was reserved before the write.
            self.capacity_reporter.enqueue(*previous, *current)
        if info is None or not info.is_unscheduled:
            self._queue.remove(key)
        else:
            self._enqueue(info)
        if info is not None and obj is not None and _needs_update(obj):
            self.controller.queue.add(key)
        self._wakeup.set()

    def _on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.capacity_reporter.controller.queue.add(key)
        if self._cache.observe_worker(key, new):
            self._wakeup.set()

    def _enqueue(self, info: ClusterInfo) -> None:
        requirement_queue = self._queue.add(info)
        if requirement_queue.is_blocked:
            self.unschedulable_reporter.report(info)

    async def _run_scheduling(self) -> None:
        """Schedules after events, not within the event handler: a list is delivered object by object, and nothing is
        decided on half of it.
        """
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if self.has_synced:
                self._schedule_pending()

    def _schedule_pending(self) -> None:
        """Assumes a Worker for every ManagedCluster that fits, up to MAX_CONCURRENT_BINDINGS."""
        now = self._clock.monotonic()
        for expired in self._cache.expire_assumptions(now):
            self.controller.queue.add(expired.key)
        while len(self._cache.assumed_until) < MAX_CONCURRENT_BINDINGS and (info := self._queue.pop_head()) is not None:
            worker = self._rankings.best_worker(info)
            if worker:
                self._queue.remove(info.key)
                self._cache.assume(info, worker, now)
                self.controller.queue.add(info.key)
            else:
                self._queue.block(info)
        self.unschedulable_reporter.wake()

    async def reconcile(self, key: Key) -> None:
        info = self._cache.clusters.get(key)
        if info is None:
            return
        if not self.has_synced:
            raise RequeueError("informers have not synced yet")
        try:
            if info.assumed_worker:
                await self._bind(info, info.assumed_worker)
            elif info.is_unscheduled:
                self._enqueue(info)
            else:
                await self._update_finalizer_and_phase(key)
        except NotFound:
            return  # Deleted meanwhile; the watch reports that as well.
        finally:
            self._wakeup.set()

    async def _bind(self, info: ClusterInfo, worker: str) -> None:
        """Writes the binding. If the outcome is unknown, the assumption stays and the same write is retried: it either
        conflicts, because it was made, or it is made now.
        """
        assert info.obj is not None
        try:
            managed = info.obj
            if not infrav1.has_finalizer(managed):
                managed = await self._client.update(MANAGED_CLUSTERS, infrav1.with_finalizer(managed))
            status = bound_status(managed, worker, rfc3339(self._clock.now()))
            updated = await self._client.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
        except StatusError:
            self._cache.forget_assumption(info)
            raise
        else:
            self._cache.confirm_binding(info, worker, int(updated["metadata"]["resourceVersion"]))
            self._queue.remove(info.key)
        finally:
            self.capacity_reporter.enqueue(worker)

    async def _update_finalizer_and_phase(self, key: Key) -> None:
        managed = self._managed.get(key)
        if managed is None:
            return
        update = finalizer_and_phase(managed)
        if update.finalizer is not None:
            set_finalizer = infrav1.with_finalizer if update.finalizer else infrav1.without_finalizer
            await self._client.update(MANAGED_CLUSTERS, set_finalizer(managed))
        if update.status is not None:
            await self._client.update(MANAGED_CLUSTERS, {**managed, "status": update.status}, "status")


def _needs_update(managed: Object) -> bool:
    update = finalizer_and_phase(managed)
    return update.finalizer is not None or update.status is not None
