"""Maps a logical cluster to its Cluster API Cluster and to the client of the management API.

Pods, Nodes and NodePools live in one API, Machines in another. On a worker both are one store: the hosted cluster
`<namespace>.<name>` is a logical cluster, and its Cluster API Cluster `<namespace>/<name>` is in root. For a single
cluster they are two servers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shoal.client.rest import Client


@dataclass(frozen=True, slots=True)
class CAPIClusterRef:
    namespace: str
    name: str
    """Name of the Cluster API Cluster."""


class ManagementResolver(Protocol):
    hosted_client: Client
    """Sees the pods, nodes and NodePools of all clusters served."""
    management_client: Client
    """Sees the MachineDeployments and Machines."""

    def client(self, cluster: str) -> Client:
        """Returns the client of one cluster, named as in the keys of objects that `hosted_client` sees."""

    def capi_cluster_of(self, cluster: str) -> CAPIClusterRef | None:
        """Returns the Cluster API Cluster of a logical cluster, or None if it has none."""

    def logical_cluster_of(self, capi_cluster: CAPIClusterRef) -> str | None:
        """Returns the logical cluster of a Cluster API Cluster, or None if another provisioner serves it."""

    @property
    def has_synced(self) -> bool:
        """Whether it is known which Clusters are served here."""

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        """Adds a handler that is called with a logical cluster that begins or ceases to be served here."""


class HostedClusterSource(Protocol):
    @property
    def has_synced(self) -> bool:
        """Whether all of them are known."""

    def is_hosted(self, namespace: str, name: str) -> bool:
        """Whether the Cluster API Cluster's control plane is a logical cluster of the store."""

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        """Adds a handler that is called with a logical cluster that appeared or went."""


class StoreResolver:
    """Resolves all hosted clusters of a store."""

    def __init__(self, client: Client, hosted_clusters: HostedClusterSource | None = None) -> None:
        """`hosted_clusters`: the Clusters of the store that are hosted by it. None: all are."""
        self._client, self._hosted_clusters = client, hosted_clusters
        self.hosted_client, self.management_client = client.in_cluster("*"), client.in_cluster("root")

    def client(self, cluster: str) -> Client:
        return self._client.in_cluster(cluster)

    def capi_cluster_of(self, cluster: str) -> CAPIClusterRef | None:
        namespace, dot, name = cluster.partition(".")
        return CAPIClusterRef(namespace, name) if dot and namespace and name else None

    def logical_cluster_of(self, capi_cluster: CAPIClusterRef) -> str | None:
        hosted = self._hosted_clusters
        if hosted is not None and not hosted.is_hosted(capi_cluster.namespace, capi_cluster.name):
            return None
        return f"{capi_cluster.namespace}.{capi_cluster.name}"

    @property
    def has_synced(self) -> bool:
        return self._hosted_clusters is None or self._hosted_clusters.has_synced

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        if self._hosted_clusters is not None:
            self._hosted_clusters.add_event_handler(handler)


class SingleCluster:
    """Resolves one cluster of any server; its Machines may be on another server."""

    def __init__(self, hosted_client: Client, management_client: Client, namespace: str, name: str) -> None:
        self.hosted_client, self.management_client = hosted_client, management_client
        self._capi_cluster = CAPIClusterRef(namespace, name)

    def client(self, cluster: str) -> Client:
        return self.hosted_client

    def capi_cluster_of(self, cluster: str) -> CAPIClusterRef | None:
        return self._capi_cluster

    def logical_cluster_of(self, capi_cluster: CAPIClusterRef) -> str | None:
        return "" if capi_cluster == self._capi_cluster else None

    @property
    def has_synced(self) -> bool:
        return True

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        """It is served for the life of the process."""
