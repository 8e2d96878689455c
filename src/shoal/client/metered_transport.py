"""A transport that counts the bytes of requests and responses, headers included, before TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Protocol

from shoal.client.transport import Transport


class ByteCounters(Protocol):
    bytes_in: int
    bytes_out: int


class MeteredTransport:
    def __init__(self, inner: Transport, counters: ByteCounters) -> None:
        self._inner, self._counters = inner, counters

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._counters.bytes_out += _head_size(method, path, query, headers) + len(body)
        status, response_headers, content = await self._inner.request(method, path, query, headers, body)
        self._counters.bytes_in += _head_size("", "", "", response_headers) + len(content)
        return status, response_headers, content

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        self._counters.bytes_out += _head_size(method, path, query, headers)
        status, chunks = await self._inner.stream(method, path, query, headers)
        return status, self._count_stream(chunks)

    async def _count_stream(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async with aclosing(chunks) as stream:  # type: ignore[type-var]
            async for chunk in stream:
                self._counters.bytes_in += len(chunk)
                yield chunk

    async def close(self) -> None:
        await self._inner.close()


def _head_size(method: str, path: str, query: str, headers: Mapping[str, str]) -> int:
    """Size of request line and headers in HTTP/1.1."""
    first = len(method) + len(path) + len(query) + 13
    return first + sum(len(name) + len(value) + 4 for name, value in headers.items())
