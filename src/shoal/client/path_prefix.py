"""A transport below a path of another one: an API that a server forwards to somebody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from shoal.client.transport import Transport


class PathPrefixTransport:
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
        """Leaves the connections open: they belong to the transport it was made from."""
