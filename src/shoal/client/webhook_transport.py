"""HTTPS POSTs to webhooks: one connection pool for all, each verified by the CA bundle its configuration names.

Address, body and interpretation of the response are the caller's (`apiserver.webhooks`). Separate from `https`:
webhooks are not Kubernetes API servers, and none is trusted to respond sensibly.
"""

from __future__ import annotations

import io
import ssl
from functools import lru_cache
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from shoal.client.egress import Egress, EgressDenied, EgressPolicy, SocketFactory, new_socket
from shoal.client.transport import Unreachable

HEADERS = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
"""No compression: the size of the decompressed body is unknown in advance."""
KEEPALIVE_SECONDS = 30.0
MAX_TLS_CONTEXTS = 256


MAX_ATTEMPTS = 3
"""Attempts of one call if reused keep-alive connections turn out to be closed by the other end."""


class _ConnectionState:
    """Connection state of one attempt."""

    reused = False


async def _on_connection_reused(
    _: aiohttp.ClientSession, trace: Any, __: aiohttp.TraceConnectionReuseconnParams
) -> None:
    trace.trace_request_ctx.reused = True


class WebhookTransport:
    """A session is opened by the first call, in the event loop of that call. Logical clusters with different policies
    share no connections.
    """

    def __init__(
        self,
        egress: Egress | None = None,
        *,
        resolver: AbstractResolver | None = None,
        new_socket: SocketFactory = new_socket,
    ) -> None:
        """Without `egress`, every address is called. `resolver` replaces that of the system."""
        self._egress, self._resolver, self._new_socket = egress, resolver, new_socket
        self._sessions: dict[EgressPolicy | None, aiohttp.ClientSession] = {}

    def _get_session(self, cluster: str) -> aiohttp.ClientSession:
        policy = self._egress.policy_for(cluster) if self._egress is not None else None
        if policy not in self._sessions:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_on_connection_reused)
            self._sessions[policy] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=KEEPALIVE_SECONDS,
                    resolver=self._resolver,
                    socket_factory=policy.socket_factory(self._new_socket) if policy is not None else None,
                ),
                auto_decompress=False,
                headers=HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace],
                trust_env=False,
            )
        return self._sessions[policy]

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        authority: bytes = b"",
        server_name: str = "",
        host: str = "",
        most: int,
        cluster: str = "",
    ) -> tuple[int, bytes]:
        """Returns status and body, of `most` bytes at most. `server_name` and `host` are for URLs with an IP
        address. `cluster` is the logical cluster whose object names the URL.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            connection = _ConnectionState()
            try:
                async with self._get_session(cluster).post(
                    url,
                    data=io.BytesIO(body),  # sent in pieces
                    ssl=_tls_context(authority),
                    server_hostname=server_name or None,
                    headers={"host": host} if host else None,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                    trace_request_ctx=connection,
                ) as response:
                    return response.status, await _read(response, most)
            except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
                is_disconnect = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
                if not (is_disconnect and connection.reused and attempt < MAX_ATTEMPTS):
                    raise Unreachable(_error_text(error)) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > max_bytes:
            raise Unreachable(f"the response is longer than {max_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


@lru_cache(maxsize=MAX_TLS_CONTEXTS)
def _tls_context(ca_bundle: bytes) -> ssl.SSLContext:
    """Trusts that CA bundle only, or the system's CAs if it is empty."""
    try:
        context = ssl.create_default_context(cadata=ca_bundle.decode() if ca_bundle else None)
        # As in Go, a trusted certificate need not be a CA: a bundle may be the server's own certificate.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise Unreachable(f"unable to load root certificates: {error}") from error


def _error_text(error: Exception) -> str:
    """The most frequent errors in Go's wording."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        unknown = "self-signed" in reason or "local issuer" in reason
        return "tls: failed to verify certificate: x509: " + (
            "certificate signed by unknown authority" if unknown else reason
        )
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, EgressDenied):
        return str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__
