"""Shared informers of the provisioner and indexes over them (Karpenter's state.Cluster).

A logical cluster without a Cluster API Cluster is left out: another provisioner may serve it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Kind
from shoal.clock import Clock
from shoal.fit.resources import Resources, pod_requests
from shoal.kinds.karpenter import CLASS_GROUP, CLASS_VERSION, GROUP, OVERLAY_VERSION, VERSION
from shoal.provision.homes import Homes
from shoal.provision.pods import is_provisionable
from shoal.provision.shelf import Shelf

Object = dict[str, Any]

POOLS = Kind(GROUP, VERSION, "nodepools", namespaced=False)
CLAIMS = Kind(GROUP, VERSION, "nodeclaims", namespaced=False)
CLASSES = Kind(CLASS_GROUP, CLASS_VERSION, "clusterapinodeclasses", namespaced=False)
OVERLAYS = Kind(GROUP, OVERLAY_VERSION, "nodeoverlays", namespaced=False)
NODES = Kind("", "v1", "nodes", namespaced=False)
PODS = Kind("", "v1", "pods")
DAEMON_SETS = Kind("apps", "v1", "daemonsets")
PDBS = Kind("policy", "v1", "poddisruptionbudgets")
NAMESPACES = Kind("", "v1", "namespaces", namespaced=False)
VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims")
VOLUMES = Kind("", "v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", namespaced=False)


class View:
    name = "provision-view"

    def __init__(self, homes: Homes, clock: Clock) -> None:
        def shelf(kind: Kind) -> Shelf:
            return Shelf(homes.hosted, kind, clock, admits=lambda cluster: homes.of(cluster) is not None)

        self.pools, self.claims, self.classes = shelf(POOLS), shelf(CLAIMS), shelf(CLASSES)
        self.overlays = shelf(OVERLAYS)
        self.nodes, self.pods, self.daemon_sets = shelf(NODES), shelf(PODS), shelf(DAEMON_SETS)
        self.pdbs = shelf(PDBS)
        self.namespaces, self.volume_claims = shelf(NAMESPACES), shelf(VOLUME_CLAIMS)
        self.volumes, self.storage_classes = shelf(VOLUMES), shelf(STORAGE_CLASSES)
        self._on_node: dict[tuple[str, str], dict[Key, Object]] = {}
        self._waiting: dict[str, dict[Key, Object]] = {}
        self._requests: dict[str, tuple[Object, Resources]] = {}
        self._by_provider_id: dict[tuple[str, str], str] = {}
        self.pods.listen(self._pod)
        self.nodes.listen(self._node)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for shelf in self._shelves():
                group.create_task(shelf.run())

    @property
    def synced(self) -> bool:
        """True after the first complete list of every kind. Before that, a missing object is not known to be absent."""
        return all(shelf.synced for shelf in self._shelves())

    def _shelves(self) -> Iterable[Shelf]:
        own = (self.pools, self.claims, self.classes, self.overlays)
        around = (self.namespaces, self.volume_claims, self.volumes, self.storage_classes)
        return *own, self.nodes, self.pods, self.daemon_sets, self.pdbs, *around

    def pods_on(self, cluster: str, node: str) -> list[Object]:
        return list(self._on_node.get((cluster, node), {}).values())

    def waiting(self, cluster: str) -> list[Object]:
        """Pods that the scheduler found no node for."""
        return list(self._waiting.get(cluster, {}).values())

    def node_of(self, cluster: str, provider_id: str) -> Object | None:
        name = self._by_provider_id.get((cluster, provider_id)) if provider_id else None
        return self.nodes.get(cluster, name) if name is not None else None

    def requests(self, pod: Object) -> Resources:
        """Resource requests of a pod, computed once per version of the pod."""
        metadata = pod["metadata"]
        known = self._requests.get(metadata["uid"])
        if known is None or known[0] is not pod:
            known = self._requests[metadata["uid"]] = (pod, pod_requests(pod))
        return known[1]

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_provisionable(new):
            self._waiting.setdefault(key[0], {})[key] = new
        elif key in self._waiting.get(key[0], {}):
            del self._waiting[key[0]][key]
            if not self._waiting[key[0]]:
                del self._waiting[key[0]]
        before, after = _node_name(old), _node_name(new)
        if new is None and old is not None:
            self._requests.pop(old["metadata"]["uid"], None)
        if before and before != after:
            here = self._on_node.get((key[0], before), {})
            here.pop(key, None)
            if not here:
                self._on_node.pop((key[0], before), None)
        if new is not None and after:
            self._on_node.setdefault((key[0], after), {})[key] = new

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = provider_id_of(old), provider_id_of(new)
        if before and before != after and self._by_provider_id.get((key[0], before)) == key[2]:
            del self._by_provider_id[key[0], before]
        if after:
            self._by_provider_id[key[0], after] = key[2]


def provider_id_of(node: Object | None) -> str:
    return str(((node or {}).get("spec") or {}).get("providerID") or "")


def _node_name(pod: Object | None) -> str:
    return str(((pod or {}).get("spec") or {}).get("nodeName") or "")
