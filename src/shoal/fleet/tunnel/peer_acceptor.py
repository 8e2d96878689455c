"""Accepts tunnels of other hubs and serves them the workers that are connected to this hub.

Only the hubs of one store have the token. What comes through such a tunnel goes to a worker of this hub or fails: it is
never forwarded to a third hub, so there are no loops. Users are authenticated by the hosted cluster, as always.
"""

from __future__ import annotations

import hmac
import logging
import socket
from collections.abc import Awaitable, Callable

from shoal.clock import Clock, SystemClock
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.paths import (
    HUB_REQUEST_PREFIX,
    UNREACHABLE_HEADER,
    HostedPath,
    parse_hosted_path,
    reject_upgrade,
)
from shoal.fleet.tunnel.peers import TUNNEL_PATH
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.fleet.tunnel.registry import TunnelRegistry, WorkerOf, check_tunnel_upgrade, hosting_worker
from shoal.fleet.tunnel.user_tokens import decode_request
from shoal.fleet.tunnel.worker_end import WorkerTunnel, error_response
from shoal.objects.errors import NotFound, StatusError, Unauthorized, Unavailable
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request, Upgrade

log = logging.getLogger("shoal.fleet")

MAX_TUNNELS = 64
_BEARER = "bearer "


class PeerAcceptor:
    def __init__(self, token: str, tunnels: TunnelRegistry, max_connections: int, clock: Clock | None = None) -> None:
        """`max_connections` are the raw connections of all other hubs."""
        self._token, self._tunnels, self._clock = token.encode(), tunnels, clock or SystemClock()
        self._max_connections = max_connections
        self.open_connections = 0
        self._accepted: set[WorkerTunnel] = set()

    @property
    def tunnel_count(self) -> int:
        return len(self._accepted)

    def route(self, worker_of: WorkerOf) -> Handler:
        """Returns the handler of the route `/hubs/`."""

        async def handle_forwarded(request: Request) -> Answer:
            try:
                worker = hosting_worker(_target(request), worker_of)
                reject_upgrade(request)
                answer = self._tunnels.local_handler_for(worker)(request)
                return await answer if isinstance(answer, Awaitable) else answer
            except StatusError as error:
                response = error_response(error)
                response.headers += ((UNREACHABLE_HEADER, "true"),)
                return response

        async def connect_forwarded(target: HostedPath) -> SocketHandler:
            if self.open_connections >= self._max_connections:
                raise Unavailable("too many connections from other hubs", retry_after=1)
            connector = self._tunnels.local_connector_for(hosting_worker(target, worker_of))
            return self._count_connection(await connector(target))

        def accept(request: Request) -> Answer:
            self._check(request)

            def start(stream: ByteStream) -> Receiver:
                tunnel = WorkerTunnel(
                    f"the hub at {request.remote_addr}",
                    handle_forwarded,
                    self._clock,
                    connect_forwarded,
                    self._accepted.discard,
                )
                self._accepted.add(tunnel)
                log.info("a hub connected from %s", request.remote_addr)
                return tunnel.start(stream)

            return Upgrade(PROTOCOL, start)

        return accept

    def close(self) -> None:
        for tunnel in list(self._accepted):
            tunnel.close()

    def _check(self, request: Request) -> None:
        if request.path != TUNNEL_PATH:
            raise NotFound("the server could not find the requested resource")
        authorization = request.headers.get("authorization", "")
        given = authorization[len(_BEARER) :].strip() if authorization.lower().startswith(_BEARER) else ""
        if not hmac.compare_digest(given.encode(errors="replace"), self._token):
            raise Unauthorized("Unauthorized")
        check_tunnel_upgrade(request)
        if len(self._accepted) >= MAX_TUNNELS:
            raise Unavailable("too many tunnels of other hubs", retry_after=1)

    def _count_connection(self, handle: SocketHandler) -> SocketHandler:
        def serve(sock: socket.socket, client: str, on_closed: Callable[[], None]) -> None:
            def on_counted_closed() -> None:
                self.open_connections -= 1
                on_closed()

            self.open_connections += 1
            handle(sock, client, on_counted_closed)

        return serve


def _target(request: Request) -> HostedPath:
    """Returns the cluster of a request of a client, or of a request that the other hub makes itself."""
    if request.path.startswith(HUB_REQUEST_PREFIX):
        token_request = decode_request(request)
        return HostedPath(token_request.namespace, token_request.name, "")
    return parse_hosted_path(request.path)
