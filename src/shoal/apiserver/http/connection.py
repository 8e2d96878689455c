"""One client connection. Requests are answered one after another, in the order they arrived.

The fast path, a handler that returns a response synchronously, is one write and no task. Everything slower is
`_in_progress` (a task, a body the peer reads slowly, a stream); later requests wait in the parser.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Iterator
from typing import cast

from shoal.apiserver.aio import error_of
from shoal.apiserver.http.body_admission import BodyAdmission
from shoal.apiserver.http.client_certificate import client_certificate
from shoal.apiserver.http.connection_owner import ConnectionOwner
from shoal.apiserver.http.encoding import (
    SMALL_WRITE_BATCH_BYTES,
    WRITE_BATCH_BYTES,
    accepts_gzip,
    body_batches,
    body_size,
    compress,
    encode_head,
    render_error,
)
from shoal.apiserver.http.limits import ConnectionPhase
from shoal.apiserver.http.parser import ParsedRequest, RequestParser
from shoal.apiserver.http.sink import StreamSink
from shoal.objects.errors import StatusError, Unavailable
from shoal.objects.wire import Answer, Response, StreamResponse, Upgrade

log = logging.getLogger(__name__)

LINGER_SECONDS = 1.0
"""Seconds a rejected client has to read the response. Closing with unread input would reset the connection."""
_CROWDED_LINGER_SECONDS = 0.1
"""The same among many connections: the TLS buffer of each that sends takes a quarter of a megabyte."""
_WRITE_HIGH_WATER_BYTES = 64 * 1024
"""Above this write buffer no further body batches are produced. The event loop's own default is half a megabyte."""
_CROWDED_HIGH_WATER_BYTES = 16 * 1024
_CLOSE, _KEEP_ALIVE = b"Connection: close\r\n", b"Connection: keep-alive\r\n"


