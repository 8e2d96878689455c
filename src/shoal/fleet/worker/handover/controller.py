"""Hands over: a cluster that the hub has assigned to another worker is closed here, and deleted when that worker has
restored it.

It is deleted below the API, so that no finalizer acts on what now belongs to the other worker. Silence of the hub about
a cluster is no reason; a later epoch with another worker is. The copy records that, and the hub is told by removing
this worker from `status.formerWorkers`: until then the hub keeps the ManagedCluster.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.cluster_storage import ClusterStorage
from shoal.fleet.worker.deps import WorkerDeps
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Forbidden, NotFound
from shoal.runtime.controller import Controller, RequeueError

HANDED_OVER_ANNOTATION = "shoal.dev/left"
"""Annotation of a copy that is being deleted, with its epoch: the hub has named its holder in a later epoch, whatever
it says afterwards. A copy that is this worker's again in a later epoch is not handed over.
"""


class HandoverAction(Enum):
    KEEP = "ours"
    """It is this worker's, as far as is known."""
    CLOSE = "close"
    """It is another worker's: nothing of it is written here any more."""
    LEAVE = "leave"
    """It is another worker's, which has restored all of it."""


def decide_handover(managed: Object, copy: Object, worker: str) -> HandoverAction:
    version, holder = version_of(copy), infrav1.assigned_worker(managed)
    if managed["metadata"]["uid"] != version.uid or infrav1.epoch(managed) <= version.epoch or holder in ("", worker):
        return HandoverAction.KEEP
    if not migration.restore_source(managed) or infrav1.is_deleting(managed):
        return HandoverAction.LEAVE  # Nothing of it was ever written here, or it is being deleted.
    return HandoverAction.LEAVE if condition_is(managed, migration.RESTORED) else HandoverAction.CLOSE


def is_handed_over(copy: Object) -> bool:
    return bool((copy["metadata"].get("annotations") or {}).get(HANDED_OVER_ANNOTATION) == str(version_of(copy).epoch))


def without_former_worker(managed: Object, worker: str, copy: Object | None = None) -> Object | None:
    """Returns the ManagedCluster without that worker in formerWorkers; None if the hub does not wait for it, or not for
    this object.
    """
    former_workers, is_other = (
        migration.former_workers(managed),
        copy is not None and version_of(copy).uid != managed["metadata"]["uid"],
    )
    if worker not in former_workers or is_other:
        return None
    status = {**infrav1.status_of(managed), "formerWorkers": [name for name in former_workers if name != worker]}
    return {**managed, "status": status}


log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

LOOK_SECONDS = 2.0
SELDOM_SECONDS = 60.0


class HandoverReconciler:
    def __init__(self, deps: WorkerDeps, storage: ClusterStorage, fence: WriteFence) -> None:
        self._hub, self._own, self._bus, self._informers = deps.hub, deps.own, deps.bus, deps.informers
        self._registration = deps.registration
        self._storage, self._fence, self._worker = storage, fence, deps.worker
        self._awaited: set[Name] = set()
        """ManagedClusters for which the hub waits for the confirmation that nothing is left here."""
        deps.registration.on_cleanup_awaited = self._on_cleanup_awaited
        self.controller: Controller[Name] = Controller("fleet-yielding", deps.clock, self.reconcile)
        deps.bus.add_event_handler(self.controller.queue.add)
        deps.informers.add_event_handler(self.controller.queue.add)

    async def reconcile(self, name: Name) -> float | None:
        if not self._informers.has_synced:
            raise RequeueError("informers of the worker's own API have not synced yet")
        copy, message = self._informers.get(MANAGED_CLUSTERS, *name), self._bus.latest(name)
        hosted = embedded.logical_cluster_name(*name)
        if copy is None:
            if message is None and name in self._awaited and not self._storage.contents(hosted).entries:
                await self._report_deleted(name, None)
                self._awaited.discard(name)
            return None
        if message is not None:  # The hub has it assigned to this worker.
            self._fence.open(hosted, self.controller.name)
            return None
        if not self._registration.joined.is_set():
            raise RequeueError("the worker has not joined the hub")
        if is_handed_over(copy):
            await self._delete_cluster(name, hosted, copy)
            return None
        try:
            managed = await self._hub.get(MANAGED_CLUSTERS, name[1], name[0])
        except (NotFound, Forbidden):
            return SELDOM_SECONDS  # That is no information.
        action = decide_handover(managed, copy, self._worker)
        if action is HandoverAction.KEEP:
            return SELDOM_SECONDS
        holder = infrav1.assigned_worker(managed)
        self._fence.close(hosted, self.controller.name, f"the hub has assigned it to worker {holder}")
        if action is HandoverAction.CLOSE:
            return LOOK_SECONDS
        await self._registration.verify_hub()
        metadata_patch = {
            "resourceVersion": copy["metadata"]["resourceVersion"],
            "annotations": {HANDED_OVER_ANNOTATION: str(version_of(copy).epoch)},
        }
        copy = await self._own.merge_patch(MANAGED_CLUSTERS, name[1], {"metadata": metadata_patch}, name[0])
        await self._delete_cluster(name, hosted, copy)
        return None

    async def _delete_cluster(self, name: Name, hosted: str, copy: Object) -> None:
        self._fence.close(hosted, self.controller.name, "the hub has assigned it to another worker")
        await self._report_deleted(name, copy)
        if self._bus.latest(name) is not None:
            raise RequeueError("the hub has assigned it to this worker again")
        await self._storage.replace(hosted, {})
        self._fence.open(hosted, self.controller.name)
        log.info("%s/%s: moved to another worker; deleted its data here", *name)

    async def _report_deleted(self, name: Name, copy: Object | None) -> None:
        try:
            managed = await self._hub.get(MANAGED_CLUSTERS, name[1], name[0])
            updated = without_former_worker(managed, self._worker, copy)
            if updated is not None:
                await self._hub.update(MANAGED_CLUSTERS, updated, "status")
        except (NotFound, Forbidden):
            return  # The hub does not wait for it.

    def _on_cleanup_awaited(self, name: Name) -> None:
        self._awaited.add(name)
        self.controller.queue.add(name)
