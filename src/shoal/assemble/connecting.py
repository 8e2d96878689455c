"""Clients for the clusters that kubeconfigs in the API name.

A kubeconfig from the API may reference no file of this machine and no program. One that names this very server needs no
socket: hosted clusters of in-process workers are called directly, with the same credentials.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from shoal.client.fenced import Holds, fenced
from shoal.client.kubeconfig import client_to, endpoint_of
from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.sync.connecting import Connect

AGENT = "shoal-syncer"


def connect_from(url: str, transport: Transport, agent: str = AGENT, holds: Holds | None = None) -> Connect:
    """For a process whose own server is at `url` and is called through `transport`. Other servers are written to only
    while `lease_check` returns True.
    """

    def connect(kubeconfig: dict[str, Any]) -> Client:
        endpoint = endpoint_of(kubeconfig, where="the kubeconfig")
        below = endpoint.server.removeprefix(url)
        if below != endpoint.server and (not below or below.startswith("/")):
            return Client(Below(transport, below.rstrip("/")), endpoint.token, agent)
        return fenced(client_to(endpoint, agent), holds)

    return connect


class Below:
    """A transport for everything below one path of a server. `close` leaves the shared transport open."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport, self._path = transport, path

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return await self._transport.request(method, self._path + path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._transport.stream(method, self._path + path, query, headers)

    async def close(self) -> None:
        pass
