"""Asks the hub to confirm that a cluster with `onWorkerLost: Move` is this worker's, after every lapse of its Lease.

`status.held` is the worker's promise to stop writing by itself. It is given before the first write, and withdrawn at
the hub before the fence is removed. The copy records it for a process that restarts.
"""

from __future__ import annotations

from typing import Any

from shoal.clock import rfc3339_micro
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.deps import WorkerDeps
from shoal.fleet.worker.fence.decide import HELD_ANNOTATION, is_leaving
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.hub_status import update_hub_status
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1, migration
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]


class OwnershipReconciler:
    def __init__(self, deps: WorkerDeps, fence: WriteFence) -> None:
        self._hub, self._own, self._clock, self._informers = deps.hub, deps.own, deps.clock, deps.informers
        self._fence, self._worker = fence, deps.worker
        self.controller: Controller[Name] = Controller("fleet-confirming", deps.clock, self.reconcile)
        deps.bus.add_event_handler(self.controller.queue.add)
        deps.informers.add_event_handler(self.controller.queue.add)

    def enqueue_all(self) -> None:
        """Enqueues all copies: the Lease had expired."""
        for copy in self._informers.copies():
            self.controller.queue.add((copy["metadata"]["namespace"], copy["metadata"]["name"]))

    async def reconcile(self, name: Name) -> None:
        copy = self._informers.get(MANAGED_CLUSTERS, *name)
        if copy is None:
            return
        hosted = embedded.logical_cluster_name(*name)
        is_annotated = HELD_ANNOTATION in (copy["metadata"].get("annotations") or {})
        if migration.migrates_on_worker_loss(copy):
            if self._fence.hold(hosted).is_guarded and not self._fence.is_confirmed(hosted) and self._fence.is_live:
                await self._confirm(name, hosted, copy, is_annotated)
        elif is_annotated:
            await self._withdraw(name, copy)

    async def _confirm(self, name: Name, hosted: str, copy: Object, is_annotated: bool) -> None:
        epoch, lapses = version_of(copy).epoch, self._fence.lapses
        if not is_annotated:
            await self._annotate(name, copy, str(epoch))
        held = {"worker": self._worker, "epoch": epoch, "time": rfc3339_micro(self._clock.now())}

        def change(managed: Object) -> Object:
            if is_leaving(managed, self._worker):
                raise RequeueError("the ManagedCluster is about to move to another worker")
            if migration.lease_guard(managed) == held:
                raise RequeueError("status.held is unchanged, but the compare-and-swap on the hub needs a change")
            return {**infrav1.status_of(managed), "held": held}

        await update_hub_status(self._hub, self._worker, name, copy, change)
        if not self._fence.confirm(hosted, epoch, lapses):
            raise RequeueError("the Lease expired meanwhile")

    async def _withdraw(self, name: Name, copy: Object) -> None:
        def change(managed: Object) -> Object | None:
            if migration.migrates_on_worker_loss(managed):
                raise RequeueError(
                    "migration on worker loss was enabled again"
                )  # A message to this worker will follow.
            return {key: value for key, value in infrav1.status_of(managed).items() if key != "held"}

        await update_hub_status(self._hub, self._worker, name, copy, change)
        await self._annotate(name, copy, None)

    async def _annotate(self, name: Name, copy: Object, held: str | None) -> None:
        metadata = {"resourceVersion": copy["metadata"]["resourceVersion"], "annotations": {HELD_ANNOTATION: held}}
        await self._own.merge_patch(MANAGED_CLUSTERS, name[1], {"metadata": metadata}, name[0])
