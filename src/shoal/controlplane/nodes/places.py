"""Where nodes live: the clusters of profile `cluster` in a store of Shoal, or the one cluster of any API server."""

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
    """Sees the objects of all of them."""
    listeners: list[Callable[[str], None]]
    """Told of a cluster that is new, or another than before."""

    def at(self, cluster: str) -> Client: ...

    def has(self, cluster: str) -> bool:
        """Whether nodes there are ours to look after."""

    async def version(self, cluster: str) -> str:
        """The Kubernetes version of its kubelets."""

    async def run(self) -> None: ...


class HostedClusters:
    """Of one store, over the wildcard view."""

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
    """Behind any API server."""

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
        """There is nothing to follow."""


async def _server_version(client: Client) -> str:
    """Without what follows a plus sign, which is the server's own."""
    answer = await client.call("GET", "/version")
    return str(answer["gitVersion"]).partition("+")[0]
