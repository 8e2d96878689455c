"""Deletes mirrored pods from the hub whose cluster is gone or no longer requests mirroring.

The hub's process does this for all clusters, wherever their syncers run: a removed syncer cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.informer import Informer
from shoal.sync.discovery import serves_mirrored_pods_only
from shoal.sync.resources import PODS

Object = dict[str, Any]

RETRY_SECONDS = 5.0


class MirrorCleanup:
    """`on_mirrored_cluster` is called for every cluster with mirrored pods at the start, when `clusters` has synced."""

    def __init__(
        self, client: Client, clock: Clock, clusters: Informer, on_mirrored_cluster: Callable[[str], None]
    ) -> None:
        self._client, self._clock, self._clusters = client, clock, clusters
        self._on_mirrored_cluster = on_mirrored_cluster
        self._cleaned: set[str] = set()
        """Clusters that do not request mirroring and have no mirrored pods."""

    async def run(self) -> None:
        await self._clusters.wait_for_sync()
        while True:
            try:
                pods = await self._list(workloadcluster.MIRRORED_FROM_LABEL)
                break
            except (StatusError, Unreachable):
                await self._clock.sleep(RETRY_SECONDS)
        for cluster in {workloadcluster.mirror_source(pod) for pod in pods}:
            self._on_mirrored_cluster(cluster)

    async def reconcile(self, name: str, cluster: Object | None) -> None:
        """None: there is no workload Cluster of that name."""
        if cluster is not None and workloadcluster.mirrors_resource(cluster, "pods"):
            self._cleaned.discard(name)
            return
        if name in self._cleaned:
            return
        for _ in range(2):  # a pod may have been created after the first list
            for pod in await self._list(f"{workloadcluster.MIRRORED_FROM_LABEL}={name}"):
                metadata = pod["metadata"]
                with suppress(NotFound):
                    await self._client.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        if cluster is not None:
            self._cleaned.add(name)
        else:
            self._cleaned.discard(name)

    async def _list(self, labels: str) -> list[Object]:
        try:
            pods, _ = await self._client.list_all(PODS, labels=labels)
        except NotFound:
            return []
        # On a hub with pods of its own the label proves nothing.
        return pods if pods and await serves_mirrored_pods_only(self._client) else []
