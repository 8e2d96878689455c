"""A transport that counts the bytes of requests and responses, headers included, before TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Protocol

from shoal.client.transport import Transport


class Meter(Protocol):
    bytes_in: int
    bytes_out: int


class MeteredTransport:
    def __init__(self, inner: Transport, meter: Meter) -> None:
        self._inner, self._meter = inner, meter

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._meter.bytes_out += _size(method, path, query, headers) + len(body)
        status, answered, content = await self._inner.request(method, path, query, headers, body)
        self._meter.bytes_in += _size("", "", "", answered) + len(content)
        return status, answered, content

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        self._meter.bytes_out += _size(method, path, query, headers)
        status, pieces = await self._inner.stream(method, path, query, headers)
        return status, self._counted(pieces)

    async def _counted(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async with aclosing(pieces) as stream:  # type: ignore[type-var]
            async for piece in stream:
                self._meter.bytes_in += len(piece)
                yield piece

    async def close(self) -> None:
        await self._inner.close()


def _size(method: str, path: str, query: str, headers: Mapping[str, str]) -> int:
    """Size of request line and headers in HTTP/1.1."""
    first = len(method) + len(path) + len(query) + 13
    return first + sum(len(name) + len(value) + 4 for name, value in headers.items())
