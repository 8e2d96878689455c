"""Listens, keeps the open connections and their deadlines, and ends them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection

from shoal.apiserver.http.connection import Connection
from shoal.apiserver.http.encoding import date_line, status_response
from shoal.apiserver.http.flusher import Flusher
from shoal.apiserver.http.limits import Limits
from shoal.apiserver.http.upgraded import Upgraded
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import StatusError
from shoal.objects.wire import Handler, Response

_BACKLOG = 1024
_PEER_ALIVE_AFTER = 180
"""Seconds of silence after which TCP asks whether the peer is still there: a watch may be silent for hours."""
_LOOK_SECONDS = 0.25
_STREAMS_AT_ONCE, _STREAMS_PAUSE = 100, 0.1
"""How streams are ended when the server stops: all who followed them begin anew elsewhere, in the same moment."""


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
        self._upgraded: set[Upgraded] = set()
        self.date = b""
        self.now = 0.0
        self.draining = False
        self._listener: socket.socket | None = None
        self._clock = clock or SystemClock()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._one_gone: asyncio.Event | None = None

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listens and returns the port: the one asked for, or a free one for 0."""
        loop = asyncio.get_running_loop()
        self._listener = _listen(host, port)
        self._one_gone, self.draining = None, False
        self.flusher = Flusher(loop)
        self._tick(loop)
        self._server = await self._accept(self._listener.dup(), ssl_context)
        return int(self._listener.getsockname()[1])

    async def renew(self, ssl_context: ssl.SSLContext) -> None:
        """From now on connections begin with this context. The socket stays: nobody who comes meanwhile is refused."""
        if self._server is None or self._listener is None or self._one_gone is not None:
            return
        before, self._server = self._server, await self._accept(self._listener.dup(), ssl_context)
        before.close()

    async def _accept(self, listener: socket.socket, ssl_context: ssl.SSLContext | None) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: Connection(self, loop),
            sock=listener,
            ssl=ssl_context,
            backlog=_BACKLOG,
            ssl_handshake_timeout=self.limits.header_timeout if ssl_context else None,
            ssl_shutdown_timeout=2.0 if ssl_context else None,
        )

    def drain(self) -> None:
        """Serves on; each client is told with its next answer to come back on another connection."""
        self.draining = True

    async def stop(self, grace: float, linger: float = 0.0) -> None:
        """Accepts nothing more, ends streams properly, and gives what is under way `grace` seconds.

        Who has connected and not asked yet may do so for `linger` seconds: a request that is on its way when its
        connection is closed is lost, and its client cannot know whether it was carried out. Upgraded connections go
        last: requests that are under way may be answered through them.
        """
        if self._server is None or self._listener is None:
            return
        self.draining = True
        self._server.close()
        self._listener.close()
        await self._linger(linger)
        self._one_gone = asyncio.Event()
        await self._end_streams(grace)
        await self._end(self._connections, grace)
        await self._end(self._upgraded, min(grace, 1.0))
        if self._timer is not None:
            self._timer.cancel()
        self._server = None

    def admit(self, connection: Connection) -> bool:
        """Takes a new connection, unless it is one too many or comes after the end."""
        count = len(self._connections) + len(self._upgraded)
        if self._one_gone is not None or 0 < self.limits.max_connections <= count:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: Connection | Upgraded) -> None:
        if isinstance(connection, Upgraded):
            self._upgraded.discard(connection)
        else:
            self._connections.discard(connection)
        if self._one_gone is not None:
            self._one_gone.set()

    def upgrade(self, connection: Connection, transport: asyncio.Transport) -> Upgraded:
        upgraded = Upgraded(transport, self.forget)
        self._upgraded.add(upgraded)
        self.forget(connection)
        return upgraded

    async def _linger(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            # The first time too: a connection may be in its handshake, and not be known here.
            await asyncio.sleep(min(_LOOK_SECONDS, seconds))
            if all(connection.streams for connection in self._connections):
                return

    async def _end_streams(self, grace: float) -> None:
        """Bit by bit; none is cut off."""
        streams = [connection for connection in self._connections if connection.streams]
        # However many there are, half of the time is for what is under way.
        at_once = max(_STREAMS_AT_ONCE, int(len(streams) * _STREAMS_PAUSE / max(grace / 2, _STREAMS_PAUSE)))
        for first in range(0, len(streams), at_once):
            if first:
                await asyncio.sleep(_STREAMS_PAUSE)
            for connection in streams[first : first + at_once]:
                connection.finish()

    async def _end(self, held: Collection[Connection | Upgraded], grace: float) -> None:
        for connection in list(held):
            connection.finish()
        if not await self._gone(held, grace):
            for connection in list(held):
                connection.abort()
            await self._gone(held, 1.0)

    async def _gone(self, held: Collection[Connection | Upgraded], seconds: float) -> bool:
        assert self._one_gone is not None
        try:
            async with asyncio.timeout(seconds):
                while held:
                    self._one_gone.clear()
                    await self._one_gone.wait()
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
