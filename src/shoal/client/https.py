"""The transport to a server elsewhere: HTTPS by aiohttp. Apart, so that a process with none does not load it."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping

import aiohttp

from shoal.client.transport import Unreachable

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


class HttpsTransport:
    """One connection pool to one server. `cut` bounds waiting for an answer, never a stream's length."""

    def __init__(self, server: str, context: ssl.SSLContext | None, cut: float = 60.0) -> None:
        self._server = server.rstrip("/")
        self._context = context
        self._cut = cut
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._context or True, limit=0, socket_factory=_watched_over)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        timeout = aiohttp.ClientTimeout(total=self._cut)
        try:
            async with self._open().request(
                method, self._url(path, query), headers=headers, data=body or None, timeout=timeout
            ) as answer:
                return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{self._server} cannot be reached: {_why(error)}") from error

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._cut)
        try:
            answer = await self._open().request(method, self._url(path, query), headers=headers, timeout=timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{self._server} cannot be reached: {_why(error)}") from error
        return answer.status, _pieces(answer)

    def _url(self, path: str, query: str) -> str:
        return f"{self._server}{path}?{query}" if query else f"{self._server}{path}"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _watched_over(address: aiohttp.AddrInfoType) -> socket.socket:
    """A connection over which nothing comes may be a quiet watch, or one whose other end is gone without a word: the
    kernel asks, and it ends within half a minute."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _why(error: Exception) -> str:
    """The reason alone: aiohttp's own words name objects of Python's."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error
        known = os.strerror(reason.errno) if reason.errno and reason.errno in errno.errorcode else reason.strerror
        return (known or str(reason)).lower()
    return str(error) or "it took too long"


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"the stream broke: {error}") from error
    finally:
        connection = answer.connection
        if connection is not None and connection.transport is not None:
            # Left in the middle: to take leave properly would wait for the other end, and outlive a loop that stops.
            connection.transport.abort()
        answer.close()
