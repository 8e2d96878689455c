"""Shared informers of the provisioner and indexes over them (Karpenter's state.Cluster).

A logical cluster without a Cluster API Cluster is left out: another provisioner may serve it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock
from shoal.fit.resources import Resources, pod_requests
from shoal.kinds.karpenter.karpenter import GROUP, NODE_CLASS_GROUP, NODE_CLASS_VERSION, NODE_OVERLAY_VERSION, VERSION
from shoal.provision.informer import Informer
from shoal.provision.management import ManagementResolver
from shoal.provision.pods import is_provisionable

Object = dict[str, Any]

NODE_POOLS = GroupVersionResource(GROUP, VERSION, "nodepools", namespaced=False)
NODE_CLAIMS = GroupVersionResource(GROUP, VERSION, "nodeclaims", namespaced=False)
NODE_CLASSES = GroupVersionResource(NODE_CLASS_GROUP, NODE_CLASS_VERSION, "clusterapinodeclasses", namespaced=False)
NODE_OVERLAYS = GroupVersionResource(GROUP, NODE_OVERLAY_VERSION, "nodeoverlays", namespaced=False)
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS = GroupVersionResource("", "v1", "pods")
DAEMON_SETS = GroupVersionResource("apps", "v1", "daemonsets")
PDBS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
VOLUME_CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")
VOLUMES = GroupVersionResource("", "v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = GroupVersionResource("storage.k8s.io", "v1", "storageclasses", namespaced=False)


class ClusterState:
    name = "provision-view"

    def __init__(self, resolver: ManagementResolver, clock: Clock) -> None:
        def new_informer(kind: GroupVersionResource) -> Informer:
            return Informer(
                resolver.hosted_client,
                kind,
                clock,
                admits=lambda cluster: resolver.capi_cluster_of(cluster) is not None,
            )

        self.node_pools, self.node_claims, self.node_classes = (
            new_informer(NODE_POOLS),
            new_informer(NODE_CLAIMS),
            new_informer(NODE_CLASSES),
        )
        self.node_overlays = new_informer(NODE_OVERLAYS)
        self.nodes, self.pods, self.daemon_sets = new_informer(NODES), new_informer(PODS), new_informer(DAEMON_SETS)
        self.pdbs = new_informer(PDBS)
        self.namespaces, self.volume_claims = new_informer(NAMESPACES), new_informer(VOLUME_CLAIMS)
        self.volumes, self.storage_classes = new_informer(VOLUMES), new_informer(STORAGE_CLASSES)
        self._pods_by_node: dict[tuple[str, str], dict[Key, Object]] = {}
        self._pending: dict[str, dict[Key, Object]] = {}
        self._requests: dict[str, tuple[Object, Resources]] = {}
        self._by_provider_id: dict[tuple[str, str], str] = {}
        self.pods.add_event_handler(self._on_pod)
        self.nodes.add_event_handler(self._on_node)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                group.create_task(informer.run())

    @property
    def has_synced(self) -> bool:
        """True after the first complete list of every kind. Before that, a missing object is not known to be absent."""
        return all(shelf.has_synced for shelf in self._informers())

    def _informers(self) -> Iterable[Informer]:
        karpenter = (self.node_pools, self.node_claims, self.node_classes, self.node_overlays)
        others = (self.namespaces, self.volume_claims, self.volumes, self.storage_classes)
        return *karpenter, self.nodes, self.pods, self.daemon_sets, self.pdbs, *others

    def pods_on(self, cluster: str, node: str) -> list[Object]:
        return list(self._pods_by_node.get((cluster, node), {}).values())

    def pending_pods(self, cluster: str) -> list[Object]:
        """Pods that the scheduler found no node for."""
        return list(self._pending.get(cluster, {}).values())

    def node_by_provider_id(self, cluster: str, provider_id: str) -> Object | None:
        name = self._by_provider_id.get((cluster, provider_id)) if provider_id else None
        return self.nodes.get(cluster, name) if name is not None else None

    def requests_of(self, pod: Object) -> Resources:
        """Resource requests of a pod, computed once per version of the pod."""
        metadata = pod["metadata"]
        cached = self._requests.get(metadata["uid"])
        if cached is None or cached[0] is not pod:
            cached = self._requests[metadata["uid"]] = (pod, pod_requests(pod))
        return cached[1]

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_provisionable(new):
            self._pending.setdefault(key[0], {})[key] = new
        elif key in self._pending.get(key[0], {}):
            del self._pending[key[0]][key]
            if not self._pending[key[0]]:
                del self._pending[key[0]]
        old_node, new_node = _node_name(old), _node_name(new)
        if new is None and old is not None:
            self._requests.pop(old["metadata"]["uid"], None)
        if old_node and old_node != new_node:
            on_node = self._pods_by_node.get((key[0], old_node), {})
            on_node.pop(key, None)
            if not on_node:
                self._pods_by_node.pop((key[0], old_node), None)
        if new is not None and new_node:
            self._pods_by_node.setdefault((key[0], new_node), {})[key] = new

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        old_id, new_id = provider_id_of(old), provider_id_of(new)
        if old_id and old_id != new_id and self._by_provider_id.get((key[0], old_id)) == key[2]:
            del self._by_provider_id[key[0], old_id]
        if new_id:
            self._by_provider_id[key[0], new_id] = key[2]


def provider_id_of(node: Object | None) -> str:
    return str(((node or {}).get("spec") or {}).get("providerID") or "")


def _node_name(pod: Object | None) -> str:
    return str(((pod or {}).get("spec") or {}).get("nodeName") or "")
