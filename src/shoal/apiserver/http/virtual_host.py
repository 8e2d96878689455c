"""A virtual host: connections that were accepted elsewhere, with a handler and a limit of their own.

They are connections of one `HTTPServer`, with its limits and deadlines, and end with it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from shoal.apiserver.http.body_budget import BodyBudget
from shoal.apiserver.http.connection import HTTPConnection
from shoal.apiserver.http.flusher import StreamFlusher
from shoal.apiserver.http.hijacked import HijackedConnection
from shoal.apiserver.http.limits import HTTPLimits
from shoal.apiserver.http.server import HTTPServer
from shoal.objects.errors import StatusError
from shoal.objects.wire import Handler, Response


class VirtualHost:
    def __init__(self, server: HTTPServer, handler: Handler, head_handler: Handler, max_connections: int) -> None:
        self._server, self.handler, self.head_handler = server, handler, head_handler
        self.max_connections = max_connections
        self._connections: dict[HTTPConnection | HijackedConnection, Callable[[], None]] = {}
        """With what to call when they are closed."""
        self._handshakes: set[HTTPConnection] = set()
        """Those that are in their handshake."""

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def is_full(self) -> bool:
        return self.connection_count >= self.max_connections

    def serve(
        self, conn: socket.socket, ssl_context: ssl.SSLContext, remote_addr: str, on_closed: Callable[[], None]
    ) -> None:
        """Takes over the socket. `remote_addr` is the address of the client. `on_closed` is called once, when the
        connection is closed.
        """
        if self.is_full:
            conn.close()
            on_closed()
            return
        connection = HTTPConnection(self, asyncio.get_running_loop(), remote_addr)
        self._connections[connection] = on_closed
        self._handshakes.add(connection)
        self._server.serve_socket(conn, lambda: connection, ssl_context, lambda: self._on_handshake_done(connection))

    def _on_handshake_done(self, connection: HTTPConnection) -> None:
        if connection in self._handshakes:  # it failed
            self._handshakes.remove(connection)
            self._connections.pop(connection)()

    def shut_down(self) -> None:
        """Ends the connections. Requests in progress are answered."""
        for connection in self._connections.keys() - self._handshakes:
            connection.shut_down()

    # --- the server as its connections use it ---

    @property
    def limits(self) -> HTTPLimits:
        return self._server.limits

    @property
    def bodies(self) -> BodyBudget:
        return self._server.bodies

    @property
    def unread(self) -> dict[HTTPConnection, None]:
        return self._server.unread

    @property
    def on_error(self) -> Callable[[StatusError], Response]:
        return self._server.on_error

    @property
    def date(self) -> bytes:
        return self._server.date

    @property
    def loop_time(self) -> float:
        return self._server.loop_time

    @property
    def is_draining(self) -> bool:
        return self._server.is_draining

    @property
    def flusher(self) -> StreamFlusher:
        return self._server.flusher

    @property
    def is_crowded(self) -> bool:
        return self._server.is_crowded

    def admit(self, connection: HTTPConnection) -> bool:
        self._handshakes.discard(connection)
        return self._server.admit(connection)

    def identify(self, connection: HTTPConnection) -> None:
        self._server.identify(connection)

    def remove(self, connection: HTTPConnection | HijackedConnection) -> None:
        self._server.remove(connection)
        on_closed = self._connections.pop(connection, None)
        if on_closed is not None:
            on_closed()

    def upgrade(self, connection: HTTPConnection, transport: asyncio.Transport) -> HijackedConnection:
        hijacked = self._server.upgrade(connection, transport, self.remove)
        self._connections[hijacked] = self._connections.pop(connection)
        return hijacked
