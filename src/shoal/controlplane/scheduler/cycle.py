"""One scheduling cycle of one hosted cluster: binds schedulable pods, evicts victims and reports unschedulable pods.

The next pods are decided while earlier bindings are being written. No write is in flight at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shoal.controlplane.scheduler import metrics
from shoal.controlplane.scheduler.binder import Binder
from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.results import Binding, Preemption, Unschedulable
from shoal.controlplane.scheduler.snapshot import PodInfo

BATCH_SIZE = 64
"""Pods decided before other tasks run: the store commits their bindings together."""
MAX_IN_FLIGHT = 4 * BATCH_SIZE
"""Maximum number of concurrent writes."""


class SchedulingCycle:
    def __init__(self, cluster_scheduler: ClusterScheduler, binder: Binder, monotonic: Callable[[], float]) -> None:
        self._cluster_scheduler, self._binder, self._monotonic = cluster_scheduler, binder, monotonic
        self._in_flight: set[asyncio.Task[None]] = set()
        self._write_done = asyncio.Event()
        self._failed_bindings: list[Binding] = []
        self.failures: list[Exception] = []

    async def run(self) -> None:
        cluster_scheduler, now = self._cluster_scheduler, self._monotonic()
        try:
            while bindings := metrics.schedule_pending(cluster_scheduler, BATCH_SIZE, self._monotonic):
                for binding in bindings:
                    self._bind(binding)
                await self._wait_for_capacity(MAX_IN_FLIGHT - BATCH_SIZE)
            for preemption in cluster_scheduler.take_preemptions():
                for victim in preemption.plan.victims:
                    self._evict(preemption, victim)
            await self._wait_for_capacity(0)
            metrics.count_binding_errors(len(self._failed_bindings))
            # Only now, so that a failed binding is not retried at once.
            for binding in self._failed_bindings:
                cluster_scheduler.binding_failed(binding)
            for unschedulable in cluster_scheduler.unreported_pods(now):
                self._report(unschedulable)
                await self._wait_for_capacity(MAX_IN_FLIGHT)
            await self._wait_for_capacity(0)
        finally:
            for task in self._in_flight:
                task.cancel()

    def _bind(self, binding: Binding) -> None:
        self._spawn(self._binder.bind(binding), lambda: self._failed_bindings.append(binding))

    def _evict(self, preemption: Preemption, victim: PodInfo) -> None:
        self._spawn(self._binder.evict(preemption, victim), lambda: self._cluster_scheduler.eviction_failed(victim))

    def _report(self, unschedulable: Unschedulable) -> None:
        async def report() -> None:
            await self._binder.report_unschedulable(unschedulable)
            self._cluster_scheduler.mark_reported(unschedulable)

        self._spawn(report(), lambda: self._cluster_scheduler.report_failed(unschedulable))

    def _spawn(self, work: Awaitable[None], on_failure: Callable[[], None]) -> None:
        task = asyncio.ensure_future(self._attempt(work, on_failure))
        self._in_flight.add(task)
        task.add_done_callback(self._on_task_done)

    async def _attempt(self, work: Awaitable[None], on_failure: Callable[[], None]) -> None:
        try:
            await work
        except Exception as error:
            self.failures.append(error)
            on_failure()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._write_done.set()

    async def _wait_for_capacity(self, limit: int) -> None:
        """Waits until at most that many writes are in flight."""
        await asyncio.sleep(0)
        while len(self._in_flight) > limit:
            self._write_done.clear()
            await self._write_done.wait()
