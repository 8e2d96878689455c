"""Restores a ManagedCluster that another worker had from its log at the hub: in one transaction, or not at all.

Until then there is no copy, so no controller creates, serves or reports it. The fence keeps controllers beside the
server from writing to it until all their informers have seen it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import orjson

from shoal.clock import rfc3339
from shoal.fleet.bus.interface import BusMessage, Name, StatusReport
from shoal.fleet.resources import MANAGED_CLUSTERS, NAMESPACES
from shoal.fleet.worker.cluster_keys import logical_cluster_key
from shoal.fleet.worker.cluster_storage import ClusterStorage
from shoal.fleet.worker.deps import WorkerDeps
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.replication import hub_log
from shoal.fleet.worker.replication.segments import LogCorrupted, ReplayedState, SegmentMissing, replay_log
from shoal.fleet.worker.restore.decide import (
    adapt_entries,
    adapt_templates,
    is_obsolete_copy,
    restore_failed_status,
    restore_revision,
    restoring_status,
)
from shoal.fleet.worker.subscriber.decide import needs_restore, version_of
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1, migration
from shoal.kinds.fleet.cluster_log import LogKey
from shoal.kinds.fleet.logicalcluster import token_keys
from shoal.objects.conditions import get_condition
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller, RequeueError

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

INFORMER_GRACE_SECONDS = 0.25
"""After all informers are up to date: work started before that is denied and started again."""
RETRY_SECONDS = 30.0


class HostedNameConflict(Exception):
    pass


class RestoreReconciler:
    def __init__(self, deps: WorkerDeps, storage: ClusterStorage, fence: WriteFence) -> None:
        self._own, self._hub, self._clock = deps.own, deps.hub, deps.clock
        self._bus, self._registration = deps.bus, deps.registration
        self._storage, self._fence = storage, fence
        self.controller: Controller[Name] = Controller("fleet-restoring", deps.clock, self.reconcile)
        deps.bus.add_event_handler(self.controller.queue.add)
        deps.informers.add_event_handler(self.controller.queue.add)

    async def reconcile(self, name: Name) -> float | None:
        message = self._bus.latest(name)
        if message is None:
            return None
        copy = await self._get_copy(name)
        if copy is not None and is_obsolete_copy(message, copy):
            await self._registration.verify_hub()
            await self._storage.replace(embedded.logical_cluster_name(*name), {})
            return None
        if message.deleting or not needs_restore(message, copy):
            return None
        if not self._registration.joined.is_set():
            raise RequeueError("the worker has not joined the hub")
        now = rfc3339(self._clock.now())
        try:
            await self._restore(name, message, copy, now)
        except SegmentMissing as error:
            await self._report(message, restore_failed_status(message.managed, infrav1.LOG_MISSING, str(error), now))
        except LogCorrupted as error:
            await self._report(message, restore_failed_status(message.managed, infrav1.LOG_TORN, str(error), now))
        except HostedNameConflict as error:
            await self._report(message, restore_failed_status(message.managed, infrav1.HOST_TAKEN, str(error), now))
        else:
            return None
        return RETRY_SECONDS

    async def _restore(self, name: Name, message: BusMessage, copy: Object | None, now: str) -> None:
        hosted, source = embedded.logical_cluster_name(*name), migration.restore_source(message.managed)
        if self._storage.unsupported_reason:
            await self._report(
                message,
                restore_failed_status(message.managed, infrav1.NOT_RESTORABLE, self._storage.unsupported_reason, now),
            )
            return
        if get_condition(message.managed, migration.RESTORED) is None:
            await self._report(message, restoring_status(message.managed, now))
        await self._ensure_namespace(name[0])
        self._fence.close(hosted, self.controller.name, "it is being restored from its log")
        try:
            if copy is None and self._storage.contents(hosted).entries:
                raise HostedNameConflict(f"this worker already has another logical cluster {hosted}")
            await self._storage.flush()
            first, state = await self._replay_log(name, message, copy, int(source["epoch"]))
            min_revision = restore_revision(state, self._storage.revision)
            entries = adapt_entries(
                state, message, self._registration.hub_id, min_revision, (int(source["epoch"]), first)
            )
            await self._storage.replace(hosted, entries, min_revision, adapt_templates(state, name[0]))
            await self._storage.wait_for_informers()
            await self._clock.sleep(INFORMER_GRACE_SECONDS)
        finally:
            self._fence.open(hosted, self.controller.name)
        log.info("%s/%s: restored %d objects, as of revision %d", *name, len(entries), state.revision)

    async def _replay_log(
        self, name: Name, message: BusMessage, copy: Object | None, epoch: int
    ) -> tuple[int, ReplayedState]:
        """Returns the first segment of the log, and the replayed state."""
        backup = migration.backup_status(message.managed)
        is_known = backup.get("epoch") == epoch and bool(backup.get("first"))
        first = int(backup["first"]) if is_known else 0
        if copy is not None and version_of(copy).epoch == epoch:
            return first, self._local_state(embedded.logical_cluster_name(*name), int(backup.get("last") or 0))
        if not is_known:
            raise SegmentMissing(f"the hub has no first segment of the log of epoch {epoch}")
        log_key = LogKey(*name, message.version.uid, epoch)
        segments = [segment async for segment in hub_log.read_segments(self._hub, log_key, first)]
        if not segments:
            raise SegmentMissing(f"segment {first} of the log of epoch {epoch} not found")
        return first, replay_log(segments, epoch, first, int(migration.restore_source(message.managed)["revision"]))

    def _local_state(self, hosted: str, last: int) -> ReplayedState:
        """The log is this worker's own and nothing was written since: the local contents are complete."""
        contents = self._storage.contents(hosted)
        keys = (*token_keys(orjson.loads(contents.entries[logical_cluster_key(hosted)])), *self._storage.token_keys)
        return ReplayedState(contents.revision, dict(contents.entries), keys, last)

    async def _report(self, message: BusMessage, status: Object) -> None:
        with suppress(NotFound):  # The hub has deleted it meanwhile; a message will follow.
            await self._bus.report(message, StatusReport(status))

    async def _get_copy(self, name: Name) -> Object | None:
        try:
            return await self._own.get(MANAGED_CLUSTERS, name[1], name[0])
        except NotFound:
            return None

    async def _ensure_namespace(self, namespace: str) -> None:
        try:
            await self._own.get(NAMESPACES, namespace)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with suppress(AlreadyExists):
                await self._own.create(NAMESPACES, body)
