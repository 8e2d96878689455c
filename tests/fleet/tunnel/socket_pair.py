"""Both ends of a tunnel over a socket pair, and sinks that read as much as a test says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from shoal.clock import Clock, SystemClock
from shoal.fleet.tunnel.hub_end import HubTunnel
from shoal.fleet.tunnel.raw_connection import Connector
from shoal.fleet.tunnel.worker_end import WorkerTunnel
from shoal.objects.wire import ByteStream, Handler, Receiver

PATIENCE = 20.0
"""Seconds until a test that waits has failed."""


class Joined(asyncio.Protocol):
    """A socket whose bytes go to a receiver."""

    receiver: Receiver

    def __init__(self, start: Callable[[ByteStream], Receiver]) -> None:
        self._start = start

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.receiver = self._start(self.transport)

    def data_received(self, data: bytes) -> None:
        self.receiver.data_received(data)

    def pause_writing(self) -> None:
        self.receiver.pause_writing()

    def resume_writing(self) -> None:
        self.receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.receiver.connection_lost(exc)


async def join(end: socket.socket, start: Callable[[ByteStream], Receiver]) -> Joined:
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: Joined(start), sock=end)
    return protocol


class Tunnel:
    def __init__(self, hub: HubTunnel, worker: WorkerTunnel, lost: list[HubTunnel]) -> None:
        self.hub, self.worker, self.lost = hub, worker, lost
        self.sockets: list[Joined] = []

    def cut(self) -> None:
        for each in self.sockets:
            each.transport.abort()


@asynccontextmanager
async def tunnel(
    handler: Handler, clock: Clock | None = None, connector: Connector | None = None
) -> AsyncIterator[Tunnel]:
    clock = clock or SystemClock()
    lost: list[HubTunnel] = []
    pair = Tunnel(HubTunnel("w1", clock, lost.append), WorkerTunnel("w1", handler, clock, connector), lost)
    one, other = socket.socketpair()
    pair.sockets = [await join(one, pair.hub.start), await join(other, pair.worker.start)]
    try:
        yield pair
    finally:
        pair.cut()
        await until(lambda: len(lost) == 1)
        await asyncio.sleep(0)


class Slow:
    """A sink whose peer takes nothing until it is told to."""

    def __init__(self, open_wide: bool = False) -> None:
        self.pieces: list[bytes] = []
        self.pending_bytes = 0
        self.closed = self.aborted = False
        self.open_wide = open_wide
        self._callbacks: list[Callable[[], None]] = []
        self._drained: Callable[[], None] = lambda: None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.pieces.append(data)
        if not self.open_wide:
            self.pending_bytes += len(data)

    def take(self) -> None:
        self.pending_bytes = 0
        self._drained()

    def close(self) -> None:
        self.closed = True
        for callback in self._callbacks:
            asyncio.get_running_loop().call_soon(callback)
        self._callbacks.clear()

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._drained = callback


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def settled() -> None:
    """Whatever is under way between two sockets of one process has arrived."""
    for _ in range(20):
        await asyncio.sleep(0.001)
