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
from shoal.fleet.tunnel.flow_control import SendBuffer
from shoal.fleet.tunnel.frames import DATA, END, PING, PONG, Frame, FrameReader, ProtocolError, encode
from shoal.objects.wire import ByteStream, Receiver

log = logging.getLogger("shoal.fleet")

PING_SECONDS = 10.0
MAX_MISSED_PINGS = 3
"""After that many pings without a byte from the other side, it is considered dead."""
_MAX_WRITE = 256 * 1024
_CONGESTION_BYTES = 4 * 1024 * 1024
_MAX_CONTROL_BYTES = 4 * _CONGESTION_BYTES


class TunnelConnection:
    """A `wire.Receiver`; `start` gives it its stream."""

    _loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        name: str,
        clock: Clock,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[], None],
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        """`on_frame` gets every frame of a stream, `on_lost` is called once, at the end."""
        self._name, self._clock, self._ping_seconds = name, clock, ping_seconds
        self._on_frame, self._on_lost = on_frame, on_lost
        self._stream: ByteStream | None = None
        self._reader = FrameReader()
        self._control_frames: list[bytes] = []
        self._control_size = 0
        self._ready_streams: deque[SendBuffer] = deque()
        self._paused = self._write_scheduled = False
        self._missed_pings = 0
        self._ping_task: asyncio.Task[None] | None = None
        self.ping_handlers: list[Callable[[], None]] = []
        """Called with every ping."""
        self.is_closed = False

    def start(self, stream: ByteStream) -> Receiver:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._ping_task = self._loop.create_task(self._ping(), name=f"tunnel of {self._name}")
        return self

    @property
    def is_congested(self) -> bool:
        """The other side is too far behind to add new requests."""
        return self._control_size > _CONGESTION_BYTES

    def send(self, kind: int, stream: int = 0, payload: bytes = b"") -> None:
        self.send_encoded(encode(kind, stream, payload))

    def send_encoded(self, frame: bytes) -> None:
        if self.is_closed:
            return
        self._control_frames.append(frame)
        self._control_size += len(frame)
        if self._control_size > _MAX_CONTROL_BYTES:
            log.warning("closing tunnel of %s: peer does not read", self._name)
            self.abort()
        self._schedule()

    def enqueue(self, send_buffer: SendBuffer) -> None:
        """Queues a stream if it has something to send and may."""
        if not send_buffer.is_queued and send_buffer.is_sendable and not self.is_closed:
            send_buffer.is_queued = True
            self._ready_streams.append(send_buffer)
            self._schedule()

    def abort(self) -> None:
        if not self.is_closed:
            if self._stream is not None:
                self._stream.abort()
            self._end()

    def close(self) -> None:
        if not self.is_closed:
            if self._stream is not None:
                self._stream.close()
            self._end()

    # --- called by the byte stream ---

    def data_received(self, data: bytes) -> None:
        self._missed_pings = 0
        try:
            for frame in self._reader.feed(data):
                if self.is_closed:
                    return
                if frame.kind == PING:
                    self.send(PONG, payload=frame.payload[:8])
                elif frame.kind != PONG:
                    self._on_frame(frame)
        except ProtocolError as error:
            log.warning("closing tunnel of %s: %s", self._name, error)
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
        if (
            not self._write_scheduled
            and not self._paused
            and not self.is_closed
            and (self._control_frames or self._ready_streams)
        ):
            self._write_scheduled = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._write_scheduled = False
        assert self._stream is not None
        while not self._paused and not self.is_closed and (self._control_frames or self._ready_streams):
            parts, size = self._control_frames, self._control_size
            self._control_frames, self._control_size = [], 0
            while self._ready_streams and size < _MAX_WRITE:
                frames = self._next_frames()
                parts += frames
                size += sum(map(len, frames))
            if parts:
                self._stream.write(b"".join(parts))

    def _next_frames(self) -> list[bytes]:
        send_buffer = self._ready_streams.popleft()
        send_buffer.is_queued = False
        frames: list[bytes] = []
        if send_buffer.is_sendable and send_buffer.pending:
            frames.append(encode(DATA, send_buffer.stream_id, send_buffer.take()))
        if send_buffer.is_closing and not send_buffer.pending and not send_buffer.has_ended:
            frames.append(encode(END, send_buffer.stream_id))
            send_buffer.has_ended = True
        if send_buffer.is_sendable:
            send_buffer.is_queued = True
            self._ready_streams.append(send_buffer)
        elif not send_buffer.pending and send_buffer.on_drained is not None:
            send_buffer.on_drained()
        return frames

    # --- liveness ---

    async def _ping(self) -> None:
        """Without pings a dead connection would not be noticed: it is cut if they fail."""
        try:
            await self._run_pings()
        except Exception:
            log.exception("tunnel of %s: its pings failed; the tunnel is cut", self._name)
            self.abort()

    async def _run_pings(self) -> None:
        while True:
            await self._clock.sleep(self._ping_seconds)
            if self._missed_pings >= MAX_MISSED_PINGS:
                log.warning("closing tunnel of %s: no answer to %d pings", self._name, self._missed_pings)
                self.abort()
                return
            self._missed_pings += 1
            self.send(PING)
            for handler in self.ping_handlers:
                handler()

    def _end(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._control_frames.clear()
        self._ready_streams.clear()
        if self._ping_task is not None and self._ping_task is not asyncio.current_task():
            self._ping_task.cancel()
        self._on_lost()
