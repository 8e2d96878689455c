"""Clients for the clusters that kubeconfigs in the API name.

A kubeconfig from the API may reference no file of this machine and no program. One that names this very server needs no
socket: hosted clusters of in-process workers are called directly, with the same credentials.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from shoal.client.fencing import IsLeader, fence_client
from shoal.client.kubeconfig import new_client, rest_config_of
from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.sync.remote_cluster import NewClient

USER_AGENT = "shoal-syncer"


def connector_for(
    url: str, transport: Transport, agent: str = USER_AGENT, lease_check: IsLeader | None = None
) -> NewClient:
    """For a process whose own server is at `url` and is called through `transport`. Other servers are written to only
    while `lease_check` returns True.
    """

    def connect(kubeconfig: dict[str, Any]) -> Client:
        endpoint = rest_config_of(kubeconfig, source="the kubeconfig")
        path = endpoint.server.removeprefix(url)
        if path != endpoint.server and (not path or path.startswith("/")):
            return Client(PathPrefixTransport(transport, path.rstrip("/")), endpoint.token, agent)
        return fence_client(new_client(endpoint, agent), lease_check)

    return connect


class PathPrefixTransport:
    """A transport for everything below one path of a server. `close` leaves the shared transport open."""

    def __init__(self, transport: Transport, prefix: str) -> None:
        self._transport, self._prefix = transport, prefix

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return await self._transport.request(method, self._prefix + path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._transport.stream(method, self._prefix + path, query, headers)

    async def close(self) -> None:
        pass
