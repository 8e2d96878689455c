"""One client connection. Requests are answered one after another, in the order they arrived.

The fast path, a handler that returns a response synchronously, is one write and no task. Everything slower is
`_in_progress` (a task, a body the peer reads slowly, a stream); later requests wait in the parser.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, cast

from shoal.apiserver.http.encoding import (
    BATCH,
    SMALL_BATCH,
    batches,
    compress,
    head,
    size_of,
    status_response,
    wants_gzip,
)
from shoal.apiserver.http.flusher import Flusher
from shoal.apiserver.http.limits import Limits, Phase
from shoal.apiserver.http.reading import Incoming, RequestReader
from shoal.apiserver.http.sink import StreamSink
from shoal.apiserver.http.upgraded import Upgraded
from shoal.objects.errors import BadRequest, InternalError, StatusError, Unavailable
from shoal.objects.wire import Answer, ClientCertificate, Handler, Response, StreamResponse, Upgrade

log = logging.getLogger(__name__)

LINGER = 1.0
"""Seconds a rejected client has to read the response. Closing with unread input would reset the connection."""
_IN_A_THREAD = 1024 * 1024
_UNSENT = 64 * 1024
"""Write buffer limit in bytes. Above it no further body batches are produced. The event loop's own default is half a
megabyte.
"""
_CLOSE = b"Connection: close\r\n"
_KEEP_ALIVE = b"Connection: keep-alive\r\n"


class Server(Protocol):
    """The server as its connections use it."""

    handler: Handler
    limits: Limits
    on_error: Callable[[StatusError], Response]
    date: bytes
    """The `Date` header line of the current second."""
    now: float
    """`loop.time()` as of the last tick."""
    draining: bool
    """True when every response is the last one of its connection."""

    @property
    def flusher(self) -> Flusher: ...

    @property
    def crowded(self) -> bool:
        """True when so many clients are connected that little may be buffered for each."""

    def admit(self, connection: Connection) -> bool: ...

    def forget(self, connection: Connection) -> None: ...

    def upgrade(self, connection: Connection, transport: asyncio.Transport) -> Upgraded:
        """Replaces the connection by a HijackedConnection in the server's books and returns it."""


