"""Cleans up on the hub for syncers that run elsewhere or are gone.

Removes the finalizers of deleted workload Clusters. Merges the statuses that dependencies have in several clusters.
Labels the dependencies of objects assigned to a cluster whose syncer runs elsewhere: that syncer may read only objects
that carry its label.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.dependency_status import merged_dependency_status
from shoal.sync.syncer.hub_informers import HubInformers, SyncKey
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.references import DependencyRef

Object = dict[str, Any]


class FinalizerCleanup:
    def __init__(self, client: Client, clock: Clock, hub: HubInformers, hub_writer: HubWriter) -> None:
        self._client, self._hub, self._hub_writer = client, hub, hub_writer
        self.controller: Controller[tuple[SyncKey, str] | DependencyRef] = Controller(
            "syncer-keeping", clock, self._reconcile
        )
        self._remote_clusters: set[str] = set()
        self.have_clusters_synced = False
        """All workload Clusters have been listed."""
        hub.on_unclaimed_finalizer = lambda work, finalizer: self.controller.queue.add((work, finalizer))
        hub.on_reference = self.controller.queue.add

    def set_remote(self, cluster: str, is_remote: bool) -> None:
        """Sets whether the syncer of a cluster runs in another process."""
        if is_remote == (cluster in self._remote_clusters):
            return
        if is_remote:
            self._remote_clusters.add(cluster)
        else:
            self._remote_clusters.discard(cluster)
        for ref in self._hub.references.references_in(cluster):
            self.controller.queue.add(ref)

    def release_all(self, cluster: str) -> None:
        """The workload Cluster is deleted: no hub object waits for it any longer."""
        finalizer = workloadcluster.syncer_finalizer(cluster)
        for sync_key in self._hub.all_keys_for(cluster):
            self.controller.queue.add((sync_key, finalizer))

    async def _reconcile(self, key: tuple[SyncKey, str] | DependencyRef) -> None:
        if isinstance(key, DependencyRef):
            await self._update_dependency_labels(key)
            await self._update_dependency_status(key)
        else:
            await self._remove_orphaned_finalizer(*key)

    async def _remove_orphaned_finalizer(self, sync_key: SyncKey, finalizer: str) -> None:
        """Removes a finalizer whose workload Cluster is known not to exist."""
        obj = await self._hub_writer.get_live(sync_key)
        if obj is None or finalizer not in workloadcluster.syncer_finalizers(obj):
            return
        clusters, _ = await self._client.list_all(CLUSTERS)
        if all(workloadcluster.syncer_finalizer(cluster["metadata"]["name"]) != finalizer for cluster in clusters):
            await self._hub_writer.remove_finalizer(sync_key, obj, finalizer)

    async def _update_dependency_labels(self, ref: DependencyRef) -> None:
        sync_key = self._hub.key_for(ref)
        cached = self._hub.get_cached(sync_key) if sync_key is not None else None
        if sync_key is None or cached is None:
            return  # enqueued again when it exists
        current = {
            key
            for key in cached["metadata"].get("labels") or ()
            if key.startswith(workloadcluster.DEPENDENCY_LABEL_PREFIX)
        }
        desired = {
            workloadcluster.dependency_label(each)
            for each in self._hub.references.clusters_of(ref) & self._remote_clusters
        }
        if current == desired:
            return
        if not desired >= current and not (self.have_clusters_synced and self._hub.has_synced()):
            raise RequeueError("informers of the objects that may reference it have not synced yet")
        labels: Object = dict.fromkeys(desired, "") | dict.fromkeys(current - desired)
        patch = {"metadata": {"uid": cached["metadata"]["uid"], "labels": labels}}
        try:
            await self._client.merge_patch(sync_key.resource.gvr, sync_key.name, patch, sync_key.namespace)
        except NotFound:
            return

    async def _update_dependency_status(self, ref: DependencyRef) -> None:
        sync_key = self._hub.key_for(ref)
        cached = self._hub.get_cached(sync_key) if sync_key is not None else None
        if sync_key is None or cached is None or workloadcluster.assigned_cluster(cached):
            return
        merged = merged_dependency_status(cached, self._hub.references.clusters_of(ref))
        if merged.stale and not (self.have_clusters_synced and self._hub.has_synced()):
            raise RequeueError("informers of the objects that may reference it have not synced yet")
        with suppress(NotFound):
            if merged.status is not None:
                await self._hub_writer.put_status(sync_key, merged.status)
            if merged.stale:
                patch = {"metadata": {"uid": cached["metadata"]["uid"], "annotations": dict.fromkeys(merged.stale)}}
                await self._client.merge_patch(sync_key.resource.gvr, sync_key.name, patch, sync_key.namespace)
