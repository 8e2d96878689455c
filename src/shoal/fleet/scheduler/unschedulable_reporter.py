"""Reports why ManagedClusters are unschedulable, and creates Workers where auto-creation is allowed.

The first reason is reported at once. When the reason changes later, for many ManagedClusters at a time and at every
change of a Worker, updates are rate limited: bindings go first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.cache import ClusterInfo, SchedulerCache
from shoal.fleet.scheduler.decide import fit_error, unschedulable_status
from shoal.fleet.scheduler.queue import RequirementQueue, SchedulingQueue
from shoal.fleet.scheduler.scaleup import AutoWorkerSettings, decide_scale_up, parse_auto_worker_settings
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import AlreadyExists, StatusError
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

MIN_INTERVAL_SECONDS = 0.2
"""Minimum interval between two passes over changed reasons. A pass is also followed by a pause ten times as long as the
pass took.
"""
MAX_UPDATES_PER_PASS = 200
"""The most statuses that are updated after one pass."""


class UnschedulableReporter:
    def __init__(self, client: Client, clock: Clock, cache: SchedulerCache, queue: SchedulingQueue) -> None:
        self._client, self._clock, self._cache, self._queue = client, clock, cache, queue
        self._wakeup = asyncio.Event()
        self.controller: Controller[Key] = Controller("fleet-waiting", clock, self.reconcile)
        self.controller.sources.append(self._run_updates)
        self.scaleup_controller: Controller[str] = Controller(
            "fleet-auto-workers", clock, self._create_worker, workers=1
        )
        self._pending_workers: dict[str, Object] = {}
        """Workers to create, by name."""
        fields = f"metadata.namespace={infrav1.NAMESPACE},metadata.name={infrav1.AUTO_WORKERS_CONFIG_MAP}"
        self._settings = Informer(client, CONFIG_MAPS, clock, fields=fields)
        self._settings.on_sync(self.wake)
        self.scaleup_controller.watch(self._settings, self._on_settings)

    def report(self, info: ClusterInfo) -> None:
        if info.reported is None:
            self.controller.queue.add(info.key)

    def wake(self) -> None:
        """Schedules a pass over the reasons of blocked ManagedClusters."""
        if self._queue.has_blocked:
            self._wakeup.set()

    def _on_settings(self, key: Key, old: Object | None, new: Object | None) -> None:
        for requirement_queue in self._queue.blocked_queues():
            requirement_queue.cache_version = -1
        self._wakeup.set()

    async def _run_updates(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            started = self._clock.monotonic()
            try:
                is_complete = await self._update_reasons()
            except BaseException:
                self._wakeup.set()  # The pass is repeated when the controller runs again.
                raise
            if not is_complete:
                self._wakeup.set()
            await self._clock.sleep(max(MIN_INTERVAL_SECONDS, 10 * (self._clock.monotonic() - started)))

    async def _update_reasons(self) -> bool:
        """False: there were too many for one pass."""
        remaining = MAX_UPDATES_PER_PASS
        for requirement_queue in self._queue.blocked_queues():
            if requirement_queue.cache_version != self._cache.fit_version:
                self._update_reason(requirement_queue)
            for info in requirement_queue.members.values():
                if remaining and info.reported is not requirement_queue.unschedulable:
                    self.controller.queue.add(info.key)
                    remaining -= 1
            await asyncio.sleep(0)
        return remaining > 0

    def _update_reason(self, requirement_queue: RequirementQueue) -> None:
        candidates = list(self._cache.candidates())
        key = "", infrav1.NAMESPACE, infrav1.AUTO_WORKERS_CONFIG_MAP
        settings = (
            parse_auto_worker_settings(self._settings.get(key)) if self._settings.has_synced else AutoWorkerSettings()
        )
        decision = decide_scale_up(
            requirement_queue.requirements,
            fit_error(requirement_queue.requirements, candidates),
            [worker for worker, _ in candidates],
            settings,
        )
        requirement_queue.cache_version = self._cache.fit_version
        if requirement_queue.unschedulable != decision.unschedulable:
            requirement_queue.unschedulable = decision.unschedulable
        if decision.worker is not None:
            name = decision.worker["metadata"]["name"]
            self._pending_workers[name] = decision.worker
            self.scaleup_controller.queue.add(name)

    async def reconcile(self, key: Key) -> None:
        info, requirement_queue = self._cache.clusters.get(key), self._queue.queue_of(key)
        if info is None or info.obj is None or requirement_queue is None or not requirement_queue.is_blocked:
            return
        if requirement_queue.unschedulable is None:
            self._update_reason(requirement_queue)
        assert requirement_queue.unschedulable is not None
        info.reported = requirement_queue.unschedulable
        status = unschedulable_status(info.obj, requirement_queue.unschedulable, rfc3339(self._clock.now()))
        if status is None:
            return
        try:
            await self._client.update(MANAGED_CLUSTERS, {**info.obj, "status": status}, "status")
        except (StatusError, Unreachable):
            info.reported = None
            raise

    async def _create_worker(self, name: str) -> None:
        worker = self._pending_workers.get(name)
        if worker is None:
            return
        with suppress(AlreadyExists):
            await self._client.create(WORKERS, worker, infrav1.NAMESPACE)
            log.info("no worker has capacity: created worker %s", name)
        self._pending_workers.pop(name, None)
