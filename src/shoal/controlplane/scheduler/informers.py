"""Informers of the scheduler. Pods and nodes are always watched, other kinds once a pod depends on them.

Most clusters have no pod with volumes or preemption, so nothing is listed or cached for those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.scheduler.cluster_scheduler import (
    CLAIMS,
    CLASSES,
    CSI_NODES,
    NAMESPACES,
    PDBS,
    SERVICES,
    VOLUMES,
    ClusterScheduler,
)
from shoal.fit.default_spread import OWNER_KINDS
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]
ClusterEventHandler = Callable[[ClusterScheduler], bool]
"""Delivers an event to a ClusterScheduler. Returns whether there may be something to schedule."""

PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
LAZY_RESOURCES = {
    NAMESPACES: GroupVersionResource("", "v1", NAMESPACES, namespaced=False),
    PDBS: GroupVersionResource("policy", "v1", PDBS),
    SERVICES: GroupVersionResource("", "v1", SERVICES),
    **{
        resource: GroupVersionResource(api_version.rpartition("/")[0], "v1", resource)
        for (api_version, _), resource in OWNER_KINDS.items()
    },
    CLAIMS: GroupVersionResource("", "v1", CLAIMS),
    VOLUMES: GroupVersionResource("", "v1", VOLUMES, namespaced=False),
    CLASSES: GroupVersionResource("storage.k8s.io", "v1", CLASSES, namespaced=False),
    CSI_NODES: GroupVersionResource("storage.k8s.io", "v1", CSI_NODES, namespaced=False),
}


class SchedulerEventHandler(Protocol):
    def handle_object(self, cluster: str, handler: ClusterEventHandler) -> None: ...

    def handle_dependency(self, cluster: str, handler: ClusterEventHandler) -> None: ...

    def handle_logical_cluster(self, key: Key, old: Object | None, new: Object | None) -> None: ...

    def on_sync(self) -> None:
        """Called when a list is complete and every kind has synced."""

    def reset(self) -> None:
        """Called before every object is delivered again."""


class SchedulerInformers:
    def __init__(self, client: Client, clock: Clock, event_handler: SchedulerEventHandler) -> None:
        self._client, self._clock, self._event_handler = client, clock, event_handler
        wildcard = client.in_cluster("*")
        self.pods = Informer(wildcard, PODS, clock, indexers=(by_cluster,))
        self.nodes = Informer(wildcard, NODES, clock, indexers=(by_cluster,))
        self.clusters = Informer(client.in_cluster("root"), LOGICAL_CLUSTERS, clock)
        self.pods.add_event_handler(self._on_pod)
        self.nodes.add_event_handler(self._on_node)
        self.clusters.add_event_handler(event_handler.handle_logical_cluster)
        for informer in (self.pods, self.nodes, self.clusters):
            informer.on_sync(self._on_sync)
        self._lazy: dict[str, Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        """The task group of all informers while they run."""

    @property
    def has_synced(self) -> bool:
        """Whether every kind was listed. Before that a node may look emptier than it is."""
        first = self.pods.has_synced and self.nodes.has_synced and self.clusters.has_synced
        return first and all(each.has_synced for each in self._lazy.values())

    def require_kind(self, kind: str) -> None:
        """Starts watching a kind. Nothing is scheduled before it has synced."""
        if kind not in self._lazy:
            informer = Informer(self._client.in_cluster("*"), LAZY_RESOURCES[kind], self._clock, indexers=(by_cluster,))
            informer.add_event_handler(partial(self._on_lazy_object, kind))
            informer.on_sync(self._on_sync)
            self._lazy[kind] = informer
            if self._group is not None:
                self._group.create_task(informer.run())

    async def run(self) -> None:
        self._event_handler.reset()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informer in (self.pods, self.nodes, self.clusters, *self._lazy.values()):
                    group.create_task(informer.run())
        finally:
            self._group = None

    def replay_dependencies(self, cluster: str, cluster_scheduler: ClusterScheduler) -> None:
        """Delivers the known objects of lazily watched kinds to a new ClusterScheduler."""
        for kind, informer in tuple(self._lazy.items()):
            for obj in informer.by_index(by_cluster, cluster):
                _handler_for(kind, key_of(obj), obj)(cluster_scheduler)

    def replay(self, cluster: str) -> None:
        """Delivers all pods and nodes of a cluster again."""
        for node in self.nodes.by_index(by_cluster, cluster):
            self._on_node(key_of(node), None, node)
        for pod in self.pods.by_index(by_cluster, cluster):
            self._on_pod(key_of(pod), None, pod)

    def _on_sync(self) -> None:
        if self.has_synced:
            self._event_handler.on_sync()

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._event_handler.handle_object(key[0], lambda home: home.on_pod(key[1:], new))

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._event_handler.handle_object(key[0], lambda home: home.on_node(key[2], new))

    def _on_lazy_object(self, kind: str, key: Key, old: Object | None, new: Object | None) -> None:
        self._event_handler.handle_dependency(key[0], _handler_for(kind, key, new))


def _handler_for(kind: str, key: Key, obj: Object | None) -> ClusterEventHandler:
    match kind:
        case "namespaces":
            return lambda home: home.on_namespace(key[2], obj)
        case "poddisruptionbudgets":
            return lambda home: home.on_pdb(key[1:], obj)
        case "services":
            return lambda home: home.on_service(key[1:], obj)
        case "replicasets" | "replicationcontrollers" | "statefulsets":
            return lambda home: home.on_owner(kind, key[1:], obj)
        case "persistentvolumeclaims":
            return lambda home: home.on_claim(key[1:], obj)
        case "persistentvolumes":
            return lambda home: home.on_volume(key[2], obj)
        case "csinodes":
            return lambda home: home.on_csi_node(key[2], obj)
    return lambda home: home.on_storage_class(key[2], obj)
