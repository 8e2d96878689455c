"""Informers of the scheduler. Pods and nodes are always watched, other kinds once a pod depends on them.

Most clusters have no pod with volumes or preemption, so nothing is listed or cached for those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.scheduler.cluster_scheduler import CLAIMS, CLASSES, NAMESPACES, PDBS, VOLUMES, ClusterScheduler
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION

Object = dict[str, Any]
ClusterEventHandler = Callable[[ClusterScheduler], bool]
"""Delivers an event to a ClusterScheduler. Returns whether there may be something to schedule."""

PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
LAZY_RESOURCES = {
    NAMESPACES: GroupVersionResource("", "v1", NAMESPACES, namespaced=False),
    PDBS: GroupVersionResource("policy", "v1", PDBS),
    CLAIMS: GroupVersionResource("", "v1", CLAIMS),
    VOLUMES: GroupVersionResource("", "v1", VOLUMES, namespaced=False),
    CLASSES: GroupVersionResource("storage.k8s.io", "v1", CLASSES, namespaced=False),
}


class SchedulerEventHandler(Protocol):
    def handle_object(self, cluster: str, handler: ClusterEventHandler) -> None: ...

    def handle_dependency(self, cluster: str, handler: ClusterEventHandler) -> None: ...

    def handle_logical_cluster(self, key: Key, obj: Object | None) -> None: ...

    def on_sync(self) -> None:
        """Called when a list is complete and every kind has synced."""


class SchedulerInformers:
    def __init__(self, client: Client, clock: Clock, event_handler: SchedulerEventHandler) -> None:
        self._client, self._clock, self._event_handler = client, clock, event_handler
        wildcard = client.in_cluster("*")
        self.pods = Reflector(wildcard, PODS, clock, self._on_pod, on_sync=self._on_sync, shared=True)
        self.nodes = Reflector(wildcard, NODES, clock, self._on_node, on_sync=self._on_sync, shared=True)
        self.clusters = Reflector(
            client.in_cluster("root"),
            LOGICAL_CLUSTERS,
            clock,
            event_handler.handle_logical_cluster,
            on_sync=self._on_sync,
        )
        self._lazy: dict[str, Reflector] = {}
        self._objects_by_cluster: dict[str, set[tuple[str, Key]]] = {}
        """Objects of lazily watched kinds, by cluster."""
        self._new_reflectors: asyncio.Queue[Reflector] = asyncio.Queue()

    @property
    def has_synced(self) -> bool:
        """Whether every kind was listed. Before that a node may look emptier than it is."""
        first = self.pods.has_synced and self.nodes.has_synced and self.clusters.has_synced
        return first and all(each.has_synced for each in self._lazy.values())

    def require_kind(self, kind: str) -> None:
        """Starts watching a kind. Nothing is scheduled before it has synced."""
        if kind not in self._lazy:
            reflector = Reflector(
                self._client.in_cluster("*"), LAZY_RESOURCES[kind], self._clock, lambda key,
                obj: self._on_lazy_object(kind, key, obj),
                on_sync=self._on_sync, shared=True,
            )  # fmt: skip
            self._lazy[kind] = reflector
            self._new_reflectors.put_nowait(reflector)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in (self.pods, self.nodes, self.clusters):
                group.create_task(reflector.run())
            while True:
                group.create_task((await self._new_reflectors.get()).run())

    def replay(self, cluster: str, cluster_scheduler: ClusterScheduler) -> None:
        """Delivers the known objects to a new ClusterScheduler."""
        for kind, key in list(self._objects_by_cluster.get(cluster, ())):
            _handler_for(kind, key, self._lazy[kind].objects.get(key))(cluster_scheduler)

    def _on_sync(self) -> None:
        if self.has_synced:
            self._event_handler.on_sync()

    def _on_pod(self, key: Key, obj: Object | None) -> None:
        self._event_handler.handle_object(key[0], lambda home: home.on_pod(key[1:], obj))

    def _on_node(self, key: Key, obj: Object | None) -> None:
        self._event_handler.handle_object(key[0], lambda home: home.on_node(key[2], obj))

    def _on_lazy_object(self, kind: str, key: Key, obj: Object | None) -> None:
        objects = self._objects_by_cluster.setdefault(key[0], set())
        if obj is not None:
            objects.add((kind, key))
        else:
            objects.discard((kind, key))
            if not objects:
                del self._objects_by_cluster[key[0]]
        self._event_handler.handle_dependency(key[0], _handler_for(kind, key, obj))


def _handler_for(kind: str, key: Key, obj: Object | None) -> ClusterEventHandler:
    match kind:
        case "namespaces":
            return lambda home: home.on_namespace(key[2], obj)
        case "poddisruptionbudgets":
            return lambda home: home.on_pdb(key[1:], obj)
        case "persistentvolumeclaims":
            return lambda home: home.on_claim(key[1:], obj)
        case "persistentvolumes":
            return lambda home: home.on_volume(key[2], obj)
    return lambda home: home.on_storage_class(key[2], obj)
