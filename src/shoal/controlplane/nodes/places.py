"""Clusters whose nodes are managed: those of profile `cluster` in a Shoal store, or the single cluster of any API
server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION

Object = dict[str, Any]

CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)


class Places(Protocol):
    reader: Client
    """Client that sees the objects of all clusters."""
    listeners: list[Callable[[str], None]]
    """Called with a cluster that is new or has changed."""

    def at(self, cluster: str) -> Client: ...

    def has(self, cluster: str) -> bool:
        """Returns whether the nodes of the cluster are managed here."""

    async def version(self, cluster: str) -> str:
        """Returns the Kubernetes version of the cluster's kubelets."""

    async def run(self) -> None: ...


class HostedClusters:
    """Clusters of one store, read through the wildcard cluster."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.reader = client.at("*")
        self.listeners: list[Callable[[str], None]] = []
        self._client = client
        self._versions: dict[str, str] = {}
        self._servers = ""
        self._reflector = Reflector(client.at("root"), CLUSTERS, clock, self._changed, shared=True)

    def _changed(self, key: Key, obj: Object | None) -> None:
        name, spec = key[2], (obj or {}).get("spec") or {}
        if spec.get("profile") != "cluster":
            self._versions.pop(name, None)
        elif self._versions.get(name) != (version := spec.get("version") or ""):
            self._versions[name] = version
            for tell in self.listeners:
                tell(name)

    def at(self, cluster: str) -> Client:
        return self._client.at(cluster)

    def has(self, cluster: str) -> bool:
        return cluster in self._versions

    async def version(self, cluster: str) -> str:
        own = self._versions.get(cluster)
        if not own and not self._servers:
            self._servers = await _server_version(self._client)
        return own or self._servers

    async def run(self) -> None:
        await self._reflector.run()


class OneCluster:
    """The single cluster of any API server."""

    def __init__(self, client: Client) -> None:
        self.reader = client
        self.listeners: list[Callable[[str], None]] = []
        self._version = ""

    def at(self, cluster: str) -> Client:
        return self.reader

    def has(self, cluster: str) -> bool:
        return True

    async def version(self, cluster: str) -> str:
        self._version = self._version or await _server_version(self.reader)
        return self._version

    async def run(self) -> None:
        """Nothing to watch."""


async def _server_version(client: Client) -> str:
    """Omits the build metadata after a plus sign."""
    answer = await client.call("GET", "/version")
    return str(answer["gitVersion"]).partition("+")[0]
