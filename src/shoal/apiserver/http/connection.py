"""One client connection. Requests are answered one after another, in the order they arrived.

The fast path, a handler that returns a response synchronously, is one write and no task. Everything slower is
`_in_progress` (a task, a body the peer reads slowly, a stream); later requests wait in the parser.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, cast

from shoal.apiserver.http.client_certificate import client_certificate
from shoal.apiserver.http.encoding import (
    SMALL_WRITE_BATCH_BYTES,
    WRITE_BATCH_BYTES,
    accepts_gzip,
    body_batches,
    body_size,
    encode_head,
    gzip_response,
    status_response,
)
from shoal.apiserver.http.flusher import StreamFlusher
from shoal.apiserver.http.hijacked import HijackedConnection
from shoal.apiserver.http.limits import ConnectionPhase, HTTPLimits
from shoal.apiserver.http.parser import ParsedRequest, RequestParser
from shoal.apiserver.http.sink import StreamSink
from shoal.objects.errors import BadRequest, InternalError, StatusError, Unavailable
from shoal.objects.wire import Answer, Handler, Response, StreamResponse, Upgrade

log = logging.getLogger(__name__)

LINGER_SECONDS = 1.0
"""Seconds a rejected client has to read the response. Closing with unread input would reset the connection."""
_COMPRESS_IN_THREAD_ABOVE = 1024 * 1024
_WRITE_HIGH_WATER_BYTES = 64 * 1024
"""Above this write buffer no further body batches are produced. The event loop's own default is half a megabyte."""
_CLOSE, _KEEP_ALIVE = b"Connection: close\r\n", b"Connection: keep-alive\r\n"


class ConnectionOwner(Protocol):
    """The server as its connections use it."""

    handler: Handler

    @property
    def limits(self) -> HTTPLimits: ...

    @property
    def on_error(self) -> Callable[[StatusError], Response]: ...

    @property
    def date(self) -> bytes:
        """The `Date` header line of the current second."""

    @property
    def loop_time(self) -> float:
        """`loop.time()` as of the last tick."""

    @property
    def is_draining(self) -> bool:
        """True when every response is the last one of its connection."""

    @property
    def flusher(self) -> StreamFlusher: ...

    @property
    def is_crowded(self) -> bool:
        """True when so many clients are connected that little may be buffered for each."""

    def admit(self, connection: HTTPConnection) -> bool: ...

    def remove(self, connection: HTTPConnection) -> None: ...

    def upgrade(self, connection: HTTPConnection, transport: asyncio.Transport) -> HijackedConnection:
        """Replaces the connection by a HijackedConnection in the server's books and returns it."""


