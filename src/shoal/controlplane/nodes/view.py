"""Shared informers of Nodes and of the pods bound to them, for all node controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Kind
from shoal.clock import Clock
from shoal.controlplane.nodes.places import Places

Object = dict[str, Any]
Changed = Callable[[Key, Object | None], None]
G = TypeVar("G")

NODES = Kind("", "v1", "nodes", namespaced=False)
PODS = Kind("", "v1", "pods")


class View:
    """Notifies its handlers of every change in managed clusters; the object is None if it was deleted."""

    name = "nodes"

    def __init__(self, places: Places, clock: Clock) -> None:
        self.places = places
        self.node_listeners: list[Changed] = []
        self.pod_listeners: list[Changed] = []
        """Handlers for pods that are bound to a node."""
        self._nodes = Reflector(places.reader, NODES, clock, self._node_changed, shared=True)
        self._pods = Reflector(places.reader, PODS, clock, self._pod_changed, shared=True)
        self._bound: dict[Key, Key] = {}
        self._on: dict[Key, dict[Key, None]] = {}
        """Pods by node; the inverse of `_node_by_pod`."""
        self._nodes_in: dict[str, dict[Key, None]] = {}
        self._pods_in: dict[str, dict[Key, None]] = {}
        """By cluster: a store may have very many clusters."""
        places.listeners.append(self._place_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for source in (self.places, self._nodes, self._pods):
                group.create_task(source.run())

    @property
    def synced(self) -> bool:
        """Whether the nodes were listed, so that a node that is missing here did not exist at that time."""
        return self._nodes.synced

    def node(self, key: Key) -> Object | None:
        return self._nodes.objects.get(key)

    def pod(self, key: Key) -> Object | None:
        return self._pods.objects.get(key)

    def node_of(self, key: Key) -> Key | None:
        """Returns the node a pod is bound to, whether or not the Node exists."""
        return self._bound.get(key)

    def pods_on(self, node: Key) -> Iterable[Key]:
        return tuple(self._on.get(node, ()))

    def _place_changed(self, cluster: str) -> None:
        for key in tuple(self._nodes_in.get(cluster, ())):
            self._tell(self.node_listeners, key, self.node(key))
        for key in tuple(self._pods_in.get(cluster, ())):
            self._tell(self.pod_listeners, key, self.pod(key))

    def _node_changed(self, key: Key, node: Object | None) -> None:
        if node is None:
            _take_out(self._nodes_in, key[0], key)
        else:
            self._nodes_in.setdefault(key[0], {})[key] = None
        self._tell(self.node_listeners, key, node)

    def _pod_changed(self, key: Key, pod: Object | None) -> None:
        before = self._bound.get(key)
        name = pod["spec"].get("nodeName") if pod is not None else None
        after = (key[0], "", name) if name else None
        if before != after:
            self._rebind(key, before, after)
        if after is not None or before is not None:
            self._tell(self.pod_listeners, key, pod if after is not None else None)

    def _rebind(self, key: Key, before: Key | None, after: Key | None) -> None:
        if before is not None:
            del self._bound[key]
            _take_out(self._on, before, key)
            _take_out(self._pods_in, key[0], key)
        if after is not None:
            self._bound[key] = after
            self._on.setdefault(after, {})[key] = None
            self._pods_in.setdefault(key[0], {})[key] = None

    def _tell(self, listeners: list[Changed], key: Key, obj: Object | None) -> None:
        if obj is None or self.places.has(key[0]):
            for listener in listeners:
                listener(key, obj)


def _take_out(index: dict[G, dict[Key, None]], group: G, key: Key) -> None:
    members = index.get(group, {})
    members.pop(key, None)
    if not members:
        index.pop(group, None)
