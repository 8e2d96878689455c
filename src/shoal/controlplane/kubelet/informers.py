"""Shared informers of Nodes and of the pods bound to them, for all node controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.kubelet.cluster_source import ClusterSource
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]
ObjectHandler = Callable[[Key, Object | None], None]

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS = GroupVersionResource("", "v1", "pods")


class NodeInformers:
    """Notifies its handlers of every change in managed clusters; the object is None if it was deleted."""

    name = "nodes"

    def __init__(self, clusters: ClusterSource, clock: Clock) -> None:
        self.clusters = clusters
        self._node_handlers: list[ObjectHandler] = []
        self._pod_handlers: list[ObjectHandler] = []
        self._nodes = Informer(clusters.reader, NODES, clock, indexers=(by_cluster,))
        self._pods = Informer(clusters.reader, PODS, clock, indexers=(by_cluster, by_node))
        clusters.event_handlers.append(self._on_cluster)

    def add_node_handler(self, handler: ObjectHandler) -> None:
        self._node_handlers.append(handler)
        self._nodes.add_event_handler(partial(self._on_node, handler))

    def add_pod_handler(self, handler: ObjectHandler) -> None:
        """Adds a handler for pods that are bound to a node."""
        self._pod_handlers.append(handler)
        self._pods.add_event_handler(partial(self._on_pod, handler))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for source in (self.clusters, self._nodes, self._pods):
                group.create_task(source.run())

    @property
    def has_synced(self) -> bool:
        """Whether the nodes were listed, so that a node that is missing here did not exist at that time."""
        return self._nodes.has_synced

    def node(self, key: Key) -> Object | None:
        return self._nodes.get(key)

    def pod(self, key: Key) -> Object | None:
        return self._pods.get(key)

    def node_of(self, key: Key) -> Key | None:
        """Returns the node a pod is bound to, whether or not the Node exists."""
        return _node_key(key, self._pods.get(key))

    def pods_on(self, node: Key) -> list[Key]:
        return [key_of(pod) for pod in self._pods.by_index(by_node, node)]

    def _on_cluster(self, cluster: str) -> None:
        for node in self._nodes.by_index(by_cluster, cluster):
            for handler in self._node_handlers:
                self._on_node(handler, key_of(node), None, node)
        for pod in self._pods.by_index(by_cluster, cluster):
            for handler in self._pod_handlers:
                self._on_pod(handler, key_of(pod), None, pod)

    def _on_node(self, handler: ObjectHandler, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or self.clusters.is_managed(key[0]):
            handler(key, new)

    def _on_pod(self, handler: ObjectHandler, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = _node_key(key, old), _node_key(key, new)
        if after is None:
            if before is not None:
                handler(key, None)
        elif self.clusters.is_managed(key[0]):
            handler(key, new)


def by_node(key: Key, pod: Object) -> tuple[Key, ...]:
    """Index of pods by the node they are bound to."""
    node = _node_key(key, pod)
    return (node,) if node is not None else ()


def _node_key(key: Key, pod: Object | None) -> Key | None:
    name = pod["spec"].get("nodeName") if pod is not None else None
    return (key[0], "", name) if name else None
