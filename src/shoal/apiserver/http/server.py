"""The HTTP server: owns the open connections, enforces their deadlines and shuts them down."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection

from shoal.apiserver.http.connection import Connection
from shoal.apiserver.http.encoding import date_line, status_response
from shoal.apiserver.http.flusher import Flusher
from shoal.apiserver.http.limits import Limits
from shoal.apiserver.http.listener import Listener
from shoal.apiserver.http.upgraded import Upgraded
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import StatusError
from shoal.objects.wire import Handler, Response

_LOOK_SECONDS = 0.25
_CROWD = 256
_STREAMS_AT_ONCE, _STREAMS_PAUSE = 100, 0.1
"""Streams are ended in batches on shutdown, because all their clients reconnect elsewhere at once."""


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
        self._listener: Listener | None = None
        self._clock = clock or SystemClock()
        self._timer: asyncio.TimerHandle | None = None
        self._one_gone: asyncio.Event | None = None

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listens and returns the port: the requested one, or a free one for 0."""
        loop = asyncio.get_running_loop()
        self._one_gone, self.draining = None, False
        self.flusher = Flusher(loop)
        self._tick(loop)
        self._listener = Listener(lambda: Connection(self, loop), self.limits.header_timeout)
        return self._listener.start(host, port, ssl_context)

    def renew(self, ssl_context: ssl.SSLContext) -> None:
        """Sets the TLS context of new connections."""
        if self._listener is not None:
            self._listener.ssl_context = ssl_context

    @property
    def crowded(self) -> bool:
        return len(self._connections) > _CROWD

    def drain(self) -> None:
        """Keeps serving, but every response tells its client to reconnect (`Connection: close`)."""
        self.draining = True

    async def stop(self, grace: float, linger: float = 0.0) -> None:
        """Stops accepting, ends streams cleanly, and gives requests in progress `grace_seconds`.

        A client that is connected but has not sent a request yet may do so for `linger_seconds`: a request in transit
        when its connection is closed is lost, and the client cannot know whether it was executed. Hijacked connections
        are closed last, because requests in progress may be answered through them.
        """
        if self._listener is None:
            return
        self.draining = True
        self._listener.close()
        await self._linger(linger)
        await self._listener.drop()
        self._one_gone = asyncio.Event()
        await self._end_streams(grace)
        await self._end(self._connections, grace)
        await self._end(self._upgraded, min(grace, 1.0))
        if self._timer is not None:
            self._timer.cancel()
        self._listener = None

    def admit(self, connection: Connection) -> bool:
        """Registers a new connection. Returns False above `max_connections` or after shutdown."""
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
            # Sleeps before the first check too: a connection in its handshake is not registered yet.
            await asyncio.sleep(min(_LOOK_SECONDS, seconds))
            if all(connection.streams for connection in self._connections):
                return

    async def _end_streams(self, grace: float) -> None:
        """Ends streams in batches; none is aborted."""
        streams = [connection for connection in self._connections if connection.streams]
        # Half of the grace period is left for requests in progress, whatever the number of streams.
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
        """One timer serves all connections, so a deadline costs a request no more than an attribute."""
        self.now = loop.time()
        self.date = date_line(self._clock.now())
        for connection in [each for each in self._connections if each.deadline < self.now]:
            connection.expire()
        self._timer = loop.call_later(min(1.0, self.limits.shortest() / 4), self._tick, loop)
