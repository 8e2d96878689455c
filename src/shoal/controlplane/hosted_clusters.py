"""Selects the logical clusters of profile `cluster`: workload controllers act only there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.runtime.informer import Informer

Object = dict[str, Any]
K = TypeVar("K", bound=Hashable)

LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)


class HostedClusterFilter:
    """One informer for all workload controllers. It has to be run like them."""

    name = "hosted-clusters"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._logical_clusters = Informer(client.in_cluster("root"), LOGICAL_CLUSTERS, clock)
        self._logical_clusters.add_event_handler(self._on_logical_cluster)
        self._waiting: dict[str, set[tuple[Callable[[Any], None], Any]]] = {}

    async def run(self) -> None:
        await self._logical_clusters.run()

    def accepts(self, cluster: str, enqueue: Callable[[K], None], key: K) -> bool:
        """Returns whether controllers act in the cluster. The key of an unknown cluster is enqueued once the cluster is
        known.
        """
        logical_cluster = self._logical_clusters.get(("", "", cluster))
        if logical_cluster is None:
            self._waiting.setdefault(cluster, set()).add((enqueue, key))
            return False
        return (logical_cluster.get("spec") or {}).get(
            "profile"
        ) == "cluster" and "deletionTimestamp" not in logical_cluster["metadata"]

    def _on_logical_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        for enqueue, waiting_key in self._waiting.pop(key[2], ()):
            if new is not None:
                enqueue(waiting_key)
