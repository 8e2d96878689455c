"""Where a cluster's Machines are: the Cluster API Cluster that stands behind it, and the API that serves it.

Pods, Nodes and NodePools are in one place, Machines in another. On a worker both are one store: the hosted cluster
`<namespace>.<name>` is a logical cluster, its Cluster API Cluster `<namespace>/<name>` in root. For a single cluster
they are two servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.client.requests import Client


@dataclass(frozen=True, slots=True)
class Home:
    namespace: str
    name: str
    """Of the Cluster API Cluster."""


class Homes(Protocol):
    hosted: Client
    """Sees the pods, nodes and NodePools of all clusters there are."""
    management: Client
    """Sees the MachineDeployments and Machines."""

    def client(self, cluster: str) -> Client:
        """Of one cluster, as the keys of what `hosted` sees name it."""

    def of(self, cluster: str) -> Home | None:
        """None: no Cluster API Cluster stands behind it."""

    def cluster(self, home: Home) -> str | None:
        """The way back; None: the Cluster API Cluster is somebody else's."""


class StoreHomes:
    """All hosted clusters of a store."""

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
    """One cluster of any server, its Machines at any other."""

    def __init__(self, hosted: Client, management: Client, namespace: str, name: str) -> None:
        self.hosted, self.management = hosted, management
        self._home = Home(namespace, name)

    def client(self, cluster: str) -> Client:
        return self.hosted

    def of(self, cluster: str) -> Home | None:
        return self._home

    def cluster(self, home: Home) -> str | None:
        return "" if home == self._home else None
