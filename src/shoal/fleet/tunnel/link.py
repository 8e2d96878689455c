"""One byte stream between hub and worker: frames in, frames out in fair turns, and liveness by ping.

Streams with data to send are queued and take turns while the connection accepts bytes. Small control frames go first
and never wait for credit, so a side that does not read cannot make the other one buffer much.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from shoal.clock import Clock
from shoal.fleet.tunnel.flow import Outgoing
from shoal.fleet.tunnel.frames import DATA, END, PING, PONG, Frame, FrameReader, ProtocolError, encode
from shoal.objects.wire import ByteStream, Receiver

log = logging.getLogger("shoal.fleet")

PING_SECONDS = 10.0
SILENT_PINGS = 3
"""After that many pings without a byte from the other side, it is considered dead."""
_WRITE = 256 * 1024
_CONGESTED = 4 * 1024 * 1024
_MOST_CONTROL = 4 * _CONGESTED


class Link:
    """A `wire.Receiver`; `start` gives it its stream."""

    _loop: asyncio.AbstractEventLoop

    def __init__(self, name: str, clock: Clock, took: Callable[[Frame], None], lost: Callable[[], None]) -> None:
        """`on_frame` gets every frame of a stream, `on_lost` is called once, at the end."""
        self._name, self._clock = name, clock
        self._took, self._lost = took, lost
        self._stream: ByteStream | None = None
        self._reader = FrameReader()
        self._control: list[bytes] = []
        self._control_size = 0
        self._line: deque[Outgoing] = deque()
        self._paused = self._scheduled = False
        self._silent = 0
        self._pinging: asyncio.Task[None] | None = None
        self.ticks: list[Callable[[], None]] = []
        """Called with every ping."""
        self.closed = False

    def start(self, stream: ByteStream) -> Receiver:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._pinging = self._loop.create_task(self._ping(), name=f"tunnel of {self._name}")
        return self

    @property
    def congested(self) -> bool:
        """The other side is too far behind to add new requests."""
        return self._control_size > _CONGESTED

    def send(self, kind: int, stream: int = 0, payload: bytes = b"") -> None:
        self.send_encoded(encode(kind, stream, payload))

    def send_encoded(self, frame: bytes) -> None:
        if self.closed:
            return
        self._control.append(frame)
        self._control_size += len(frame)
        if self._control_size > _MOST_CONTROL:
            log.warning("tunnel of %s: the other side does not read; the tunnel is cut", self._name)
            self.abort()
        self._schedule()

    def queue(self, out: Outgoing) -> None:
        """Queues a stream if it has something to send and may."""
        if not out.waiting and out.sendable and not self.closed:
            out.waiting = True
            self._line.append(out)
            self._schedule()

    def abort(self) -> None:
        if not self.closed:
            if self._stream is not None:
                self._stream.abort()
            self._end()

    def close(self) -> None:
        if not self.closed:
            if self._stream is not None:
                self._stream.close()
            self._end()

    # --- called by the byte stream ---

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        try:
            for frame in self._reader.feed(data):
                if self.closed:
                    return
                if frame.kind == PING:
                    self.send(PONG, payload=frame.payload[:8])
                elif frame.kind != PONG:
                    self._took(frame)
        except ProtocolError as error:
            log.warning("tunnel of %s: %s; the tunnel is cut", self._name, error)
            self.abort()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    # --- writing ---

    def _schedule(self) -> None:
        if not self._scheduled and not self._paused and not self.closed and (self._control or self._line):
            self._scheduled = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._scheduled = False
        assert self._stream is not None
        while not self._paused and not self.closed and (self._control or self._line):
            parts, size = self._control, self._control_size
            self._control, self._control_size = [], 0
            while self._line and size < _WRITE:
                turn = self._turn()
                parts += turn
                size += sum(map(len, turn))
            if parts:
                self._stream.write(b"".join(parts))

    def _turn(self) -> list[bytes]:
        out = self._line.popleft()
        out.waiting = False
        frames: list[bytes] = []
        if out.sendable and out.pending:
            frames.append(encode(DATA, out.stream, out.take()))
        if out.closing and not out.pending and not out.ended:
            frames.append(encode(END, out.stream))
            out.ended = True
        if out.sendable:
            out.waiting = True
            self._line.append(out)
        elif not out.pending and out.drained is not None:
            out.drained()
        return frames

    # --- liveness ---

    async def _ping(self) -> None:
        while True:
            await self._clock.sleep(PING_SECONDS)
            if self._silent >= SILENT_PINGS:
                log.warning("tunnel of %s: no answer to %d pings; the tunnel is cut", self._name, self._silent)
                self.abort()
                return
            self._silent += 1
            self.send(PING)
            for tick in self.ticks:
                tick()

    def _end(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._control.clear()
        self._line.clear()
        if self._pinging is not None and self._pinging is not asyncio.current_task():
            self._pinging.cancel()
        self._lost()
