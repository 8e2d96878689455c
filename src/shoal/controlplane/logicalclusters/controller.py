"""Removes the content finalizer of deleted LogicalClusters. The server deletes a cluster's content when its last
finalizer is removed.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.fleet.logicalcluster import CONTENT_FINALIZER, GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, new_kind_controller
from shoal.runtime.informer import Informer


def is_terminating(cluster: Object) -> bool:
    metadata = cluster["metadata"]
    return "deletionTimestamp" in metadata and CONTENT_FINALIZER in (metadata.get("finalizers") or ())


def without_finalizer(cluster: Object) -> Object:
    metadata = cluster["metadata"]
    kept = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != CONTENT_FINALIZER]
    return {**cluster, "metadata": {**metadata, "finalizers": kept}}


Object = dict[str, Any]

WORKERS = 64
"""Each worker mostly waits for the store, which commits their writes together."""
LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)


def new_logical_cluster_controller(client: Client, clock: Clock) -> Controller[Key]:
    reconciler = LogicalClusterReconciler(client)
    clusters = Informer(client, LOGICAL_CLUSTERS, clock)
    return new_kind_controller("logicalclusters", clusters, clock, is_terminating, reconciler.reconcile, WORKERS)


class LogicalClusterReconciler:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key, cached: Object) -> float | None:
        try:
            cluster = await self._client.get(LOGICAL_CLUSTERS, key[2])
            if is_terminating(cluster):
                await self._client.update(LOGICAL_CLUSTERS, without_finalizer(cluster))
        except NotFound:
            pass
        return None
