"""The writing end of a streamed response (`objects.wire.Sink`).

Everything written in one event loop tick is sent as one chunk. While the peer is behind, pieces are buffered unjoined:
events are encoded once and shared by all watchers, so a slow watcher costs only references. A large piece is handed to
the transport in parts, because the transport keeps a copy of what it was given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from shoal.apiserver.http.encoding import SMALL_WRITE_BATCH_BYTES
from shoal.apiserver.http.flusher import StreamFlusher

log = logging.getLogger(__name__)

_PART_BYTES = 16 * 1024
"""Bytes of a large piece that are handed to the transport at once: one record of TLS."""


class SinkConnection(Protocol):
    """The connection as the sink uses it."""

    @property
    def write_paused(self) -> bool:
        """True while the transport's buffer is full. `StreamSink.flush` is called when it drains."""

    def on_stream_end(self) -> None: ...


class StreamSink:
    __slots__ = (
        "_abort_above",
        "_buffered_bytes",
        "_close_callbacks",
        "_closed",
        "_connection",
        "_ended",
        "_flush_scheduled",
        "_flusher",
        "_head",
        "_is_chunked",
        "_loop",
        "_max_pending_bytes",
        "_on_drain",
        "_pieces",
        "_rest",
        "_transport",
    )  # fmt: skip

    def __init__(
        self,
        connection: SinkConnection,
        transport: asyncio.WriteTransport,
        loop: asyncio.AbstractEventLoop,
        flusher: StreamFlusher,
        *,
        head: bytes,
        is_chunked: bool,
        max_pending_bytes: int,
    ) -> None:
        self._connection = connection
        self._transport = transport
        self._loop = loop
        self._head = head
        self._is_chunked = is_chunked
        self._max_pending_bytes = max_pending_bytes
        self._abort_above = 0
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0
        self._rest: memoryview | None = None
        """What is left of a large piece."""
        self._closed = self._ended = False
        self._close_callbacks: list[Callable[[], None]] = []
        self._on_drain: Callable[[], None] | None = None
        self._flush_scheduled = True
        self._flusher = flusher
        flusher.add(self)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending_bytes(self) -> int:
        rest = 0 if self._rest is None else len(self._rest)
        return self._buffered_bytes + rest + (0 if self._ended else self._transport.get_write_buffer_size())

    def get_write_buffer_size(self) -> int:
        return self.pending_bytes

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        self._pieces.append(data)
        self._buffered_bytes += len(data)
        if not self._flush_scheduled:
            if not self._connection.write_paused:
                self._flush_scheduled = True
                self._flusher.add(self)
            elif self.pending_bytes > self._abort_above:
                log.warning("closing stream: its client is %d bytes behind", self.pending_bytes)
                self.abort()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._schedule_close_callbacks()
            self.flush()

    def abort(self) -> None:
        self.discard()
        self._transport.abort()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._close_callbacks.append(callback)
        if self._closed:
            self._schedule_close_callbacks()

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._on_drain = callback

    def discard(self) -> None:
        """Discards the buffer. Called when the connection is lost or the response was replaced by another one."""
        self._closed = self._ended = True
        self._pieces.clear()
        self._rest = None
        self._buffered_bytes = 0
        self._schedule_close_callbacks()

    def flush(self) -> None:
        """Writes buffered pieces to the transport until it pauses."""
        while not self._ended and not self._connection.write_paused:
            if self._rest is not None:
                self._write_rest(self._rest)
            elif self._head or self._pieces or self._closed:
                self._write_batch()
            else:
                break
        if self._on_drain is not None and not self._closed and not self._connection.write_paused:
            self._on_drain()

    def _write_batch(self) -> None:
        size, pieces = self._next_batch()
        last = self._closed and not self._pieces
        if size > SMALL_WRITE_BATCH_BYTES:  # one piece
            self._rest, last = memoryview(pieces[0]), False
            data = self._head + (b"%x\r\n" % size if self._is_chunked else b"")
        else:
            data = (self._flusher.encode_chunk(pieces, size) if size else b"") if self._is_chunked else b"".join(pieces)
            if self._head or last:
                data = self._head + data + (b"0\r\n\r\n" if last and self._is_chunked else b"")
        self._head = b""
        self._ended = last
        if data:
            self._transport.write(data)
        if last:
            self._connection.on_stream_end()

    def _write_rest(self, rest: memoryview) -> None:
        self._transport.write(rest[:_PART_BYTES])
        if len(rest) > _PART_BYTES:
            self._rest = rest[_PART_BYTES:]
            return
        self._rest = None
        if self._is_chunked:
            self._transport.write(b"\r\n")

    def tick(self) -> None:
        """Called by the flusher once for everything written in one event loop tick."""
        if self._flush_scheduled and not self._abort_above:
            # The client asked for the first burst (a watch's initial events), so the limit is counted on top of it.
            self._abort_above = self._max_pending_bytes + self._buffered_bytes
        self._flush_scheduled = False
        self.flush()

    def _next_batch(self) -> tuple[int, list[bytes]]:
        pieces, size = self._pieces, self._buffered_bytes
        if size <= SMALL_WRITE_BATCH_BYTES:
            self._pieces, self._buffered_bytes = [], 0
            return size, pieces
        size = count = 0
        while size < SMALL_WRITE_BATCH_BYTES and count < len(pieces):
            piece = len(pieces[count])
            if count and size + piece > SMALL_WRITE_BATCH_BYTES:
                break
            size += piece
            count += 1
        batch = pieces[:count]
        del pieces[:count]
        self._buffered_bytes -= size
        return size, batch

    def _schedule_close_callbacks(self) -> None:
        # Deferred: a caller that iterates over its sinks while writing must not see its set change.
        for callback in self._close_callbacks:
            self._loop.call_soon(callback)
        self._close_callbacks.clear()
