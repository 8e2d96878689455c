"""Passes the requests of others on to one API server, as they are, and its responses back.

Nothing is added to a request: no credential, no cookie of an earlier response, no header of this client. Redirects are
not followed and bodies not decompressed.
"""

from __future__ import annotations

import io
import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

import aiohttp

from shoal.client.https import keepalive_socket, unreachable_reason
from shoal.client.transport import Unreachable

CONNECT_SECONDS = 10.0
_AUTOMATIC_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
HeaderPairs = tuple[tuple[str, str], ...]


class ForwardedResponse(NamedTuple):
    status: int
    headers: HeaderPairs
    length: int | None
    """None: not known."""
    body: AsyncGenerator[bytes, None]
    """Must be read to its end, or closed."""


class ForwardingTransport:
    """One connection pool, for requests that are authenticated in the same way."""

    def __init__(self, server: str, tls_context: ssl.SSLContext) -> None:
        self._server, self._tls_context = server.rstrip("/"), tls_context
        self._session: aiohttp.ClientSession | None = None

    async def forward(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> ForwardedResponse:
        """`target` is the path with its query, percent-encoded. Waits for the head of the response without a limit:
        that of a log that is followed comes with its first line. Raises Unreachable.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            response = await self._get_session().request(
                method,
                self._server + target,
                headers=list(headers),
                data=io.BytesIO(body) if body else None,  # sent in pieces
                timeout=timeout,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"{self._server} cannot be reached: {unreachable_reason(error)}") from error
        return ForwardedResponse(
            response.status, tuple(response.headers.items()), response.content_length, _read_body(response)
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls_context, limit=0, socket_factory=keepalive_socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_AUTOMATIC_HEADERS,
            )
        return self._session


async def _read_body(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    is_complete = False
    try:
        async for chunk in response.content.iter_any():
            yield chunk
        is_complete = True
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"response interrupted: {error}") from error
    finally:
        connection = response.connection
        if not is_complete and connection is not None and connection.transport is not None:
            connection.transport.abort()
        response.close()
