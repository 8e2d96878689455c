"""The informers of the embedded provider: its kinds in the management cluster, and the objects it creates in the
hosting server.

Both may be the same server. Nodes and administrators of hosted clusters are watched through the wildcard cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.capi.informers import CAPIInformers, NamespacedName
from shoal.capi.writer import Writer
from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.clusterapi import capi, embedded
from shoal.kinds.fleet import logicalcluster
from shoal.runtime.informer import EventHandler, Informer

Object = dict[str, Any]

EMBEDDED_CLUSTERS = GroupVersionResource(embedded.GROUP, embedded.VERSION, "embeddedclusters")
EMBEDDED_MACHINES = GroupVersionResource(embedded.GROUP, embedded.VERSION, "embeddedmachines")
EMBEDDED_TEMPLATES = GroupVersionResource(embedded.GROUP, embedded.VERSION, "embeddedmachinetemplates")
LOGICAL_CLUSTERS = GroupVersionResource(
    logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False
)
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)


class EmbeddedInformers:
    def __init__(self, core_informers: CAPIInformers, host: Client, clock: Clock) -> None:
        """`host` is a client at the root of the hosting server."""
        self.core_informers, self.host = core_informers, host
        self.host_writer = Writer(host, core_informers.debouncer)
        all_clusters = host.in_cluster("*")
        self.logical_clusters = Informer(host, LOGICAL_CLUSTERS, clock)
        self.nodes = Informer(
            all_clusters,
            NODES,
            clock,
            labels=f"{embedded.SIMULATED_LABEL}=true",
            indexers=(by_provider_id,),
        )
        self.admin_accounts = Informer(
            all_clusters, SERVICE_ACCOUNTS, clock, fields=f"metadata.name={embedded.ADMIN_SERVICE_ACCOUNT}"
        )
        core_informers.all_informers += [self.logical_clusters, self.nodes, self.admin_accounts]
        self.clusters = core_informers.register_kind(EMBEDDED_CLUSTERS, embedded.CLUSTER, is_reachable=self._is_served)
        self.machines = core_informers.register_kind(
            EMBEDDED_MACHINES, embedded.MACHINE, nodes=HostedNodeAccessor(self), indexers=(by_cluster_label,)
        )
        self.templates = core_informers.register_kind(EMBEDDED_TEMPLATES, embedded.MACHINE_TEMPLATE)

    def _is_served(self, cluster: Object) -> bool:
        """No network lies in between: a logical cluster that exists responds."""
        metadata = cluster["metadata"]
        logical_cluster = self.logical_clusters.get(
            ("", "", self.logical_cluster_of(metadata["namespace"], metadata["name"]))
        )
        return logical_cluster is not None and not capi.is_deleting(logical_cluster)

    def logical_cluster_of(self, namespace: str, cluster: str) -> str:
        """The logical cluster of a Cluster whose infrastructureRef is an EmbeddedCluster, else ""."""
        cluster_object = self.core_informers.clusters.get(("", namespace, cluster))
        reference = ((cluster_object or {}).get("spec") or {}).get("infrastructureRef") or {}
        if (reference.get("apiGroup"), reference.get("kind")) != (embedded.GROUP, embedded.CLUSTER):
            return ""
        return embedded.logical_cluster_name(namespace, reference["name"])


class HostedNodeAccessor:
    """Finds Nodes by provider id, only in the hosted cluster of the Machine."""

    def __init__(self, informers: EmbeddedInformers) -> None:
        self._informers = informers

    def node_for(self, machine: Object) -> Object | None:
        provider_id = (machine.get("spec") or {}).get("providerID")
        if not provider_id:
            return None
        hosted = self._informers.logical_cluster_of(machine["metadata"]["namespace"], capi.cluster_name(machine))
        return (
            next(iter(self._informers.nodes.by_index(by_provider_id, (hosted, provider_id))), None) if hosted else None
        )

    def add_event_handler(self, handler: EventHandler) -> None:
        self._informers.nodes.add_event_handler(handler)

    async def patch(self, node: Object, patch: Object) -> Object:
        return await self._informers.host_writer.patch(self._informers.nodes, node, patch)

    def workload_client(self, machine: Object) -> Client | None:
        hosted = self._informers.logical_cluster_of(machine["metadata"]["namespace"], capi.cluster_name(machine))
        return self._informers.host.in_cluster(hosted) if hosted else None


def by_cluster_label(key: Key, obj: Object) -> Iterable[NamespacedName]:
    """Index by the Cluster that the label names."""
    return ((key[1], capi.labels_of(obj).get(capi.CLUSTER_NAME, "")),)


def by_provider_id(key: Key, obj: Object) -> Iterable[tuple[str, str]]:
    """Index by logical cluster and provider id."""
    return ((key[0], str((obj.get("spec") or {}).get("providerID", ""))),)
