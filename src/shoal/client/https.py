"""The HTTPS transport, by aiohttp. A separate module, so that a process without remote servers does not load
aiohttp.
"""

from __future__ import annotations

import errno
import io
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from time import monotonic
from urllib.parse import urlsplit

import aiohttp

from shoal.client.egress import EgressPolicy, SocketFactory
from shoal.client.metrics import ERROR_CODE, count_stream, observe_request
from shoal.client.transport import Unreachable

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


class HttpsTransport:
    """One connection pool to one server. `timeout` bounds the wait for a response, never the length of a stream."""

    def __init__(
        self,
        server: str,
        tls_context: ssl.SSLContext | None,
        timeout: float = 60.0,
        egress: EgressPolicy | None = None,
    ) -> None:
        """`egress` is given if an object names the server. Redirects are not followed."""
        self._server = server.rstrip("/")
        self._host = urlsplit(server).netloc
        self._tls_context = tls_context
        self._timeout = timeout
        self._new_socket: SocketFactory = (
            keepalive_socket if egress is None else egress.socket_factory(keepalive_socket)
        )
        self._session: aiohttp.ClientSession | None = None

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls_context or True, limit=0, socket_factory=self._new_socket)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        timeout, started = aiohttp.ClientTimeout(total=self._timeout), monotonic()
        try:
            async with self._get_session().request(
                method,
                self._url(path, query),
                headers=headers,
                data=io.BytesIO(body) if body else None,  # sent in pieces
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                observe_request(method, self._host, str(response.status), started)
                return response.status, {k.lower(): v for k, v in response.headers.items()}, content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            observe_request(method, self._host, ERROR_CODE, started)
            raise Unreachable(f"{self._server} cannot be reached: {unreachable_reason(error)}") from error

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout)
        try:
            response = await self._get_session().request(
                method, self._url(path, query), headers=headers, timeout=timeout, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            count_stream(self._host, ERROR_CODE)
            raise Unreachable(f"{self._server} cannot be reached: {unreachable_reason(error)}") from error
        count_stream(self._host, str(response.status))
        return response.status, _stream_body(response)

    def _url(self, path: str, query: str) -> str:
        return f"{self._server}{path}?{query}" if query else f"{self._server}{path}"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with TCP keepalive. A silent connection may be an idle watch or one whose peer has vanished; the kernel
    detects the latter within half a minute.
    """
    sock = socket.socket(*address[:3])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


def unreachable_reason(error: Exception) -> str:
    """The reason only: aiohttp's messages contain Python object names."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error
        text = os.strerror(reason.errno) if reason.errno and reason.errno in errno.errorcode else reason.strerror
        return (text or str(reason) or "connection closed").lower()
    return str(error) or "request timed out"


async def _stream_body(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"stream interrupted: {error}") from error
    finally:
        connection = response.connection
        if connection is not None and connection.transport is not None:
            # The stream was abandoned: a clean TLS shutdown would wait for the peer and outlive a stopping event loop.
            connection.transport.abort()
        response.close()
