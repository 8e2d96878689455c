"""The HTTP server: owns the open connections, enforces their deadlines and shuts them down."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection

from shoal.apiserver.http.body_budget import BodyBudget, body_refused_error
from shoal.apiserver.http.connection import HTTPConnection
from shoal.apiserver.http.encoding import encode_date_header, status_response
from shoal.apiserver.http.flusher import StreamFlusher
from shoal.apiserver.http.hijacked import HijackedConnection
from shoal.apiserver.http.limits import HTTPLimits
from shoal.apiserver.http.listener import Listener
from shoal.apiserver.http.unknown_peers import UnknownPeers
from shoal.apiserver.malloc import trim
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, Handler, Request, Response, continue_response

_LINGER_POLL_SECONDS = 0.25
_CROWDED_ABOVE = 256
_TRIM_AFTER_CLOSED = 1000
"""Closed connections after which their memory is returned to the kernel."""
_STREAMS_PER_BATCH, _STREAM_BATCH_PAUSE_SECONDS = 100, 0.1
"""Streams are ended in batches on shutdown, because all their clients reconnect elsewhere at once."""


class HTTPServer:
    flusher: StreamFlusher

    def __init__(
        self,
        handler: Handler,
        *,
        head_handler: Handler | None = None,
        limits: HTTPLimits | None = None,
        on_error: Callable[[StatusError], Response] = status_response,
        clock: Clock | None = None,
    ) -> None:
        """`head_handler` answers the head of a request whose body has not arrived yet. Status 100 lets the body in; by
        default every body is let in.
        """
        self.handler = handler
        self.head_handler = head_handler or _admit_body
        self.limits = limits or HTTPLimits()
        self.bodies = BodyBudget(self.limits.max_bodies_bytes)
        self.on_error = on_error
        self._connections: set[HTTPConnection] = set()
        self._hijacked: set[HijackedConnection] = set()
        self._max_connections = self.limits.connection_limit
        self.unknown: UnknownPeers[HTTPConnection] = UnknownPeers(
            max(1, min(self.limits.max_unknown_connections, (self._max_connections + 1) // 2))
        )
        self.unread: dict[HTTPConnection, None] = {}
        self.ended_behind_total = 0
        """Connections that were aborted because their peers did not read."""
        self.date = b""
        self.loop_time = 0.0
        self.is_draining = False
        self._listener: Listener | None = None
        self._clock = clock or SystemClock()
        self._timer: asyncio.TimerHandle | None = None
        self._closed_since_trim = 0
        self._connection_removed: asyncio.Event | None = None

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listens and returns the port: the requested one, or a free one for 0."""
        loop = asyncio.get_running_loop()
        self._connection_removed, self.is_draining = None, False
        self.flusher = StreamFlusher(loop)
        self._tick(loop)
        self._listener = Listener(lambda: HTTPConnection(self, loop), self.limits.header_timeout)
        return self._listener.start(host, port, ssl_context)

    def serve_socket(
        self,
        conn: socket.socket,
        factory: Callable[[], HTTPConnection],
        ssl_context: ssl.SSLContext,
        on_handshake_done: Callable[[], None],
    ) -> None:
        """Serves a connection that was accepted elsewhere. The callback is called in any case, after this call or in
        it.
        """
        if self._listener is None or self._connection_removed is not None:
            conn.close()
            on_handshake_done()
        else:
            self._listener.add(conn, factory, ssl_context, on_handshake_done)

    def set_ssl_context(self, ssl_context: ssl.SSLContext) -> None:
        """Sets the TLS context of new connections."""
        if self._listener is not None:
            self._listener.ssl_context = ssl_context

    @property
    def is_crowded(self) -> bool:
        return len(self._connections) > _CROWDED_ABOVE

    def drain(self) -> None:
        """Keeps serving, but every response tells its client to reconnect (`Connection: close`)."""
        self.is_draining = True

    async def stop(self, grace_seconds: float, linger_seconds: float = 0.0) -> None:
        """Stops accepting, ends streams cleanly, and gives requests in progress `grace_seconds`.

        A client that is connected but has not sent a request yet may do so for `linger_seconds`: a request in transit
        when its connection is closed is lost, and the client cannot know whether it was executed. Hijacked connections
        are closed last, because requests in progress may be answered through them.
        """
        if self._listener is None:
            return
        self.is_draining = True
        self._listener.close()
        await self._wait_for_requests(linger_seconds)
        await self._listener.abort_handshakes()
        self._connection_removed = asyncio.Event()
        await self._end_streams(grace_seconds)
        await self._close_all(self._connections, grace_seconds)
        await self._close_all(self._hijacked, min(grace_seconds, 1.0))
        if self._timer is not None:
            self._timer.cancel()
        self._listener = None

    @property
    def connection_count(self) -> int:
        return len(self._connections) + len(self._hijacked)

    def admit(self, connection: HTTPConnection) -> bool:
        """Registers a new connection. Returns False if there is no room for it, or after shutdown."""
        if self._connection_removed is not None:
            return False
        if self.connection_count >= self._max_connections and not self.unknown.end_one():
            return False
        if not self.unknown.add(connection):
            return False
        self._connections.add(connection)
        return True

    def identify(self, connection: HTTPConnection) -> None:
        self.unknown.remove(connection)

    def remove(self, connection: HTTPConnection | HijackedConnection) -> None:
        if isinstance(connection, HijackedConnection):
            self._hijacked.discard(connection)
        else:
            self._connections.discard(connection)
            self.unread.pop(connection, None)
            self.unknown.remove(connection)
            self._closed_since_trim += 1
        if self._connection_removed is not None:
            self._connection_removed.set()

    def upgrade(
        self,
        connection: HTTPConnection,
        transport: asyncio.Transport,
        on_close: Callable[[HijackedConnection], None] | None = None,
    ) -> HijackedConnection:
        hijacked = HijackedConnection(transport, on_close or self.remove)
        self._hijacked.add(hijacked)
        self.remove(connection)
        return hijacked

    async def _wait_for_requests(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            # Sleeps before the first check too: a connection in its handshake is not registered yet.
            await asyncio.sleep(min(_LINGER_POLL_SECONDS, seconds))
            if all(connection.is_streaming for connection in self._connections):
                return

    async def _end_streams(self, grace: float) -> None:
        """Ends streams in batches; none is aborted."""
        streams = [connection for connection in self._connections if connection.is_streaming]
        # Half of the grace period is left for requests in progress, whatever the number of streams.
        batch_size = max(
            _STREAMS_PER_BATCH,
            int(len(streams) * _STREAM_BATCH_PAUSE_SECONDS / max(grace / 2, _STREAM_BATCH_PAUSE_SECONDS)),
        )
        for first in range(0, len(streams), batch_size):
            if first:
                await asyncio.sleep(_STREAM_BATCH_PAUSE_SECONDS)
            for connection in streams[first : first + batch_size]:
                connection.shut_down()

    async def _close_all(self, connections: Collection[HTTPConnection | HijackedConnection], grace: float) -> None:
        for connection in list(connections):
            connection.shut_down()
        if not await self._wait_until_empty(connections, grace):
            for connection in list(connections):
                connection.abort()
            await self._wait_until_empty(connections, 1.0)

    async def _wait_until_empty(
        self, connections: Collection[HTTPConnection | HijackedConnection], seconds: float
    ) -> bool:
        assert self._connection_removed is not None
        try:
            async with asyncio.timeout(seconds):
                while connections:
                    self._connection_removed.clear()
                    await self._connection_removed.wait()
        except TimeoutError:
            return False
        return True

    def _bound_unread(self) -> None:
        sizes = {connection: connection.unread_bytes for connection in self.unread}
        excess = sum(sizes.values()) - self.limits.max_unread_bytes
        if excess <= 0:
            return
        for connection in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if excess <= 0:
                return
            excess -= sizes[connection]
            self.ended_behind_total += 1
            connection.abort()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer serves all connections, so a deadline costs a request no more than an attribute."""
        self.loop_time = loop.time()
        self.date = encode_date_header(self._clock.now())
        for connection in [each for each in self._connections if each.deadline < self.loop_time]:
            connection.expire()
        if self.unread:
            self._bound_unread()
        if self._closed_since_trim > _TRIM_AFTER_CLOSED:
            self._closed_since_trim = 0
            loop.run_in_executor(None, trim)
        self._timer = loop.call_later(min(1.0, self.limits.shortest_timeout() / 4), self._tick, loop)


def _admit_body(head: Request) -> Answer:
    if head.hold is not None and not head.hold.assign(("", head.remote_addr)):
        raise body_refused_error()
    return continue_response()