class HTTPConnection(asyncio.Protocol):
    __slots__ = (
        "_in_progress",
        "_is_closing",
        "_is_reading",
        "_is_stopping",
        "_loop",
        "_parsed",
        "_parser",
        "_phase",
        "_remote_addr",
        "_server",
        "_transport",
        "deadline",
        "write_paused",
    )  # fmt: skip

    _transport: asyncio.Transport
    _parser: RequestParser
    _parsed: ParsedRequest

    def __init__(self, server: ConnectionOwner, loop: asyncio.AbstractEventLoop, remote_addr: str = "") -> None:
        """`remote_addr` is the address of the client, if the socket does not know it."""
        self._server = server
        self._loop = loop
        self._remote_addr = remote_addr
        self._in_progress: asyncio.Future[Answer] | Iterator[bytes | memoryview] | StreamSink | None = None
        self._is_closing = self._is_stopping = self.write_paused = False
        self._is_reading = True
        self._phase: ConnectionPhase | None = ConnectionPhase.HEAD
        self.deadline = math.inf
        """The loop time at which the server closes this connection unless it makes progress."""

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_HIGH_WATER_BYTES)
        limits = self._server.limits
        if not self._server.admit(self):
            self._transport.abort()
        peer = transport.get_extra_info("peername")
        remote_addr = self._remote_addr or (str(peer[0]) if peer else "")
        self._parser = RequestParser(limits, remote_addr, client_certificate(transport))
        self.deadline = self._loop.time() + limits.header_timeout

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        in_progress, self._in_progress = self._in_progress, None
        self._is_closing = True
        self._parser.parsed.clear()
        self._server.remove(self)
        if isinstance(in_progress, StreamSink):
            in_progress.discard()
        elif isinstance(in_progress, asyncio.Future):
            in_progress.cancel()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._update_deadline()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._phase = None
        if isinstance(self._in_progress, StreamSink):
            self._in_progress.flush()
        elif isinstance(self._in_progress, Iterator):
            self._write_body(self._in_progress)
        self._advance()

    # --- called by the server and the sink ---

    @property
    def is_streaming(self) -> bool:
        return isinstance(self._in_progress, StreamSink)

    def shut_down(self) -> None:
        """Accepts no further request. A request in progress, or partly received, may finish; a stream is ended now."""
        self._is_stopping = True
        self._parser.is_done = self._parser.phase is ConnectionPhase.IDLE
        if isinstance(self._in_progress, StreamSink):
            self._is_closing = True
            self._in_progress.close()
        elif self._in_progress is None and self._has_no_more_requests():
            self._close()

    def abort(self) -> None:
        self._transport.abort()

    def expire(self) -> None:
        if self._phase is ConnectionPhase.IDLE:
            self._close()
        else:
            self._transport.abort()

    def on_stream_end(self) -> None:
        self._on_response_sent()
        # Deferred: the watch closes the sink in the middle of other work.
        self._loop.call_soon(self._advance)

    # --- requests, in order ---

    def _advance(self) -> None:
        ready = self._parser.parsed
        while ready and self._in_progress is None and not self.write_paused and not self._is_closing:
            self._phase = None
            parsed = ready.popleft()
            if isinstance(parsed, ParsedRequest):
                self._dispatch(parsed)
            else:
                self._reject(parsed)
        self._update_deadline()

    def _dispatch(self, parsed: ParsedRequest) -> None:
        self._parsed = parsed
        try:
            answer = self._server.handler(parsed.request)
        except Exception as error:
            answer = self._error_response(error)
        self._respond(answer)

    def _respond(self, answer: Answer | Awaitable[Answer]) -> None:
        try:
            if isinstance(answer, Response):
                self._send_response(answer)
            elif isinstance(answer, StreamResponse):
                self._start_stream(answer)
            elif isinstance(answer, Upgrade):
                self._upgrade(answer)
            else:
                self._await_response(answer)
        except Exception as error:
            self._send_response(self._error_response(error))

    def _await_response(self, answer: Awaitable[Answer]) -> None:
        self._in_progress = task = asyncio.ensure_future(answer)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Future[Answer]) -> None:
        error = InternalError("the request was cancelled") if task.cancelled() else task.exception()
        if self._in_progress is not task:  # the peer disconnected
            if error is not None and not isinstance(error, StatusError):
                log.error("request failed after its client disconnected", exc_info=error)
            return
        self._in_progress = None
        self._respond(self._error_response(error) if error else task.result())
        self._advance()

    def _reject(self, error: StatusError) -> None:
        """Responds to bytes that are not a valid request, then gives the peer `LINGER_SECONDS` to read the response."""
        response = self._error_response(error)
        framing = b"Content-Length: %d\r\n" % body_size(response.body) + _CLOSE
        self._transport.write(self._encode_head(response, framing) + b"".join(body_batches(response.body)))
        self._is_closing = True
        self._phase = ConnectionPhase.IDLE
        self.deadline = self._loop.time() + LINGER_SECONDS
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _error_response(self, error: BaseException) -> Response:
        if not isinstance(error, StatusError):
            log.error("request failed", exc_info=error)
            error = InternalError("Internal error occurred: the server's log has the details")
        try:
            return self._server.on_error(error)
        except Exception:
            log.exception("cannot render error response")
            return status_response(error)

    # --- answers ---

    def _send_response(self, response: Response) -> None:
        body = response.body
        size = body_size(body)
        if size >= self._server.limits.gzip_min_bytes > 0 and accepts_gzip(self._parsed.request, response):
            self._send_compressed(response, size)
            return
        framing = b"Content-Length: %d\r\n" % size
        if response.status in (204, 304):
            framing, body, size = b"", b"", 0
        elif self._parsed.request.method == "HEAD":
            body, size = b"", 0
        last = self._is_last_response()
        if last or not self._parsed.is_http_1_1:
            framing += _CLOSE if last else _KEEP_ALIVE
        head_bytes = self._encode_head(response, framing)
        if size <= WRITE_BATCH_BYTES:
            self._transport.write(head_bytes + (body if isinstance(body, bytes) else b"".join(body)))
            self._in_progress = None
            if last or self._is_closing:
                self._close()
        else:
            self._transport.write(head_bytes)
            self._write_body(
                body_batches(body, SMALL_WRITE_BATCH_BYTES if self._server.is_crowded else WRITE_BATCH_BYTES)
            )

    def _send_compressed(self, response: Response, size: int) -> None:
        if size > _COMPRESS_IN_THREAD_ABOVE:
            self._await_response(asyncio.to_thread(gzip_response, response))
        else:
            self._send_response(gzip_response(response))

    def _write_body(self, parts: Iterator[bytes | memoryview]) -> None:
        self._in_progress = parts
        for part in parts:
            self._transport.write(part)
            if self.write_paused:
                return
        self._in_progress = None
        self._on_response_sent()

    def _start_stream(self, answer: StreamResponse) -> None:
        parsed = self._parsed
        framing = b"Transfer-Encoding: chunked\r\n" if parsed.is_http_1_1 else b""
        parsed.keep_alive = parsed.keep_alive and parsed.is_http_1_1
        head_bytes = self._encode_head(answer, framing + self._connection_header())
        if parsed.request.method == "HEAD":
            self._transport.write(head_bytes)
            self._on_response_sent()
            return
        self._in_progress = sink = StreamSink(
            self,
            self._transport,
            self._loop,
            self._server.flusher,
            head=head_bytes,
            is_chunked=parsed.is_http_1_1,
            max_pending_bytes=self._server.limits.max_pending_bytes,
        )
        try:
            answer.start(sink)
            if self._is_stopping:
                sink.close()
        except Exception as error:
            if self._in_progress is sink:
                self._in_progress = None
                sink.discard()
                self._send_response(self._error_response(error))
            else:
                log.exception("stream failed after its end")

    def _upgrade(self, answer: Upgrade) -> None:
        parsed = self._parsed
        if self._is_stopping:
            raise Unavailable("the server is stopping", retry_after=1)
        if not (parsed.wants_upgrade and parsed.is_http_1_1):
            raise BadRequest(f"an HTTP/1.1 request with Connection: Upgrade and Upgrade: {answer.protocol} is required")
        if self._parser.has_trailing_bytes:
            raise BadRequest("data was sent before the upgrade response")
        head_bytes = self._encode_head(answer, b"Connection: Upgrade\r\nUpgrade: %b\r\n" % answer.protocol.encode())
        self._is_closing = True
        hijacked = self._server.upgrade(self, self._transport)
        try:
            if not self._is_reading:
                self._transport.resume_reading()
            hijacked.start(answer, head_bytes)
        except Exception:
            log.exception("connection upgrade failed")
            self._transport.abort()

    def _encode_head(self, answer: Answer, framing: bytes) -> bytes:
        return encode_head(answer.status, answer.content_type, answer.headers, self._server.date, framing)

    def _connection_header(self) -> bytes:
        if self._is_last_response():
            return _CLOSE
        return b"" if self._parsed.is_http_1_1 else _KEEP_ALIVE

    def _is_last_response(self) -> bool:
        if not self._parsed.keep_alive:
            return True
        return (self._parser.is_done or self._server.is_draining) and self._has_no_more_requests()

    def _has_no_more_requests(self) -> bool:
        """True when no further request has begun to arrive."""
        return not self._parser.parsed and (self._parser.is_done or self._parser.phase is ConnectionPhase.IDLE)

    # --- between requests ---

    def _on_response_sent(self) -> None:
        """Called when the response to the current request was handed to the transport."""
        self._in_progress = None
        if self._is_closing or self._is_last_response():
            self._close()

    def _close(self) -> None:
        self._is_closing = True
        self._phase = ConnectionPhase.STALLED
        self.deadline = self._server.loop_time + self._server.limits.timeout_of(ConnectionPhase.STALLED)
        self._transport.close()

    def _update_deadline(self) -> None:
        """Sets the phase and its deadline, and pauses or resumes reading."""
        if self._is_closing:
            return
        parser = self._parser
        if bool(parser.parsed) is self._is_reading:
            self._is_reading = not self._is_reading
            if self._is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if self._in_progress is not None and isinstance(self._in_progress, (StreamSink, asyncio.Future)):
            self.deadline = math.inf
            self._phase = None
            return
        phase = parser.phase
        if self.write_paused:
            phase = ConnectionPhase.STALLED
        elif parser.wants_continue:
            parser.wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if phase is not self._phase:
            self._phase = phase
            self.deadline = self._server.loop_time + self._server.limits.timeout_of(phase)
