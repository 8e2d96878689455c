"""Listens on one TCP port of the hub and hands accepted connections over, with a limit of open ones.

A port that is taken is tried again, with back-off.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from shoal.apiserver.http.listener import listening_socket
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.objects.errors import StatusError

log = logging.getLogger("shoal.fleet")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between attempts to listen."""
ACCEPTS_PER_TURN = 64
ACCEPT_RETRY_SECONDS = 1.0
"""Seconds before accepting again after the process ran out of file descriptors."""

LOG_SECONDS, MAX_LOGGED_PROBLEMS = 60.0, 16


@dataclass(slots=True)
class ConnectionBudget:
    """The connections of all ports."""

    limit: int
    open_connections: int = 0


class PortListener:
    def __init__(
        self,
        host: str,
        port: int,
        get_handler: Callable[[], Coroutine[Any, Any, SocketHandler]],
        budget: ConnectionBudget,
        max_connections: int,
    ) -> None:
        """`get_handler` returns what takes over a new connection, or raises a StatusError if nothing does."""
        self._host, self._port, self._get_handler = host, port, get_handler
        self._budget, self._max_connections = budget, max_connections
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[SocketHandler]] = set()
        self._pause = FIRST_PAUSE
        self._logged_at: dict[str, float] = {}
        self.open_connections = 0

    @property
    def is_listening(self) -> bool:
        return self._socket is not None

    def start(self) -> None:
        self._timer = None
        try:
            self._socket = listening_socket(self._host, self._port)
        except OSError as error:
            self._log_problem(f"cannot listen: {os.strerror(error.errno or 0).lower()}")
            self._timer = self._loop.call_later(self._pause, self.start)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            return
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Stops to listen. Open connections go on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(ACCEPTS_PER_TURN):
            try:
                conn, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log_problem(f"cannot accept connections: {os.strerror(error.errno or 0).lower()}")
                self._loop.remove_reader(self._socket)
                self._timer = self._loop.call_later(ACCEPT_RETRY_SECONDS, self._resume_accepting)
                return
            self._on_accepted(conn, str(peer[0]))

    def _resume_accepting(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._accept)

    def _on_accepted(self, conn: socket.socket, client: str) -> None:
        if self.open_connections >= self._max_connections or self._budget.open_connections >= self._budget.limit:
            conn.close()
            self._log_problem(f"too many connections: {self.open_connections} at this port")
            return
        conn.setblocking(False)
        self.open_connections += 1
        self._budget.open_connections += 1
        task = self._loop.create_task(self._get_handler())
        self._tasks.add(task)
        task.add_done_callback(partial(self._hand_over, conn, client))

    def _hand_over(self, conn: socket.socket, client: str, task: asyncio.Task[SocketHandler]) -> None:
        """Closes the connection when nothing takes it over, also if the task was cancelled before it began."""
        self._tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            task.result()(conn, client, self._on_closed)
            return
        conn.close()
        self._on_closed()
        if not task.cancelled():
            self._on_refused(error)

    def _on_refused(self, error: BaseException) -> None:
        if isinstance(error, StatusError):
            self._log_problem(error.message)
        else:
            log.error("port %d: a connection failed", self._port, exc_info=error)

    def _on_closed(self) -> None:
        self.open_connections -= 1
        self._budget.open_connections -= 1

    def _log_problem(self, problem: str) -> None:
        """Logs each problem at most once a minute: clients try again and again."""
        kind, now = problem.partition(":")[0], self._loop.time()
        if now - self._logged_at.get(kind, -LOG_SECONDS) < LOG_SECONDS:
            return
        if len(self._logged_at) >= MAX_LOGGED_PROBLEMS:
            self._logged_at.clear()
        self._logged_at[kind] = now
        log.warning("port %d of a cluster: %s", self._port, problem)
