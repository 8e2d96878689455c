"""Cleans up on the hub for syncers that run elsewhere or are gone.

Removes the finalizers of deleted workload Clusters. Labels the dependencies of objects assigned to a cluster whose
syncer runs elsewhere: that syncer may read only objects that carry its label.
"""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.hub import Hub, Work
from shoal.sync.syncer.hubwrites import HubWrites
from shoal.sync.syncer.references import Ref

Object = dict[str, Any]


class Keeping:
    def __init__(self, client: Client, clock: Clock, hub: Hub, writes: HubWrites) -> None:
        self._client, self._hub, self._writes = client, hub, writes
        self.loop: Loop[tuple[Work, str] | Ref] = Loop("syncer-keeping", clock, self._reconcile)
        self._elsewhere: set[str] = set()
        self.clusters_known = False
        """All workload Clusters have been listed."""
        hub.unheard = lambda work, finalizer: self.loop.queue.add((work, finalizer))
        hub.named = self.loop.queue.add

    def set_elsewhere(self, cluster: str, elsewhere: bool) -> None:
        """Sets whether the syncer of a cluster runs in another process."""
        if elsewhere == (cluster in self._elsewhere):
            return
        if elsewhere:
            self._elsewhere.add(cluster)
        else:
            self._elsewhere.discard(cluster)
        for ref in self._hub.references.of_cluster(cluster):
            self.loop.queue.add(ref)

    def release_all(self, cluster: str) -> None:
        """The workload Cluster is deleted: no hub object waits for it any longer."""
        finalizer = workload.finalizer_of(cluster)
        for work in self._hub.all_meant_for(cluster):
            self.loop.queue.add((work, finalizer))

    async def _reconcile(self, key: tuple[Work, str] | Ref) -> None:
        if isinstance(key, Ref):
            await self._label(key)
        else:
            await self._release_gone(*key)

    async def _release_gone(self, work: Work, finalizer: str) -> None:
        """Removes a finalizer whose workload Cluster is known not to exist."""
        obj = await self._writes.fresh(work)
        if obj is None or finalizer not in workload.syncer_finalizers(obj):
            return
        clusters, _ = await self._client.list_all(CLUSTERS)
        if all(workload.finalizer_of(cluster["metadata"]["name"]) != finalizer for cluster in clusters):
            await self._writes.release(work, obj, finalizer)

    async def _label(self, ref: Ref) -> None:
        work = self._hub.work_of(ref)
        seen = self._hub.cached(work) if work is not None else None
        if work is None or seen is None:
            return  # enqueued again when it exists
        found = {key for key in seen["metadata"].get("labels") or () if key.startswith(workload.DEPENDENCY)}
        wanted = {workload.dependency_label(each) for each in self._hub.references.clusters(ref) & self._elsewhere}
        if found == wanted:
            return
        if not wanted >= found and not (self.clusters_known and self._hub.is_complete()):
            raise Later("not everybody who may name it is known yet")
        labels: Object = dict.fromkeys(wanted, "") | dict.fromkeys(found - wanted)
        patch = {"metadata": {"uid": seen["metadata"]["uid"], "labels": labels}}
        try:
            await self._client.merge(work.synced.resource, work.name, patch, work.namespace)
        except NotFound:
            return