class HTTPConnection(BodyAdmission, asyncio.Protocol):
    __slots__ = (
        "_is_closing", "_is_reading", "_is_stopping", "_loop", "_parser", "_phase", "_server", "_transport",
        "deadline", "remote_addr", "write_paused",
    )  # fmt: skip

    def __init__(
        self, server: ConnectionOwner[HTTPConnection], loop: asyncio.AbstractEventLoop, remote_addr: str = ""
    ) -> None:
        """`remote_addr` is the address of the client, if the socket does not know it."""
        self._server, self._loop, self.remote_addr = server, loop, remote_addr
        self._in_progress = None
        self._is_closing = self._is_stopping = self.write_paused = False
        self._is_reading = True
        self._phase: ConnectionPhase | None = ConnectionPhase.HEAD
        self.deadline = math.inf
        """The loop time at which the server closes this connection unless it makes progress."""

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        server, limits = self._server, self._server.limits
        is_crowded = server.is_crowded
        self._transport.set_write_buffer_limits(_CROWDED_HIGH_WATER_BYTES if is_crowded else _WRITE_HIGH_WATER_BYTES)
        name = transport.get_extra_info("peername")
        self.remote_addr = self.remote_addr or (str(name[0]) if name else "")
        if not server.admit(self):
            self._transport.abort()
        self._parser = RequestParser(limits, self.remote_addr, client_certificate(transport), server.bodies)
        self._parser.connection.on_known = lambda: server.identify(self)
        self.deadline = self._loop.time() + limits.header_timeout

    def data_received(self, data: bytes) -> None:
        if self._in_progress is None:
            self._parser.feed(data)
            self._advance()
        else:
            self._parser.keep(data)
            self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        in_progress, self._in_progress = self._in_progress, None
        self._is_closing = True
        self._parser.close()
        self._server.remove(self)
        if isinstance(in_progress, StreamSink):
            in_progress.discard()
        elif isinstance(in_progress, asyncio.Future):
            in_progress.cancel()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._server.unread[self] = None
        self._update_deadline()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._server.unread.pop(self, None)
        self._phase = None
        if isinstance(self._in_progress, StreamSink):
            self._in_progress.flush()
        elif isinstance(self._in_progress, Iterator):
            self._write_body(self._in_progress)
        self._advance()

    # --- called by the server and the sink ---

    @property
    def unread_bytes(self) -> int:
        """Response bytes that the peer has not taken."""
        in_progress = self._in_progress
        return (in_progress if isinstance(in_progress, StreamSink) else self._transport).get_write_buffer_size()

    @property
    def is_waiting(self) -> bool:
        """True if the server waits for the client."""
        return self._in_progress is None

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
        (self._close if self._phase is ConnectionPhase.IDLE else self._transport.abort)()

    def on_stream_end(self) -> None:
        self._on_response_sent()
        # Deferred: the watch closes the sink in the middle of other work.
        self._loop.call_soon(self._advance)

    # --- requests, in order ---

    def _advance(self) -> None:
        parser = self._parser
        ready = parser.parsed
        while (ready or parser.backlog) and not (self._in_progress or self.write_paused or self._is_closing):
            if not ready:
                parser.parse_backlog()
                continue
            self._phase = None
            parsed = ready.popleft()
            if isinstance(parsed, ParsedRequest):
                self._dispatch(parsed)
            else:
                self._reject(parsed)
        self._update_deadline()

    def _dispatch(self, parsed: ParsedRequest) -> None:
        self._parsed, hold = parsed, parsed.request.hold
        try:
            answer = self._server.handler(parsed.request)
        except Exception as error:
            answer = self._error_response(error)
        if hold is not None and isinstance(answer, (Response, StreamResponse, Upgrade)):
            parsed.release()
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
            # Bytes of the other protocol may be on their way: closing at once would reset the connection.
            is_last = isinstance(answer, Upgrade) and self._parsed.wants_upgrade
            (self._send_last if is_last else self._send_response)(self._error_response(error))

    def _await_response(self, answer: Awaitable[Answer]) -> None:
        self._in_progress = task = asyncio.ensure_future(answer)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Future[Answer]) -> None:
        error = error_of(task)
        if self._parsed.request.hold is not None:
            self._parsed.release()
        if self._in_progress is not task:  # the peer disconnected
            if error is not None and not isinstance(error, StatusError):
                log.error("request failed after its client disconnected", exc_info=error)
            return
        self._in_progress = None
        self._respond(self._error_response(error) if error else task.result())
        self._advance()

    def _reject(self, error: StatusError) -> None:
        """Responds to bytes that are not a valid request, or to one that is not read to its end."""
        self._send_last(self._error_response(error))

    def _send_last(self, response: Response, method: str = "") -> None:
        """Reads no further request, and gives the peer a moment to read the response."""
        framing = b"Content-Length: %d\r\n" % body_size(response.body) + _CLOSE
        body = b"" if method == "HEAD" else b"".join(body_batches(response.body))
        self._transport.write(self._encode_head(response, framing) + body)
        self._parser.is_done = True
        self._parser.discard()
        self._set_reading(True)
        self._is_closing = True
        self._phase = ConnectionPhase.IDLE
        self.deadline = self._loop.time() + LINGER_SECONDS
        if self._server.is_crowded:
            self._loop.call_later(_CROWDED_LINGER_SECONDS, self._transport.abort)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _error_response(self, error: BaseException) -> Response:
        return render_error(error, self._server.on_error)

    # --- answers ---

    def _send_response(self, response: Response) -> None:
        body = response.body
        size = body_size(body)
        if size >= self._server.limits.gzip_min_bytes > 0 and accepts_gzip(self._parsed.request, response):
            self._respond(compress(response, size))
            return
        framing = b"Content-Length: %d\r\n" % size
        if response.status in (204, 304):
            framing, body, size = b"", b"", 0
        elif self._parsed.request.method == "HEAD":
            body, size = b"", 0
        last = self._is_last_response()
        framing += _CLOSE if last else b"" if self._parsed.is_http_1_1 else _KEEP_ALIVE
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
        last = self._is_last_response()
        framing += _CLOSE if last else b"" if parsed.is_http_1_1 else _KEEP_ALIVE
        head_bytes = self._encode_head(answer, framing)
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
        if self._is_stopping:
            raise Unavailable("the server is stopping", retry_after=1)
        self._parser.check_upgrade(self._parsed, answer.protocol)
        head_bytes = self._encode_head(answer, b"Connection: Upgrade\r\nUpgrade: %b\r\n" % answer.protocol.encode())
        self._is_closing = True
        hijacked = self._server.upgrade(self, self._transport)
        try:
            self._set_reading(True)
            hijacked.start(answer, head_bytes, self._parser.connection)
        except Exception:
            log.exception("connection upgrade failed")
            self._transport.abort()

    def _encode_head(self, answer: Answer, framing: bytes) -> bytes:
        return encode_head(answer.status, answer.content_type, answer.headers, self._server.date, framing)

    def _is_last_response(self) -> bool:
        if not self._parsed.keep_alive or self._parser.connection.is_refused:
            return True
        return (self._parser.is_done or self._server.is_draining) and self._has_no_more_requests()

    def _has_no_more_requests(self) -> bool:
        """True when no further request has begun to arrive."""
        parser = self._parser
        return not (parser.parsed or parser.backlog) and (parser.is_done or parser.phase is ConnectionPhase.IDLE)

    # --- between requests ---

    def _on_response_sent(self) -> None:
        """Called when the response to the current request was handed to the transport."""
        self._in_progress = None
        if self._is_closing or self._is_last_response():
            self._close()

    def _set_reading(self, is_reading: bool) -> None:
        if is_reading is not self._is_reading:
            self._is_reading = is_reading
            (self._transport.resume_reading if is_reading else self._transport.pause_reading)()

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
        phase = parser.phase
        if phase is ConnectionPhase.BODY and parser.needs_head_answer and self._in_progress is None:
            self._admit_body()
            if self._is_closing:
                return
        is_behind = parser.parsed or parser.backlog or (phase is ConnectionPhase.BODY and self._in_progress is not None)
        self._set_reading(not is_behind)
        if self.write_paused:
            phase = ConnectionPhase.STALLED
        elif self._in_progress is not None and isinstance(self._in_progress, (StreamSink, asyncio.Future)):
            self.deadline, self._phase = math.inf, None
            return
        if phase is not self._phase:
            self._phase = phase
            self.deadline = self._server.loop_time + self._server.limits.timeout_of(phase)
