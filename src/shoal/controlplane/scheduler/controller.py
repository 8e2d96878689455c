"""Pod scheduler: one for all hosted clusters of a store. Keys are logical clusters of profile `cluster`.

Decisions are in `cluster_scheduler` and the modules it uses, reads in `informers`, writes in `cycle` and `binder`.
"""

from __future__ import annotations

import asyncio
from typing import Any
from zlib import crc32

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.scheduler.binder import Binder
from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.cycle import SchedulingCycle
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.informers import ClusterEventHandler, SchedulerInformers
from shoal.controlplane.scheduler.metrics import PENDING_PODS
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.manager import Runnable

Object = dict[str, Any]


def new_scheduler_controllers(client: Client, clock: Clock) -> list[Runnable]:
    scheduler = PodScheduler(client.as_controller("kube-scheduler"), clock)
    return [scheduler.controller, scheduler.recorder]


class PodScheduler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.controller: Controller[str] = Controller("scheduler", clock, self.reconcile)
        self.cluster_schedulers: dict[str, ClusterScheduler] = {}
        self._equivalence_classes = EquivalenceClasses()
        self.recorder = EventRecorder(client.in_cluster, clock)
        self.informers = SchedulerInformers(client, clock, self)
        self.controller.sources += [self.informers.run, self._report_pending]

    async def _report_pending(self) -> None:
        def read_pending() -> list[tuple[str, dict[str, str], float]]:
            counts = [
                (cluster, *cluster_scheduler.pending_counts)
                for cluster, cluster_scheduler in self.cluster_schedulers.items()
            ]
            return [
                (cluster, {"queue": queue}, float(number))
                for cluster, active, resting in counts
                for queue, number in (("active", active), ("unschedulable", resting))
            ]

        with PENDING_PODS.registration(read_pending):
            await asyncio.Event().wait()

    def handle_object(self, cluster: str, handler: ClusterEventHandler) -> None:
        """Handles a pod or node event."""
        cluster_scheduler = self.cluster_schedulers.get(cluster)
        if cluster_scheduler is None:
            cluster_scheduler = self.cluster_schedulers[cluster] = ClusterScheduler(
                self._equivalence_classes, lambda name: crc32(name.encode()), self.informers.require_kind
            )
            self.informers.replay_dependencies(cluster, cluster_scheduler)
        if handler(cluster_scheduler):
            self.controller.queue.add(cluster)
        if cluster_scheduler.is_empty:
            del self.cluster_schedulers[cluster]

    def handle_dependency(self, cluster: str, handler: ClusterEventHandler) -> None:
        """Handles events of other kinds, which matter only in clusters with pods."""
        cluster_scheduler = self.cluster_schedulers.get(cluster)
        if cluster_scheduler is not None and handler(cluster_scheduler):
            self.controller.queue.add(cluster)

    def handle_logical_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.cluster_schedulers.pop(key[2], None)
        elif key[2] in self.cluster_schedulers:
            self.controller.queue.add(key[2])

    def on_sync(self) -> None:
        for cluster in self.cluster_schedulers:
            self.controller.queue.add(cluster)

    def reset(self) -> None:
        """Forgets assumptions about pods whose bindings were interrupted."""
        self.cluster_schedulers.clear()

    async def reconcile(self, cluster: str) -> float | None:
        cluster_scheduler, logical_cluster = (
            self.cluster_schedulers.get(cluster),
            self.informers.clusters.get(("", "", cluster)),
        )
        if (
            not self.informers.has_synced
            or cluster_scheduler is None
            or logical_cluster is None
            or logical_cluster["spec"].get("profile") != "cluster"
        ):
            return None
        writer = Binder(self._client, self._clock, self.recorder, cluster)
        cycle = SchedulingCycle(cluster_scheduler, writer, self._clock.monotonic)
        try:
            await cycle.run()
        except Exception:
            # Assumptions about pods whose bindings were interrupted are wrong: start from the state of the API.
            self.cluster_schedulers.pop(cluster, None)
            self.informers.replay(cluster)
            raise
        if cycle.failures:
            raise cycle.failures[0]
        return cluster_scheduler.next_report_after(self._clock.monotonic())
