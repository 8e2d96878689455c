"""HTTPS POSTs to webhooks: one connection pool for all, each verified by the CA bundle its configuration names.

Address, body and interpretation of the response are the caller's (`apiserver.webhooks`). Separate from `https`:
webhooks are not Kubernetes API servers, and none is trusted to respond sensibly.
"""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import Any

import aiohttp

from shoal.client.transport import Unreachable

HEADERS = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
"""No compression: the size of the decompressed body is unknown in advance."""
RESTING_SECONDS = 30.0
CONTEXTS = 256


ATTEMPTS = 3
"""Attempts of one call if reused keep-alive connections turn out to be closed by the other end."""


class _Way:
    """Connection state of one attempt."""

    rested = False


async def _rested(_: aiohttp.ClientSession, trace: Any, __: aiohttp.TraceConnectionReuseconnParams) -> None:
    trace.trace_request_ctx.rested = True


class Posting:
    """The session is opened by the first call, in the event loop of that call."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_rested)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=RESTING_SECONDS),
                auto_decompress=False,
                headers=HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace],
            )
        return self._session

    async def post(
        self, url: str, body: bytes, *, authority: bytes = b"", server_name: str = "", host: str = "", most: int
    ) -> tuple[int, bytes]:
        """Returns status and body, of `most` bytes at most. `server_name` and `host` are for URLs with an IP
        address.
        """
        for attempt in range(1, ATTEMPTS + 1):
            way = _Way()
            try:
                async with self._open().post(
                    url,
                    data=body,
                    ssl=_context(authority),
                    server_hostname=server_name or None,
                    headers={"host": host} if host else None,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                    trace_request_ctx=way,
                ) as answer:
                    return answer.status, await _read(answer, most)
            except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
                cut = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
                if not (cut and way.rested and attempt < ATTEMPTS):
                    raise Unreachable(_said(error)) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > most:
            raise Unreachable(f"the answer is longer than {most} bytes")
        pieces.append(piece)
    return b"".join(pieces)


@lru_cache(maxsize=CONTEXTS)
def _context(authority: bytes) -> ssl.SSLContext:
    """Trusts that CA bundle only, or the system's CAs if it is empty."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        # As in Go, a trusted certificate need not be a CA: a bundle may be the server's own certificate.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise Unreachable(f"unable to load root certificates: {error}") from error


def _said(error: Exception) -> str:
    """The most frequent errors in Go's wording."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        unknown = "self-signed" in reason or "local issuer" in reason
        return "tls: failed to verify certificate: x509: " + (
            "certificate signed by unknown authority" if unknown else reason
        )
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__
