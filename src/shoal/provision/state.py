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
from shoal.kinds.karpenter.karpenter import (
    GROUP,
    NODE_CLASS_GROUP,
    NODE_CLASS_VERSION,
    NODE_OVERLAY_VERSION,
    VERSION,
    is_managed_node_class,
    provider_id,
)
from shoal.provision.management import ManagementResolver
from shoal.provision.pods import is_provisionable
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import IndexFunc, by_cluster

Object = dict[str, Any]
ObjectKey = tuple[str, str]
"""Logical cluster and name."""

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
CSI_NODES = GroupVersionResource("storage.k8s.io", "v1", "csinodes", namespaced=False)


class ClusterState:
    name = "provision-view"

    def __init__(self, resolver: ManagementResolver, clock: Clock) -> None:
        self._resolver = resolver

        def new_informer(gvr: GroupVersionResource, *indexers: IndexFunc) -> Informer:
            return Informer(
                resolver.hosted_client, gvr, clock, indexers=(by_cluster, *indexers), admits=self._is_provisioned
            )

        self.node_pools, self.node_claims, self.node_classes = (
            new_informer(NODE_POOLS),
            new_informer(NODE_CLAIMS, claims_by_provider_id),
            new_informer(NODE_CLASSES),
        )
        self.node_overlays = new_informer(NODE_OVERLAYS)
        self.nodes, self.daemon_sets = new_informer(NODES, nodes_by_provider_id), new_informer(DAEMON_SETS)
        self.pods = new_informer(PODS, pods_by_node, pending_pods_by_cluster, pods_by_daemon_set)
        self.pdbs = new_informer(PDBS)
        self.namespaces, self.volume_claims = new_informer(NAMESPACES), new_informer(VOLUME_CLAIMS)
        self.volumes, self.storage_classes = new_informer(VOLUMES), new_informer(STORAGE_CLASSES)
        self.csi_nodes = new_informer(CSI_NODES)
        self._requests: dict[str, tuple[Object, Resources]] = {}
        self.pods.add_event_handler(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                group.create_task(informer.run())

    @property
    def has_synced(self) -> bool:
        """True after the first complete list of every kind, and of the clusters served here. Before that, a missing
        object is not known to be absent.
        """
        return self._resolver.has_synced and all(informer.has_synced for informer in self._informers())

    def _informers(self) -> Iterable[Informer]:
        karpenter = (self.node_pools, self.node_claims, self.node_classes, self.node_overlays)
        others = (self.namespaces, self.volume_claims, self.volumes, self.storage_classes, self.csi_nodes)
        return *karpenter, self.nodes, self.pods, self.daemon_sets, self.pdbs, *others

    def _is_provisioned(self, cluster: str) -> bool:
        return self._resolver.capi_cluster_of(cluster) is not None

    def clusters_in(self, informer: Informer) -> list[str]:
        """The logical clusters served here that have objects of the kind."""
        return sorted(filter(self._is_provisioned, {key[0] for key in informer.objects}))

    def pods_on(self, cluster: str, node: str) -> list[Object]:
        return self.pods.by_index(pods_by_node, (cluster, node))

    def pods_of_daemon_set(self, cluster: str, daemon_set: Object) -> list[Object]:
        return self.pods.by_index(pods_by_daemon_set, (cluster, daemon_set["metadata"]["uid"]))

    def pending_pods(self, cluster: str) -> list[Object]:
        """Pods that the scheduler found no node for."""
        return self.pods.by_index(pending_pods_by_cluster, cluster)

    def node_by_provider_id(self, cluster: str, provider_id: str) -> Object | None:
        return next(iter(self.nodes.by_index(nodes_by_provider_id, (cluster, provider_id))), None)

    def nodes_of(self, cluster: str, claim: Object) -> list[Object]:
        """Exactly one, unless several nodes have the same providerID."""
        return self.nodes.by_index(nodes_by_provider_id, (cluster, provider_id(claim)))

    def claim_of(self, cluster: str, node: Object | None) -> Object | None:
        """Returns None if there is none, or if another provisioner manages it."""
        claims = self.node_claims.by_index(claims_by_provider_id, (cluster, provider_id_of(node)))
        return next((claim for claim in claims if is_managed_node_class(claim["spec"])), None)

    def requests_of(self, pod: Object) -> Resources:
        """Resource requests of a pod, computed once per version of the pod."""
        metadata = pod["metadata"]
        cached = self._requests.get(metadata["uid"])
        if cached is None or cached[0] is not pod:
            cached = self._requests[metadata["uid"]] = (pod, pod_requests(pod))
        return cached[1]

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._requests.pop(old["metadata"]["uid"], None)


def provider_id_of(node: Object | None) -> str:
    return str(((node or {}).get("spec") or {}).get("providerID") or "")


def pods_by_node(key: Key, pod: Object) -> tuple[tuple[str, str], ...]:
    """Index by logical cluster and node."""
    node = (pod.get("spec") or {}).get("nodeName")
    return ((key[0], str(node)),) if node else ()


def pending_pods_by_cluster(key: Key, pod: Object) -> tuple[str, ...]:
    """Index of the pods that need a node, by logical cluster."""
    return (key[0],) if is_provisionable(pod) else ()


def pods_by_daemon_set(key: Key, pod: Object) -> tuple[tuple[str, str], ...]:
    """Index by logical cluster and uid of the DaemonSet."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return tuple((key[0], str(each.get("uid"))) for each in owners if each.get("kind") == "DaemonSet")


def nodes_by_provider_id(key: Key, node: Object) -> tuple[tuple[str, str], ...]:
    """Index by logical cluster and providerID."""
    node_id = provider_id_of(node)
    return ((key[0], node_id),) if node_id else ()


def claims_by_provider_id(key: Key, claim: Object) -> tuple[tuple[str, str], ...]:
    """Index by logical cluster and providerID."""
    claim_id = provider_id(claim)
    return ((key[0], claim_id),) if claim_id else ()
