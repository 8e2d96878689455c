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

_BACKLOG = 1024
_PEER_ALIVE_AFTER = 180
"""Idle seconds before TCP keepalive probes start. A watch may be silent for hours."""
_AT_ONCE = 64
"""Handshakes started in one turn, half from the newest and half from the oldest connections. A TLS handshake costs 0.6
ms.
"""
_MOST_WAITING = 4096
_PAUSE = 1.0
"""Seconds before accepting again after the process ran out of file descriptors."""


class Listener:
    def __init__(self, factory: Callable[[], asyncio.Protocol], patience: float) -> None:
        """`handshake_timeout` is the number of seconds an accepted connection may wait for its handshake, and again the
        limit of the handshake itself.
        """
        self._factory, self._patience = factory, patience
        self._socket: socket.socket | None = None
        self._waiting: deque[tuple[float, socket.socket]] = deque()
        self._greeting: set[asyncio.Task[None]] = set()
        self._scheduled = False
        self.ssl_context: ssl.SSLContext | None = None
        """The TLS context of new connections."""

    def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None) -> int:
        """Listens and returns the port: the requested one, or a free one for 0."""
        self._loop = asyncio.get_running_loop()
        self.ssl_context = ssl_context
        self._socket = _listen(host, port)
        self._loop.add_reader(self._socket, self._take)
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stops accepting. Handshakes of connections that were accepted before still run."""
        if self._socket is not None:
            self._take()
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def drop(self) -> None:
        """Closes connections whose handshake is not complete."""
        while self._waiting:
            self._waiting.pop()[1].close()
        for task in self._greeting:
            task.cancel()
        await asyncio.gather(*self._greeting, return_exceptions=True)

    def _take(self) -> None:
        assert self._socket is not None
        now = self._loop.time()
        for _ in range(_BACKLOG):
            try:
                taken, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE, self._resume)
                break
            taken.setblocking(False)
            self._waiting.append((now, taken))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()[1].close()
        if self._waiting and not self._scheduled:
            self._greet()

    def _resume(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._take)

    def _greet(self) -> None:
        latest = self._loop.time() - self._patience
        for number in range(min(_AT_ONCE, len(self._waiting))):
            since, taken = self._waiting.popleft() if number % 2 else self._waiting.pop()
            if since < latest:
                taken.close()
                continue
            task = self._loop.create_task(self._greeted(taken))
            self._greeting.add(task)
            task.add_done_callback(partial(self._ended, taken))
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            self._loop.call_soon(self._greet)

    async def _greeted(self, taken: socket.socket) -> None:
        with suppress(OSError):  # ssl.SSLError is an OSError: the peer does not speak TLS or disconnected
            await self._loop.connect_accepted_socket(
                self._factory,
                taken,
                ssl=self.ssl_context,
                ssl_handshake_timeout=self._patience if self.ssl_context else None,
                ssl_shutdown_timeout=2.0 if self.ssl_context else None,
            )

    def _ended(self, taken: socket.socket, task: asyncio.Task[None]) -> None:
        self._greeting.discard(task)
        if task.cancelled():  # perhaps before it started, so nothing else closes the socket
            taken.close()


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
