"""Removes the content finalizer of deleted LogicalClusters. The server deletes a cluster's content when its last
finalizer is removed.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.logicalclusters.decide import is_terminating, without_finalizer
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller

Object = dict[str, Any]

WORKERS = 64
"""Each worker mostly waits for the store, which commits their writes together."""
CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)


def logical_cluster_controller(client: Client, clock: Clock) -> Controller:
    loop = LogicalClusterLoop(client)
    return Controller("logicalclusters", client, CLUSTERS, clock, is_terminating, loop.reconcile, workers=WORKERS)


class LogicalClusterLoop:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key, seen: Object) -> float | None:
        try:
            cluster = await self._client.get(CLUSTERS, key[2])
            if is_terminating(cluster):
                await self._client.update(CLUSTERS, without_finalizer(cluster))
        except NotFound:
            pass
        return None