class Connection(asyncio.Protocol):
    __slots__ = (
        "_closing", "_current", "_incoming", "_loop", "_phase", "_reader", "_reading", "_server", "_stopping",
        "_transport", "deadline", "paused",
    )  # fmt: skip

    _transport: asyncio.Transport
    _reader: RequestReader
    _incoming: Incoming

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._current: asyncio.Future[Answer] | Iterator[bytes | memoryview] | StreamSink | None = None
        self._closing = self._stopping = False
        self._reading = True
        self.paused = False
        self._phase: Phase | None = Phase.HEAD
        self.deadline = math.inf
        """The loop time at which the server closes this connection unless it makes progress."""

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_UNSENT)
        limits = self._server.limits
        if not self._server.admit(self):
            self._transport.abort()
        peer = transport.get_extra_info("peername")
        self._reader = RequestReader(limits, str(peer[0]) if peer else "", _certificate(transport))
        self.deadline = self._loop.time() + limits.header_timeout

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        current, self._current = self._current, None
        self._closing = True
        self._reader.ready.clear()
        self._server.forget(self)
        if isinstance(current, StreamSink):
            current.drop()
        elif isinstance(current, asyncio.Future):
            current.cancel()

    def pause_writing(self) -> None:
        self.paused = True
        self._settle()

    def resume_writing(self) -> None:
        self.paused = False
        self._phase = None
        if isinstance(self._current, StreamSink):
            self._current.flush()
        elif isinstance(self._current, Iterator):
            self._write_body(self._current)
        self._advance()

    # --- called by the server and the sink ---

    @property
    def streams(self) -> bool:
        return isinstance(self._current, StreamSink)

    def finish(self) -> None:
        """Accepts no further request. A request in progress, or partly received, may finish; a stream is ended now."""
        self._stopping = True
        self._reader.ended = self._reader.phase is Phase.IDLE
        if isinstance(self._current, StreamSink):
            self._closing = True
            self._current.close()
        elif self._current is None and self._nothing_more():
            self._close()

    def abort(self) -> None:
        self._transport.abort()

    def expire(self) -> None:
        if self._phase is Phase.IDLE:
            self._close()
        else:
            self._transport.abort()

    def stream_ended(self) -> None:
        self._ended()
        # Deferred: the watch closes the sink in the middle of other work.
        self._loop.call_soon(self._advance)

    # --- requests, in order ---

    def _advance(self) -> None:
        ready = self._reader.ready
        while ready and self._current is None and not self.paused and not self._closing:
            self._phase = None
            incoming = ready.popleft()
            if isinstance(incoming, Incoming):
                self._serve(incoming)
            else:
                self._refuse(incoming)
        self._settle()

    def _serve(self, incoming: Incoming) -> None:
        self._incoming = incoming
        try:
            answer = self._server.handler(incoming.request)
        except Exception as error:
            answer = self._explain(error)
        self._answer(answer)

    def _answer(self, answer: Answer | Awaitable[Answer]) -> None:
        try:
            if isinstance(answer, Response):
                self._send(answer)
            elif isinstance(answer, StreamResponse):
                self._stream(answer)
            elif isinstance(answer, Upgrade):
                self._upgrade(answer)
            else:
                self._wait_for(answer)
        except Exception as error:
            self._send(self._explain(error))

    def _wait_for(self, answer: Awaitable[Answer]) -> None:
        self._current = task = asyncio.ensure_future(answer)
        task.add_done_callback(self._waited)

    def _waited(self, task: asyncio.Future[Answer]) -> None:
        error = InternalError("the request was cancelled") if task.cancelled() else task.exception()
        if self._current is not task:  # the peer disconnected
            if error is not None and not isinstance(error, StatusError):
                log.error("a request failed after its client had gone", exc_info=error)
            return
        self._current = None
        self._answer(self._explain(error) if error else task.result())
        self._advance()

    def _refuse(self, error: StatusError) -> None:
        """Responds to bytes that are not a valid request, then gives the peer `LINGER_SECONDS` to read the response."""
        response = self._explain(error)
        framing = b"Content-Length: %d\r\n" % size_of(response.body) + _CLOSE
        self._transport.write(self._head(response, framing) + b"".join(batches(response.body)))
        self._closing = True
        self._phase = Phase.IDLE
        self.deadline = self._loop.time() + LINGER
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _explain(self, error: BaseException) -> Response:
        if not isinstance(error, StatusError):
            log.error("a request failed", exc_info=error)
            error = InternalError("Internal error occurred: the server's log has the details")
        try:
            return self._server.on_error(error)
        except Exception:
            log.exception("an error could not be shown")
            return status_response(error)

    # --- answers ---

    def _send(self, response: Response) -> None:
        body = response.body
        size = size_of(body)
        if size >= self._server.limits.gzip_from > 0 and wants_gzip(self._incoming.request, response):
            self._compress(response, size)
            return
        framing = b"Content-Length: %d\r\n" % size
        if response.status in (204, 304):
            framing, body, size = b"", b"", 0
        elif self._incoming.request.method == "HEAD":
            body, size = b"", 0
        last = self._is_last()
        if last or not self._incoming.chunks:
            framing += _CLOSE if last else _KEEP_ALIVE
        opening = self._head(response, framing)
        if size <= BATCH:
            self._transport.write(opening + (body if isinstance(body, bytes) else b"".join(body)))
            self._current = None
            if last or self._closing:
                self._close()
        else:
            self._transport.write(opening)
            self._write_body(batches(body, SMALL_BATCH if self._server.crowded else BATCH))

    def _compress(self, response: Response, size: int) -> None:
        if size > _IN_A_THREAD:
            self._wait_for(asyncio.to_thread(compress, response))
        else:
            self._send(compress(response))

    def _write_body(self, parts: Iterator[bytes | memoryview]) -> None:
        self._current = parts
        for part in parts:
            self._transport.write(part)
            if self.paused:
                return
        self._current = None
        self._ended()

    def _stream(self, answer: StreamResponse) -> None:
        incoming = self._incoming
        framing = b"Transfer-Encoding: chunked\r\n" if incoming.chunks else b""
        incoming.keep_alive = incoming.keep_alive and incoming.chunks
        opening = self._head(answer, framing + self._connection_line())
        if incoming.request.method == "HEAD":
            self._transport.write(opening)
            self._ended()
            return
        self._current = sink = StreamSink(
            self,
            self._transport,
            self._loop,
            self._server.flusher,
            head=opening,
            chunks=incoming.chunks,
            max_pending=self._server.limits.max_pending,
        )
        try:
            answer.start(sink)
            if self._stopping:
                sink.close()
        except Exception as error:
            if self._current is sink:
                self._current = None
                sink.drop()
                self._send(self._explain(error))
            else:
                log.exception("a stream failed after its end")

    def _upgrade(self, answer: Upgrade) -> None:
        incoming = self._incoming
        if self._stopping:
            raise Unavailable("the server is stopping", retry_after=1)
        if not (incoming.upgrade and incoming.chunks):
            raise BadRequest(f"this takes an HTTP/1.1 request with Connection: Upgrade and Upgrade: {answer.protocol}")
        if self._reader.hasty:
            raise BadRequest("bytes came before the upgrade was answered")
        opening = self._head(answer, b"Connection: Upgrade\r\nUpgrade: %b\r\n" % answer.protocol.encode())
        self._closing = True
        upgraded = self._server.upgrade(self, self._transport)
        try:
            if not self._reading:
                self._transport.resume_reading()
            upgraded.begin(answer, opening)
        except Exception:
            log.exception("an upgrade failed")
            self._transport.abort()

    def _head(self, answer: Answer, framing: bytes) -> bytes:
        return head(answer.status, answer.content_type, answer.headers, self._server.date, framing)

    def _connection_line(self) -> bytes:
        if self._is_last():
            return _CLOSE
        return b"" if self._incoming.chunks else _KEEP_ALIVE

    def _is_last(self) -> bool:
        if not self._incoming.keep_alive:
            return True
        return (self._reader.ended or self._server.draining) and self._nothing_more()

    def _nothing_more(self) -> bool:
        """True when no further request has begun to arrive."""
        return not self._reader.ready and (self._reader.ended or self._reader.phase is Phase.IDLE)

    # --- between requests ---

    def _ended(self) -> None:
        """Called when the response to the current request was handed to the transport."""
        self._current = None
        if self._closing or self._is_last():
            self._close()

    def _close(self) -> None:
        self._closing = True
        self._phase = Phase.STALLED
        self.deadline = self._server.now + self._server.limits.timeout(Phase.STALLED)
        self._transport.close()

    def _settle(self) -> None:
        """Sets the phase and its deadline, and pauses or resumes reading."""
        if self._closing:
            return
        reader = self._reader
        if bool(reader.ready) is self._reading:
            self._reading = not self._reading
            if self._reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if self._current is not None and isinstance(self._current, (StreamSink, asyncio.Future)):
            self.deadline = math.inf
            self._phase = None
            return
        phase = reader.phase
        if self.paused:
            phase = Phase.STALLED
        elif reader.wants_continue:
            reader.wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if phase is not self._phase:
            self._phase = phase
            self.deadline = self._server.now + self._server.limits.timeout(phase)


def _certificate(transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Returns the subject and URI SANs of the peer's certificate, which the TLS layer has verified."""
    tls: Any = transport.get_extra_info("ssl_object")
    said = tls.getpeercert() if tls is not None else None
    if not said:
        return None
    subject = [pair for names in said.get("subject", ()) for pair in names]
    return ClientCertificate(
        next((value for key, value in subject if key == "commonName"), ""),
        tuple(value for key, value in subject if key == "organizationName"),
        tuple(value for key, value in said.get("subjectAltName", ()) if key == "URI"),
    )
