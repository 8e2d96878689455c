"""Clusters whose nodes are managed: those of profile `cluster` in a Shoal store, or the single cluster of any API
server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.runtime.informer import Informer

Object = dict[str, Any]

LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)


class ClusterSource(Protocol):
    reader: Client
    """Client that sees the objects of all clusters."""
    event_handlers: list[Callable[[str], None]]
    """Called with a cluster that is new or has changed."""

    def client_for(self, cluster: str) -> Client: ...

    def is_managed(self, cluster: str) -> bool:
        """Returns whether the nodes of the cluster are managed here."""

    async def kubelet_version(self, cluster: str) -> str:
        """Returns the Kubernetes version of the cluster's kubelets."""

    async def run(self) -> None: ...


class HostedClusterSource:
    """Clusters of one store, read through the wildcard cluster."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.reader = client.in_cluster("*")
        self.event_handlers: list[Callable[[str], None]] = []
        self._client = client
        self._versions: dict[str, str] = {}
        """Of managed clusters. Kept while the informer is restarted, so that no cluster looks unmanaged meanwhile."""
        self._api_server_version = ""
        self._logical_clusters = Informer(client.in_cluster("root"), LOGICAL_CLUSTERS, clock)
        self._logical_clusters.add_event_handler(self._on_logical_cluster)

    def _on_logical_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        name, version = key[2], _managed_version(new)
        if version is None:
            self._versions.pop(name, None)
            return
        self._versions[name] = version
        if version != _managed_version(old):
            for handler in self.event_handlers:
                handler(name)

    def client_for(self, cluster: str) -> Client:
        return self._client.in_cluster(cluster)

    def is_managed(self, cluster: str) -> bool:
        return cluster in self._versions

    async def kubelet_version(self, cluster: str) -> str:
        own = self._versions.get(cluster)
        if not own and not self._api_server_version:
            self._api_server_version = await _fetch_server_version(self._client)
        return own or self._api_server_version

    async def run(self) -> None:
        await self._logical_clusters.run()


class SingleClusterSource:
    """The single cluster of any API server."""

    def __init__(self, client: Client) -> None:
        self.reader = client
        self.event_handlers: list[Callable[[str], None]] = []
        self._version = ""

    def client_for(self, cluster: str) -> Client:
        return self.reader

    def is_managed(self, cluster: str) -> bool:
        return True

    async def kubelet_version(self, cluster: str) -> str:
        self._version = self._version or await _fetch_server_version(self.reader)
        return self._version

    async def run(self) -> None:
        """Nothing to watch."""


def _managed_version(logical_cluster: Object | None) -> str | None:
    """Returns the Kubernetes version of a managed cluster, empty for that of the server; None for other clusters."""
    spec = (logical_cluster or {}).get("spec") or {}
    return str(spec.get("version") or "") if spec.get("profile") == "cluster" else None


async def _fetch_server_version(client: Client) -> str:
    """Omits the build metadata after a plus sign."""
    answer = await client.request("GET", "/version")
    return str(answer["gitVersion"]).partition("+")[0]
