"""Accepts connections and starts their TLS handshakes, alternating between the newest and the oldest waiting ones.

An event loop by itself accepts one connection a turn, in arrival order. When hundreds connect at once to a busy server,
a health probe that arrives last would wait for all of them. Here it is served next, and so is one that arrived just
before them. A connection that waits too long for its handshake is closed: its client has given up or will retry.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

_BACKLOG = 1024
_TCP_KEEPALIVE_SECONDS = 180
"""Idle seconds before TCP keepalive probes start. A watch may be silent for hours."""
_HANDSHAKES_PER_TURN = 64
"""Handshakes started in one turn, half from the newest and half from the oldest connections. A TLS handshake costs 0.6
ms.
"""
_MAX_WAITING = 4096
_MAX_HANDSHAKES = 2048
"""Handshakes in progress. Above it the longest running are ended: their clients do not answer."""
_ACCEPT_RETRY_SECONDS = 1.0
"""Seconds before accepting again after the process ran out of file descriptors."""


class _Waiting(NamedTuple):
    """An accepted connection before its handshake."""

    since: float
    conn: socket.socket
    factory: Callable[[], asyncio.Protocol]
    ssl_context: ssl.SSLContext | None
    """None: the listener's own."""
    on_done: Callable[[], None]
    """Called when the handshake has ended, or will not begin."""

    def close(self) -> None:
        self.conn.close()
        self.on_done()


class Listener:
    def __init__(self, factory: Callable[[], asyncio.Protocol], handshake_timeout: float) -> None:
        """`handshake_timeout` is the number of seconds an accepted connection may wait for its handshake, and again the
        limit of the handshake itself.
        """
        self._factory, self._handshake_timeout = factory, handshake_timeout
        self._socket: socket.socket | None = None
        self._accepted: deque[_Waiting] = deque()
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._handshake_scheduled = False
        self.ssl_context: ssl.SSLContext | None = None
        """The TLS context of new connections."""

    def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None) -> int:
        """Listens and returns the port: the requested one, or a free one for 0."""
        self._loop = asyncio.get_running_loop()
        self.ssl_context = ssl_context
        self._socket = listening_socket(host, port)
        self._loop.add_reader(self._socket, self._accept)
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stops accepting. Handshakes of connections that were accepted before still run."""
        if self._socket is not None:
            self._accept()
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def abort_handshakes(self) -> None:
        """Closes connections whose handshake is not complete."""
        while self._accepted:
            self._accepted.pop().close()
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        assert self._socket is not None
        now = self._loop.time()
        for _ in range(_BACKLOG):
            try:
                conn, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_ACCEPT_RETRY_SECONDS, self._resume_accepting)
                break
            conn.setblocking(False)
            self._accepted.append(_Waiting(now, conn, self._factory, None, _no_op))
        self._drop_excess()
        if self._accepted and not self._handshake_scheduled:
            self._start_handshakes()

    def add(
        self,
        conn: socket.socket,
        factory: Callable[[], asyncio.Protocol],
        ssl_context: ssl.SSLContext,
        on_done: Callable[[], None],
    ) -> None:
        """Adds a connection that was accepted elsewhere. It waits for its handshake with the others."""
        self._accepted.append(_Waiting(self._loop.time(), conn, factory, ssl_context, on_done))
        self._drop_excess()
        if not self._handshake_scheduled:
            self._handshake_scheduled = True
            self._loop.call_soon(self._start_handshakes)

    def _drop_excess(self) -> None:
        while len(self._accepted) > _MAX_WAITING:
            self._accepted.popleft().close()

    def _resume_accepting(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._accept)

    def _start_handshakes(self) -> None:
        oldest = self._loop.time() - self._handshake_timeout
        for number in range(min(_HANDSHAKES_PER_TURN, len(self._accepted))):
            waiting = self._accepted.popleft() if number % 2 else self._accepted.pop()
            if waiting.since < oldest:
                waiting.close()
                continue
            task = self._loop.create_task(self._handshake(waiting))
            self._handshakes[task] = None
            if len(self._handshakes) > _MAX_HANDSHAKES:
                longest = next(iter(self._handshakes))
                del self._handshakes[longest]
                longest.cancel()
            task.add_done_callback(partial(self._on_handshake_done, waiting))
        self._handshake_scheduled = bool(self._accepted)
        if self._handshake_scheduled:
            self._loop.call_soon(self._start_handshakes)

    async def _handshake(self, waiting: _Waiting) -> None:
        ssl_context = waiting.ssl_context or self.ssl_context
        with suppress(OSError):  # ssl.SSLError is an OSError: the peer does not speak TLS or disconnected
            await self._loop.connect_accepted_socket(
                waiting.factory,
                waiting.conn,
                ssl=ssl_context,
                ssl_handshake_timeout=self._handshake_timeout if ssl_context else None,
                ssl_shutdown_timeout=2.0 if ssl_context else None,
            )

    def _on_handshake_done(self, waiting: _Waiting, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():  # perhaps before it started, so nothing else closes the socket
            waiting.conn.close()
        waiting.on_done()


def _no_op() -> None:
    pass


def listening_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens, does not block, and has the options that accepted sockets inherit."""
    dual_stack = host in ("", "::") and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host or dual_stack else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack)
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _TCP_KEEPALIVE_SECONDS)
    return listener
