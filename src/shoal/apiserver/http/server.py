"""Listens, keeps the open connections and their deadlines, and ends them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from shoal.apiserver.http.connection import Connection
from shoal.apiserver.http.encoding import date_line, status_response
from shoal.apiserver.http.flusher import Flusher
from shoal.apiserver.http.limits import Limits
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import StatusError
from shoal.objects.wire import Handler, Response

_BACKLOG = 1024
_PEER_ALIVE_AFTER = 180
"""Seconds of silence after which TCP asks whether the peer is still there: a watch may be silent for hours."""


class HttpServer:
    flusher: Flusher

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        on_error: Callable[[StatusError], Response] = status_response,
        clock: Clock | None = None,
    ) -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.on_error = on_error
        self._connections: set[Connection] = set()
        self.date = b""
        self.now = 0.0
        self._clock = clock or SystemClock()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Event | None = None

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listens and returns the port: the one asked for, or a free one for 0."""
        loop = asyncio.get_running_loop()
        listener = _listen(host, port)
        self._all_gone = None
        self.flusher = Flusher(loop)
        self._tick(loop)
        self._server = await loop.create_server(
            lambda: Connection(self, loop),
            sock=listener,
            ssl=ssl_context,
            backlog=_BACKLOG,
            ssl_handshake_timeout=self.limits.header_timeout if ssl_context else None,
            ssl_shutdown_timeout=2.0 if ssl_context else None,
        )
        return int(listener.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Accepts nothing more, ends streams properly, and gives what is under way `grace` seconds."""
        if self._server is None:
            return
        self._server.close()
        self._all_gone = asyncio.Event()
        for connection in list(self._connections):
            connection.finish()
        if not await self._gone(grace):
            for connection in list(self._connections):
                connection.abort()
            await self._gone(1.0)
        if self._timer is not None:
            self._timer.cancel()
        self._server = None

    def admit(self, connection: Connection) -> bool:
        """Takes a new connection, unless it is one too many or comes after the end."""
        if self._all_gone is not None or 0 < self.limits.max_connections <= len(self._connections):
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._all_gone is not None and not self._connections:
            self._all_gone.set()

    async def _gone(self, seconds: float) -> bool:
        if self._connections and self._all_gone is not None:
            try:
                await asyncio.wait_for(self._all_gone.wait(), seconds)
            except TimeoutError:
                return False
        return True

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all connections: a deadline then costs a request nothing but an attribute."""
        self.now = loop.time()
        self.date = date_line(self._clock.now())
        for connection in [each for each in self._connections if each.deadline < self.now]:
            connection.expire()
        self._timer = loop.call_later(min(1.0, self.limits.shortest() / 4), self._tick, loop)


def _listen(host: str, port: int) -> socket.socket:
    everywhere = host in ("", "::") and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host or everywhere else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=everywhere)
    listener.setblocking(False)
    # Accepted sockets inherit these.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PEER_ALIVE_AFTER)
    return listener
