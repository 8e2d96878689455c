"""A transport for who may write only while something is held, a lease: it is looked at in the moment a request is sent.

A process that was paused goes on in the middle of what it did. What it writes into its own server's store is looked at
once more there (`store.fencing`); this is for servers elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.objects.errors import Unavailable

Holds = Callable[[], bool]


def fenced(client: Client, holds: Holds | None) -> Client:
    """The same identity at the same place, which writes only while that is so. None: always."""
    return client if holds is None else client.through(lambda transport: FencedTransport(transport, holds))


class FencedTransport:
    def __init__(self, inner: Transport, holds: Holds) -> None:
        self._inner, self._holds = inner, holds

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method != "GET" and not self._holds():
            raise Unavailable("this process does not hold its lease any more: another one goes on with the loops")
        return await self._inner.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._inner.stream(method, path, query, headers)

    async def close(self) -> None:
        await self._inner.close()
