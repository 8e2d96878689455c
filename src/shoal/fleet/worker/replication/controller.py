"""Replicates the log of hosted clusters to the hub: of those that migrate when this worker is lost, and of those that
leave it.

A cluster that leaves is frozen first, which its copy records; the rest is shipped, and `status.backup.final` says that
nothing will follow. Before it continues here after all, that statement is withdrawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from shoal.clock import rfc3339
from shoal.fleet.bus.interface import BusMessage, Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.cluster_keys import logical_cluster_key
from shoal.fleet.worker.cluster_storage import ClusterContents, ClusterStorage, StoreChange
from shoal.fleet.worker.deps import WorkerDeps
from shoal.fleet.worker.fence.decide import FROZEN_ANNOTATION, is_leaving, is_movable
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.hub_status import update_hub_status
from shoal.fleet.worker.replication import hub_log
from shoal.fleet.worker.replication.decide import (
    NOT_MOVABLE,
    RESTORED_LOG_ANNOTATION,
    ReplicationAction,
    next_action,
    restored_log_range,
)
from shoal.fleet.worker.replication.log import ClusterLog
from shoal.fleet.worker.replication.segments import LogRecord
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1, logicalcluster, migration
from shoal.kinds.fleet.cluster_log import LogKey
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]

PAUSE_SECONDS = 0.5
"""Between two shipments of a cluster."""
STATUS_SECONDS = 5.0
"""Between two progress updates, where nothing else is new."""
HEARTBEAT_SECONDS = 120.0
"""After which the hub is told that there was nothing to ship."""
LARGE_RECORD = 64
"""Records with more changes are encoded in a thread."""


class ReplicationReconciler:
    def __init__(self, deps: WorkerDeps, storage: ClusterStorage, fence: WriteFence) -> None:
        self._hub, self._own, self._clock, self._bus, self._informers = (
            deps.hub,
            deps.own,
            deps.clock,
            deps.bus,
            deps.informers,
        )
        self._storage, self._fence, self._worker = storage, fence, deps.worker
        self._registration = deps.registration
        self._logs: dict[str, ClusterLog] = {}
        """By hosted cluster."""
        self._shipped_at: dict[str, float] = {}
        self._reported: dict[str, tuple[float, int]] = {}
        """When progress was last reported, and up to which revision."""
        self.controller: Controller[Name] = Controller("fleet-shipping", deps.clock, self.reconcile)
        storage.set_change_handler(self._on_store_changes)
        deps.bus.add_event_handler(self.controller.queue.add)
        deps.informers.add_event_handler(self.controller.queue.add)

    def _on_store_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            for hosted in self._logged_clusters(change):
                self._logs[hosted].add_changes((change,))
                self.controller.queue.add_after(embedded.owner_of_logical_cluster(hosted), PAUSE_SECONDS)

    def _logged_clusters(self, change: StoreChange) -> list[str]:
        """Returns the hosted clusters whose log gets the change."""
        if change.cluster:
            return [change.cluster] if change.cluster in self._logs else []
        namespace = change.key.split("/")[3]
        return [hosted for hosted in self._logs if embedded.owner_of_logical_cluster(hosted)[0] == namespace]

    def enqueue_all(self) -> None:
        """Ships pending changes at once: the hub is reachable again."""
        for hosted in self._logs:
            self.controller.queue.add(embedded.owner_of_logical_cluster(hosted))

    async def reconcile(self, name: Name) -> float | None:
        message, copy = self._bus.latest(name), self._informers.get(MANAGED_CLUSTERS, *name)
        hosted, action = (
            embedded.logical_cluster_name(*name),
            next_action(message, copy, self._worker, self._storage.unsupported_reason),
        )
        if action not in (ReplicationAction.SHIP, ReplicationAction.FREEZE):
            for by_cluster in (self._logs, self._shipped_at, self._reported):
                by_cluster.pop(hosted, None)
        if message is None or copy is None:
            return None
        match action:
            case ReplicationAction.FREEZE:
                await self._annotate(name, copy, {FROZEN_ANNOTATION: rfc3339(self._clock.now())})
            case ReplicationAction.THAW:
                await self._thaw(name, copy)
            case ReplicationAction.REFUSE:
                await self._report_unsupported(name, message, copy)
            case ReplicationAction.END:
                await self._delete_log(name, message, copy)
            case ReplicationAction.SHIP:
                return await self._replicate(name, hosted, message, copy)
            case ReplicationAction.NOTHING:
                pass
        return None

    async def _replicate(self, name: Name, hosted: str, message: BusMessage, copy: Object) -> float | None:
        log = self._logs.get(hosted)
        if log is None or log.epoch != message.version.epoch:
            if not self._storage.has(logical_cluster_key(hosted)):
                return PAUSE_SECONDS  # It is still being created.
            if not is_leaving(message.managed, self._worker) and not self._fence.is_confirmed(hosted):
                return PAUSE_SECONDS  # The hub first confirms the holder, then learns of the log.
            if not self._registration.announced.is_set():
                return PAUSE_SECONDS  # The hub gives the log to workers that can read it.
            log = self._logs[hosted] = await self._start_log(name, message)
        is_frozen = FROZEN_ANNOTATION in copy["metadata"]["annotations"]
        if log.final_revision and (
            message.version.revision < log.final_revision or migration.backup_status(message.managed).get("final")
        ):
            return None  # Unless the hub has planned it again since and needs another final report.
        now = self._clock.monotonic()
        ship_at = self._shipped_at.get(hosted, now - PAUSE_SECONDS) + PAUSE_SECONDS
        if not is_frozen and now < ship_at:
            return ship_at - now
        if is_frozen:
            await self._storage.flush()
        while log.has_pending or log.needs_base:
            is_base = await self._send_batch(hosted, message, log)
            self._shipped_at[hosted] = self._clock.monotonic()
            if not is_frozen and not is_base:
                break
        requeue_after = await self._report_progress(name, hosted, copy, log, is_frozen)
        if restored_log_range(copy) is not None and log.base_segment:
            await self._delete_source_log(name, copy)
        return requeue_after

    async def _start_log(self, name: Name, message: BusMessage) -> ClusterLog:
        """After a restart nothing is known of earlier changes: it starts with a base, above the segments that exist."""
        backup, epoch = migration.backup_status(message.managed), message.version.epoch
        first, last = _segment_range(backup) if backup.get("epoch") == epoch else (1, 0)
        number = await hub_log.next_free_number(self._hub, LogKey(*name, message.version.uid, epoch), last + 1)
        return ClusterLog(epoch, number, oldest_segment=first)

    async def _send_batch(self, hosted: str, message: BusMessage, log: ClusterLog) -> bool:
        """Sends one batch. Returns whether it was a base."""
        if log.pending_batch is None:
            record = self._base_record(hosted, log) if log.needs_base else log.new_increment()
            if record is None:
                return False
            is_large = len(record.changes) > LARGE_RECORD
            log.pending_batch = (
                await asyncio.to_thread(log.encode_batch, record) if is_large else log.encode_batch(record)
            )
        batch = log.pending_batch
        for number, segment in enumerate(batch.segments, batch.first):
            await hub_log.write_segment(
                self._hub, LogKey(*message.name, message.version.uid, log.epoch), number, segment
            )
        log.mark_written(batch)
        return batch.is_base

    def _base_record(self, hosted: str, log: ClusterLog) -> LogRecord:
        contents = self._storage.contents(hosted)
        log.token_keys = (*_previous_token_keys(contents, hosted), *self._storage.token_keys)
        return log.new_base(contents)

    async def _report_progress(
        self, name: Name, hosted: str, copy: Object, log: ClusterLog, is_frozen: bool
    ) -> float | None:
        now = self._clock.monotonic()
        reported_at, revision = self._reported.get(hosted, (now - STATUS_SECONDS, 0))
        is_final = is_frozen and not log.has_pending
        interval = HEARTBEAT_SECONDS if revision == log.revision else STATUS_SECONDS
        if not is_final and log.oldest_segment == log.base_segment and now < reported_at + interval:
            return reported_at + interval - now
        backup: Object = {
            "worker": self._worker,
            "epoch": log.epoch,
            "revision": log.revision,
            "time": rfc3339(self._clock.now()),
            "bytes": log.base_bytes,
            "first": log.base_segment,
            "last": log.next_segment - 1,
            "complete": True,
        }
        if is_final:
            backup["final"] = True

        def change(managed: Object) -> Object:
            if is_final and not is_leaving(managed, self._worker):
                raise RequeueError("the migration was cancelled")
            return {**infrav1.status_of(managed), "backup": backup}

        managed = await update_hub_status(self._hub, self._worker, name, copy, change)
        self._reported[hosted] = self._clock.monotonic(), log.revision
        log.final_revision = int(managed["metadata"]["resourceVersion"]) if is_final else 0
        hub_key = LogKey(*name, version_of(copy).uid, log.epoch)
        await hub_log.delete_segments(self._hub, hub_key, range(log.oldest_segment, log.base_segment))
        log.oldest_segment = log.base_segment
        return None if is_final else HEARTBEAT_SECONDS

    async def _thaw(self, name: Name, copy: Object) -> None:
        def change(managed: Object) -> Object:
            if is_leaving(managed, self._worker):
                raise RequeueError("the migration was requested again")
            backup = {key: value for key, value in migration.backup_status(managed).items() if key != "final"}
            return {**infrav1.status_of(managed), "backup": backup} if backup else infrav1.status_of(managed)

        await update_hub_status(self._hub, self._worker, name, copy, change)
        await self._annotate(name, copy, {FROZEN_ANNOTATION: None})

    async def _report_unsupported(self, name: Name, message: BusMessage, copy: Object) -> None:
        reason = self._storage.unsupported_reason if is_movable(copy) else NOT_MOVABLE
        backup = {"worker": self._worker, "epoch": message.version.epoch, "complete": False, "message": reason}
        if migration.backup_status(message.managed) != backup:
            await update_hub_status(
                self._hub, self._worker, name, copy, lambda managed: {**infrav1.status_of(managed), "backup": backup}
            )

    async def _delete_log(self, name: Name, message: BusMessage, copy: Object) -> None:
        """Deletes logs that are no longer needed: its own, and the one it was restored from."""
        backup = migration.backup_status(message.managed)
        if backup.get("worker") == self._worker and backup.get("epoch") == message.version.epoch:
            first, last = _segment_range(backup)
            hub_key = LogKey(*name, message.version.uid, message.version.epoch)
            end = await hub_log.next_free_number(self._hub, hub_key, last + 1)

            def change(managed: Object) -> Object:
                return {key: value for key, value in infrav1.status_of(managed).items() if key != "backup"}

            await update_hub_status(self._hub, self._worker, name, copy, change)
            await hub_log.delete_segments(self._hub, hub_key, range(first, end))
        await self._delete_source_log(name, copy)

    async def _delete_source_log(self, name: Name, copy: Object) -> None:
        source_log = restored_log_range(copy)
        if source_log is not None:
            epoch, first, last = source_log
            hub_key = LogKey(*name, version_of(copy).uid, epoch)
            end = await hub_log.next_free_number(self._hub, hub_key, last + 1)
            await hub_log.delete_segments(self._hub, hub_key, range(first, end))
            await self._annotate(name, copy, {RESTORED_LOG_ANNOTATION: None})

    async def _annotate(self, name: Name, copy: Object, annotations: dict[str, str | None]) -> None:
        metadata = {"resourceVersion": copy["metadata"]["resourceVersion"], "annotations": annotations}
        await self._own.merge_patch(MANAGED_CLUSTERS, name[1], {"metadata": metadata}, name[0])


def _segment_range(backup: Object) -> tuple[int, int]:
    """Returns first and last segment of a log."""
    first = int(backup.get("first") or 1)
    return first, int(backup.get("last") or first - 1)


def _previous_token_keys(contents: ClusterContents, hosted: str) -> tuple[str, ...]:
    """Returns the token keys the cluster has from its previous workers."""
    value = contents.entries.get(logical_cluster_key(hosted))
    return logicalcluster.token_keys(orjson.loads(value)) if value is not None else ()
