"""Maps a logical cluster to its Cluster API Cluster and to the client of the management API.

Pods, Nodes and NodePools live in one API, Machines in another. On a worker both are one store: the hosted cluster
`<namespace>.<name>` is a logical cluster, and its Cluster API Cluster `<namespace>/<name>` is in root. For a single
cluster they are two servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.client.requests import Client


@dataclass(frozen=True, slots=True)
class Home:
    namespace: str
    name: str
    """Name of the Cluster API Cluster."""


class Homes(Protocol):
    hosted: Client
    """Sees the pods, nodes and NodePools of all clusters served."""
    management: Client
    """Sees the MachineDeployments and Machines."""

    def client(self, cluster: str) -> Client:
        """Returns the client of one cluster, named as in the keys of objects that `hosted_client` sees."""

    def of(self, cluster: str) -> Home | None:
        """Returns the Cluster API Cluster of a logical cluster, or None if it has none."""

    def cluster(self, home: Home) -> str | None:
        """Returns the logical cluster of a Cluster API Cluster, or None if another provisioner serves it."""


class StoreHomes:
    """Resolves all hosted clusters of a store."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.hosted, self.management = client.at("*"), client.at("root")

    def client(self, cluster: str) -> Client:
        return self._client.at(cluster)

    def of(self, cluster: str) -> Home | None:
        namespace, dot, name = cluster.partition(".")
        return Home(namespace, name) if dot and namespace and name else None

    def cluster(self, home: Home) -> str | None:
        return f"{home.namespace}.{home.name}"


class OneHome:
    """Resolves one cluster of any server; its Machines may be on another server."""

    def __init__(self, hosted: Client, management: Client, namespace: str, name: str) -> None:
        self.hosted, self.management = hosted, management
        self._home = Home(namespace, name)

    def client(self, cluster: str) -> Client:
        return self.hosted

    def of(self, cluster: str) -> Home | None:
        return self._home

    def cluster(self, home: Home) -> str | None:
        return "" if home == self._home else None
