"""A transport that allows writes only while leadership is held, for example a lease. It is checked when each request is
sent.

A paused process resumes in the middle of its work. Writes into its own server's store are checked again there
(`store.fencing`); this transport is for other servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.objects.errors import Unavailable

IsLeader = Callable[[], bool]


def fence_client(client: Client, is_leader: IsLeader | None) -> Client:
    """A client of the same identity that writes only while `is_leader()` is true. None: no fencing."""
    return (
        client if is_leader is None else client.with_transport(lambda transport: FencedTransport(transport, is_leader))
    )


class FencedTransport:
    def __init__(self, inner: Transport, is_leader: IsLeader) -> None:
        self._inner, self._is_leader = inner, is_leader

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method != "GET" and not self._is_leader():
            raise Unavailable("this process lost its lease: another process runs the controllers")
        return await self._inner.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._inner.stream(method, path, query, headers)

    async def close(self) -> None:
        await self._inner.close()
