"""Passes a request on to the API server of one kind cluster, and the answer back.

The server authenticates the request itself, by the client's token. For a user whom the worker has authenticated it
comes as kind's administrator who impersonates that user: nothing of what the client says about its identity is passed
on then.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from shoal.client.transport import Unreachable
from shoal.client.upgrade_forwarding import forward_upgrade
from shoal.fleet.tunnel.paths import UPGRADE_HEADER, HostedPath
from shoal.fleet.worker.kind.endpoint import KindEndpoint
from shoal.objects.errors import BadRequest
from shoal.objects.wire import Answer, Request, Response, Sink, StreamResponse

if TYPE_CHECKING:
    from shoal.client.forwarding import ForwardedResponse, ForwardingTransport

log = logging.getLogger("shoal.fleet")

HeaderPairs = tuple[tuple[str, str], ...]

MAX_BUFFERED_RESPONSE = 1024 * 1024
"""Longer responses, and those of unknown length, are passed on as they come."""
MAX_PENDING = 256 * 1024
"""With more bytes than these that the client has not read, the response is not read."""
IDENTITY_PREFIXES = ("impersonate-", "x-remote-")
"""Headers with which a client, or a front proxy, tells whose request it is."""
_CONNECTION_HEADERS = frozenset(
    {"connection", "content-length", "date", "host", "keep-alive", "te", "trailer", "transfer-encoding", UPGRADE_HEADER}
)
_is_query = re.compile(r"[\x21-\x22\x24-\x7e]*").fullmatch
"""Printable ASCII without `#`."""
_has_control = re.compile(r"[\x00-\x1f\x7f]").search


class ImpersonatedUser(NamedTuple):
    """The user of a request that the worker has authenticated."""

    name: str
    groups: tuple[str, ...]

    @property
    def headers(self) -> HeaderPairs:
        groups = (("impersonate-group", group) for group in self.groups)
        return (("impersonate-user", self.name), *groups)


class KindProxy:
    def __init__(self, endpoint: KindEndpoint) -> None:
        # aiohttp costs memory in a server without kind clusters.
        from shoal.client.forwarding import ForwardingTransport  # noqa: PLC0415

        self._endpoint = endpoint
        self._as_admin = ForwardingTransport(endpoint.server, endpoint.admin.tls_context)
        self._unauthenticated = ForwardingTransport(endpoint.server, endpoint.unauthenticated)
        self._streams: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in self._streams:
            task.cancel()
        await asyncio.gather(self._as_admin.close(), self._unauthenticated.close())

    async def pass_on(self, request: Request, target: HostedPath) -> Answer:
        """Passes the request on with the client's own token."""
        return await self._forward(request, target, request_headers(request), self._unauthenticated)

    async def pass_on_as(self, request: Request, target: HostedPath, identity: HeaderPairs) -> Answer:
        """Passes the request on as the user of these Impersonate headers."""
        headers = (*headers_without_identity(request), *identity)
        return await self._forward(request, target, headers, self._as_admin)

    async def read(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Makes a request of the worker itself, as kind's administrator."""
        headers = (("content-type", "application/json"), ("accept", "application/json"))
        response = await self._as_admin.forward(method, path, headers, body)
        return response.status, await _read_all(response.body)

    async def _forward(
        self, request: Request, target: HostedPath, headers: HeaderPairs, transport: ForwardingTransport
    ) -> Answer:
        path = request_target(request, target)
        if any(_has_control(value) for _, value in headers):
            raise BadRequest("a header has a control character")
        if UPGRADE_HEADER in request.headers:
            tls = self._endpoint.admin.tls_context if transport is self._as_admin else self._endpoint.unauthenticated
            upgrade = ("connection", "Upgrade"), (UPGRADE_HEADER, request.headers[UPGRADE_HEADER])
            try:
                return await forward_upgrade(
                    self._endpoint.server, tls, request.method, path, (*headers, *upgrade), request.body
                )
            except ValueError:
                raise BadRequest("the request cannot be passed on") from None
        response = await transport.forward(request.method, path, headers, request.body)
        return await self._answer(request.method, response)

    async def _answer(self, method: str, response: ForwardedResponse) -> Answer:
        headers = tuple(
            (name.lower(), value) for name, value in response.headers if name.lower() not in _CONNECTION_HEADERS
        )
        content_type = dict(headers).get("content-type", "application/json")
        rest = tuple(pair for pair in headers if pair[0] != "content-type")
        is_short = response.length is not None and response.length <= MAX_BUFFERED_RESPONSE
        if method == "HEAD" or is_short:
            return Response(response.status, await _read_all(response.body), content_type, rest)

        def start(sink: Sink) -> None:
            task = asyncio.get_running_loop().create_task(_stream(response.body, sink))
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)
            sink.on_close(lambda: _cancel(task))

        return StreamResponse(response.status, start, content_type, rest)


def request_target(request: Request, target: HostedPath) -> str:
    """Returns path and query for the server, percent-encoded."""
    if not _is_query(request.query):
        raise BadRequest("the query is not percent-encoded")
    path = quote(target.rest or "/", safe="/~!$&'()*+,;=:@")
    return f"{path}?{request.query}" if request.query else path


def request_headers(request: Request) -> HeaderPairs:
    """Returns the headers of a client that the server authenticates. Nobody vouches for a user here."""
    return tuple(
        (name, value)
        for name, value in request.raw_headers or request.headers.items()
        if name not in _CONNECTION_HEADERS and not name.startswith("x-remote-")
    )


def headers_without_identity(request: Request) -> HeaderPairs:
    """Returns the headers without all that says who the client is."""
    return tuple(
        (name, value)
        for name, value in request_headers(request)
        if name != "authorization" and not name.startswith(IDENTITY_PREFIXES)
    )


def impersonation_headers(request: Request) -> HeaderPairs:
    """Returns the client's Impersonate headers, whose authorization the caller has checked. Of a user and a uid there
    is one: the first.
    """
    headers = [pair for pair in request_headers(request) if pair[0].startswith("impersonate-")]
    single = {name: value for name, value in reversed(headers) if name in ("impersonate-user", "impersonate-uid")}
    return (*single.items(), *(pair for pair in headers if pair[0] not in single))


async def _read_all(body: AsyncGenerator[bytes, None]) -> bytes:
    pieces: Sequence[bytes] = [piece async for piece in body]
    return b"".join(pieces)


async def _stream(body: AsyncGenerator[bytes, None], sink: Sink) -> None:
    """Passes a body on, no faster than the client reads it."""
    drained = asyncio.Event()
    sink.on_drain(drained.set)
    try:
        async with aclosing(body) as pieces:
            async for piece in pieces:
                drained.clear()
                sink.write(piece)
                if sink.pending_bytes > MAX_PENDING and not sink.closed:
                    await drained.wait()
    except Unreachable:
        sink.abort()
    else:
        sink.close()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
