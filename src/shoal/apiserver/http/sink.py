"""The writing end of a streamed response (`objects.wire.Sink`).

Everything written in one event loop tick is sent as one chunk. While the peer is behind, pieces are buffered unjoined:
events are encoded once and shared by all watchers, so a slow watcher costs only references.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from shoal.apiserver.http.encoding import BATCH
from shoal.apiserver.http.flusher import Flusher

log = logging.getLogger(__name__)


class Stream(Protocol):
    """The connection as the sink uses it."""

    @property
    def paused(self) -> bool:
        """True while the transport's buffer is full. `StreamSink.flush` is called when it drains."""

    def stream_ended(self) -> None: ...


class StreamSink:
    __slots__ = (
        "_callbacks", "_chunks", "_closed", "_drained", "_ended", "_flusher", "_head", "_held", "_limit", "_loop",
        "_max_pending", "_pieces", "_scheduled", "_stream", "_transport",
    )  # fmt: skip

    def __init__(
        self,
        stream: Stream,
        transport: asyncio.WriteTransport,
        loop: asyncio.AbstractEventLoop,
        flusher: Flusher,
        *,
        head: bytes,
        chunks: bool,
        max_pending: int,
    ) -> None:
        self._stream = stream
        self._transport = transport
        self._loop = loop
        self._head = head
        self._chunks = chunks
        self._max_pending = max_pending
        self._limit = 0
        self._pieces: list[bytes] = []
        self._held = 0
        self._closed = self._ended = False
        self._callbacks: list[Callable[[], None]] = []
        self._drained: Callable[[], None] | None = None
        self._scheduled = True
        self._flusher = flusher
        flusher.add(self)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending(self) -> int:
        return self._held + (0 if self._ended else self._transport.get_write_buffer_size())

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        self._pieces.append(data)
        self._held += len(data)
        if not self._scheduled:
            if not self._stream.paused:
                self._scheduled = True
                self._flusher.add(self)
            elif self.pending > self._limit:
                log.warning("a client of a stream is %d bytes behind and is cut off", self.pending)
                self.abort()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._notify()
            self.flush()

    def abort(self) -> None:
        self.drop()
        self._transport.abort()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if self._closed:
            self._notify()

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._drained = callback

    def drop(self) -> None:
        """Discards the buffer. Called when the connection is lost or the response was replaced by another one."""
        self._closed = self._ended = True
        self._pieces.clear()
        self._held = 0
        self._notify()

    def flush(self) -> None:
        """Writes buffered pieces to the transport until it pauses."""
        while not self._ended and not self._stream.paused and (self._head or self._pieces or self._closed):
            size, pieces = self._take()
            last = self._closed and not self._pieces
            data = (self._flusher.chunk(pieces, size) if size else b"") if self._chunks else b"".join(pieces)
            if self._head or last:
                data = self._head + data + (b"0\r\n\r\n" if last and self._chunks else b"")
                self._head = b""
                self._ended = last
            if data:
                self._transport.write(data)
            if last:
                self._stream.stream_ended()
        if self._drained is not None and not self._closed and not self._stream.paused:
            self._drained()

    def tick(self) -> None:
        """Called by the flusher once for everything written in one event loop tick."""
        if self._scheduled and not self._limit:
            # The client asked for the first burst (a watch's initial events), so the limit is counted on top of it.
            self._limit = self._max_pending + self._held
        self._scheduled = False
        self.flush()

    def _take(self) -> tuple[int, list[bytes]]:
        pieces, size = self._pieces, self._held
        if size <= BATCH:
            self._pieces, self._held = [], 0
            return size, pieces
        size = count = 0
        while size < BATCH:
            size += len(pieces[count])
            count += 1
        taken = pieces[:count]
        del pieces[:count]
        self._held -= size
        return size, taken

    def _notify(self) -> None:
        # Deferred: a caller that iterates over its sinks while writing must not see its set change.
        for callback in self._callbacks:
            self._loop.call_soon(callback)
        self._callbacks.clear()
