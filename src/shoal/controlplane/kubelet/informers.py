"""Shared informers of Nodes and of the pods bound to them, for all node controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.kubelet.cluster_source import ClusterSource

Object = dict[str, Any]
ObjectHandler = Callable[[Key, Object | None], None]
G = TypeVar("G")

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS = GroupVersionResource("", "v1", "pods")


class NodeInformers:
    """Notifies its handlers of every change in managed clusters; the object is None if it was deleted."""

    name = "nodes"

    def __init__(self, clusters: ClusterSource, clock: Clock) -> None:
        self.clusters = clusters
        self.node_handlers: list[ObjectHandler] = []
        self.pod_handlers: list[ObjectHandler] = []
        """Handlers for pods that are bound to a node."""
        self._nodes = Reflector(clusters.reader, NODES, clock, self._on_node, shared=True)
        self._pods = Reflector(clusters.reader, PODS, clock, self._on_pod, shared=True)
        self._node_by_pod: dict[Key, Key] = {}
        self._pods_by_node: dict[Key, dict[Key, None]] = {}
        """Pods by node; the inverse of `_node_by_pod`."""
        self._nodes_by_cluster: dict[str, dict[Key, None]] = {}
        self._pods_by_cluster: dict[str, dict[Key, None]] = {}
        """By cluster: a store may have very many clusters."""
        clusters.event_handlers.append(self._on_cluster)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for source in (self.clusters, self._nodes, self._pods):
                group.create_task(source.run())

    @property
    def has_synced(self) -> bool:
        """Whether the nodes were listed, so that a node that is missing here did not exist at that time."""
        return self._nodes.has_synced

    def node(self, key: Key) -> Object | None:
        return self._nodes.objects.get(key)

    def pod(self, key: Key) -> Object | None:
        return self._pods.objects.get(key)

    def node_of(self, key: Key) -> Key | None:
        """Returns the node a pod is bound to, whether or not the Node exists."""
        return self._node_by_pod.get(key)

    def pods_on(self, node: Key) -> Iterable[Key]:
        return tuple(self._pods_by_node.get(node, ()))

    def _on_cluster(self, cluster: str) -> None:
        for key in tuple(self._nodes_by_cluster.get(cluster, ())):
            self._notify(self.node_handlers, key, self.node(key))
        for key in tuple(self._pods_by_cluster.get(cluster, ())):
            self._notify(self.pod_handlers, key, self.pod(key))

    def _on_node(self, key: Key, node: Object | None) -> None:
        if node is None:
            _remove_from_index(self._nodes_by_cluster, key[0], key)
        else:
            self._nodes_by_cluster.setdefault(key[0], {})[key] = None
        self._notify(self.node_handlers, key, node)

    def _on_pod(self, key: Key, pod: Object | None) -> None:
        before = self._node_by_pod.get(key)
        name = pod["spec"].get("nodeName") if pod is not None else None
        after = (key[0], "", name) if name else None
        if before != after:
            self._rebind(key, before, after)
        if after is not None or before is not None:
            self._notify(self.pod_handlers, key, pod if after is not None else None)

    def _rebind(self, key: Key, before: Key | None, after: Key | None) -> None:
        if before is not None:
            del self._node_by_pod[key]
            _remove_from_index(self._pods_by_node, before, key)
            _remove_from_index(self._pods_by_cluster, key[0], key)
        if after is not None:
            self._node_by_pod[key] = after
            self._pods_by_node.setdefault(after, {})[key] = None
            self._pods_by_cluster.setdefault(key[0], {})[key] = None

    def _notify(self, listeners: list[ObjectHandler], key: Key, obj: Object | None) -> None:
        if obj is None or self.clusters.is_managed(key[0]):
            for listener in listeners:
                listener(key, obj)


def _remove_from_index(index: dict[G, dict[Key, None]], group: G, key: Key) -> None:
    members = index.get(group, {})
    members.pop(key, None)
    if not members:
        index.pop(group, None)
