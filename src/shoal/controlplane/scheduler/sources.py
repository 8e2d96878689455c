"""Informers of the scheduler. Pods and nodes are always watched, other kinds once a pod depends on them.

Most clusters have no pod with volumes or preemption, so nothing is listed or cached for those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.scheduler.home import BUDGETS, CLAIMS, CLASSES, NAMESPACES, VOLUMES, Home
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION

Object = dict[str, Any]
See = Callable[[Home], bool]
"""Delivers an event to a ClusterScheduler. Returns whether there may be something to schedule."""

PODS = Kind("", "v1", "pods")
NODES = Kind("", "v1", "nodes", namespaced=False)
CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)
LATER = {
    NAMESPACES: Kind("", "v1", NAMESPACES, namespaced=False),
    BUDGETS: Kind("policy", "v1", BUDGETS),
    CLAIMS: Kind("", "v1", CLAIMS),
    VOLUMES: Kind("", "v1", VOLUMES, namespaced=False),
    CLASSES: Kind("storage.k8s.io", "v1", CLASSES, namespaced=False),
}


class Watcher(Protocol):
    def seen(self, cluster: str, see: See) -> None: ...

    def seen_besides(self, cluster: str, see: See) -> None: ...

    def seen_cluster(self, key: Key, obj: Object | None) -> None: ...

    def informed(self) -> None:
        """Called when a list is complete and every kind has synced."""


class Sources:
    def __init__(self, client: Client, clock: Clock, watcher: Watcher) -> None:
        self._client, self._clock, self._watcher = client, clock, watcher
        wildcard = client.at("*")
        self.pods = Reflector(wildcard, PODS, clock, self._pod, listed=self._listed, shared=True)
        self.nodes = Reflector(wildcard, NODES, clock, self._node, listed=self._listed, shared=True)
        self.clusters = Reflector(client.at("root"), CLUSTERS, clock, watcher.seen_cluster, listed=self._listed)
        self._later: dict[str, Reflector] = {}
        self._of: dict[str, set[tuple[str, Key]]] = {}
        """Objects of lazily watched kinds, by cluster."""
        self._started: asyncio.Queue[Reflector] = asyncio.Queue()

    @property
    def informed(self) -> bool:
        """Whether every kind was listed. Before that a node may look emptier than it is."""
        first = self.pods.synced and self.nodes.synced and self.clusters.synced
        return first and all(each.synced for each in self._later.values())

    def need(self, kind: str) -> None:
        """Starts watching a kind. Nothing is scheduled before it has synced."""
        if kind not in self._later:
            made = Reflector(
                self._client.at("*"), LATER[kind], self._clock, lambda key, obj: self._other(kind, key, obj),
                listed=self._listed, shared=True,
            )  # fmt: skip
            self._later[kind] = made
            self._started.put_nowait(made)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in (self.pods, self.nodes, self.clusters):
                group.create_task(reflector.run())
            while True:
                group.create_task((await self._started.get()).run())

    def introduce(self, cluster: str, home: Home) -> None:
        """Delivers the known objects to a new ClusterScheduler."""
        for kind, key in list(self._of.get(cluster, ())):
            _show(kind, key, self._later[kind].objects.get(key))(home)

    def _listed(self) -> None:
        if self.informed:
            self._watcher.informed()

    def _pod(self, key: Key, obj: Object | None) -> None:
        self._watcher.seen(key[0], lambda home: home.see_pod(key[1:], obj))

    def _node(self, key: Key, obj: Object | None) -> None:
        self._watcher.seen(key[0], lambda home: home.see_node(key[2], obj))

    def _other(self, kind: str, key: Key, obj: Object | None) -> None:
        there = self._of.setdefault(key[0], set())
        if obj is not None:
            there.add((kind, key))
        else:
            there.discard((kind, key))
            if not there:
                del self._of[key[0]]
        self._watcher.seen_besides(key[0], _show(kind, key, obj))


def _show(kind: str, key: Key, obj: Object | None) -> See:
    match kind:
        case "namespaces":
            return lambda home: home.see_namespace(key[2], obj)
        case "poddisruptionbudgets":
            return lambda home: home.see_budget(key[1:], obj)
        case "persistentvolumeclaims":
            return lambda home: home.see_claim(key[1:], obj)
        case "persistentvolumes":
            return lambda home: home.see_volume(key[2], obj)
    return lambda home: home.see_class(key[2], obj)
