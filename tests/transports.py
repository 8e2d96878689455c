"""A transport that passes everything on, for those that do something else with a part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from shoal.client.transport import Transport


class Passing:
    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return await self.inner.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self.inner.stream(method, path, query, headers)

    async def close(self) -> None:
        await self.inner.close()
