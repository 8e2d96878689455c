"""The hub's end of a worker's tunnel: a `wire.Handler` whose requests the worker answers, and raw connections to it.
In a tunnel between two hubs the one that needs the other has this end.

Responses of moderate length are buffered. Longer ones and streams are passed on as they come, no faster than the client
reads them. When the tunnel ends, pending requests fail, and streams are ended so that clients resume.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from shoal.clock import Clock
from shoal.fleet.tunnel.connection import PING_SECONDS, TunnelConnection
from shoal.fleet.tunnel.flow_control import ReceiveWindow, SendBuffer
from shoal.fleet.tunnel.frames import (
    DATA,
    END,
    HEAD,
    INITIAL_CREDIT,
    MAX_PAYLOAD,
    MAX_STREAM_ID,
    OPEN,
    RESET,
    WINDOW,
    Frame,
    HeadFrame,
    ProtocolError,
    decode_head,
    decode_window,
    encode_open,
    encode_window,
)
from shoal.fleet.tunnel.paths import UPGRADE_HEADER, HostedPath, end_to_end_headers
from shoal.fleet.tunnel.raw_connection import (
    CLIENT_ADDRESS_HEADER,
    CONNECT,
    REFUSAL_HEADER,
    RawConnection,
    SocketHandler,
)
from shoal.fleet.tunnel.upgraded_stream import UpgradedStream
from shoal.objects.errors import StatusError, Unavailable
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Sink, StreamResponse, Upgrade

log = logging.getLogger("shoal.fleet")

MAX_BUFFERED_RESPONSE = 1024 * 1024
"""Longer responses are not buffered."""
MAX_LOGGED_REFUSALS = 100
SWITCHING_PROTOCOLS = 101
TOO_OLD = "it does not know such connections: upgrade the worker"


def not_connected_error(worker: str) -> Unavailable:
    return Unavailable(f'worker "{worker}" is not connected', retry_after=1)


class HubTunnel:
    def __init__(
        self,
        worker: str,
        clock: Clock,
        on_lost: Callable[[HubTunnel], None],
        peer: str = "",
        max_idle_pings: int = 0,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        """`peer` is the other side in messages, if that is not the worker. The tunnel is closed after `max_idle_pings`
        pings without a request or connection; 0: never.
        """
        self.worker, self._peer = worker, peer or f'worker "{worker}"'
        self._on_lost = on_lost
        self._max_idle_pings, self._idle_pings, self._last_used_id = max_idle_pings, 0, 0
        self._connection = TunnelConnection(worker, clock, self._on_frame, self._on_connection_lost, ping_seconds)
        self._connection.ping_handlers += [self._reset_abandoned, self._close_idle]
        self._streams: dict[int, _HubStream] = {}
        self._raw_connections: dict[int, RawConnection | UpgradedStream] = {}
        self._attach_tasks: set[asyncio.Task[None]] = set()
        self._logged_refusals: set[str] = set()
        self._last_stream_id = 0

    def start(self, stream: ByteStream) -> Receiver:
        return self._connection.start(stream)

    def close(self) -> None:
        self._connection.close()

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    async def handle(self, request: Request) -> Answer:
        stream = self._open(request)
        try:
            response = await stream.response
        except asyncio.CancelledError:
            self._reset(stream)
            raise
        if request.method == "HEAD" and isinstance(response, StreamResponse):  # No sink will be started.
            self._reset(stream)
        return response

    async def connector(self, target: HostedPath) -> SocketHandler:
        """A `raw_connection.Connector`. The bytes of a client are sent before the worker has answered."""
        self._check_usable()

        def connect(sock: socket.socket, client: str, on_closed: Callable[[], None]) -> None:
            stream_id = self._next_stream_id()
            raw = RawConnection(stream_id, self._connection, self._remove_raw, on_closed)
            request = Request(CONNECT, target.path, headers={CLIENT_ADDRESS_HEADER: client})
            self._raw_connections[stream_id] = raw
            self._connection.send(OPEN, stream_id, encode_open(request))
            if self._connection.is_closed:
                raw.drop()
            task = asyncio.get_running_loop().create_task(raw.attach(sock))
            self._attach_tasks.add(task)
            task.add_done_callback(self._attach_tasks.discard)

        return connect

    def _check_usable(self) -> None:
        if self._connection.is_closed:
            raise self._not_connected_error()
        if self._connection.is_congested:
            raise Unavailable(f"tunnel of {self._peer} is congested", retry_after=1)

    def _not_connected_error(self) -> Unavailable:
        return Unavailable(f"{self._peer} is not connected", retry_after=1)

    def _open(self, request: Request) -> _HubStream:
        self._check_usable()
        head = encode_open(request)
        if len(head) > MAX_PAYLOAD:
            raise StatusError("request headers too large", code=431, reason="RequestHeaderFieldsTooLarge")
        protocol = request.headers.get(UPGRADE_HEADER, "")
        stream = _HubStream(self._next_stream_id(), self._connection, self._reset, protocol)
        self._streams[stream.stream_id] = stream
        self._connection.send(OPEN, stream.stream_id, head)
        if request.body:
            stream.send_buffer.add(request.body)
            stream.send_buffer.is_closing = True
            self._connection.enqueue(stream.send_buffer)
        return stream

    def _next_stream_id(self) -> int:
        while True:
            self._last_stream_id = self._last_stream_id % MAX_STREAM_ID + 1
            if self._last_stream_id not in self._streams and self._last_stream_id not in self._raw_connections:
                return self._last_stream_id

    def _reset(self, stream: _HubStream) -> None:
        """The client no longer waits for the rest."""
        if self._streams.pop(stream.stream_id, None) is not None:
            stream.send_buffer.drop()
            self._connection.send(RESET, stream.stream_id)

    def _remove_raw(self, number: int) -> None:
        self._raw_connections.pop(number, None)

    def _on_frame(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream)
        if frame.kind == OPEN:
            raise ProtocolError("unexpected OPEN frame")
        raw = self._raw_connections.get(frame.stream)
        if isinstance(raw, UpgradedStream):
            raw.on_frame(frame)
            return
        if raw is not None:
            self._on_raw_frame(raw, frame)
            return
        if stream is None:  # Frames that were in flight when this end reset the stream.
            return
        if frame.kind == WINDOW:
            stream.send_buffer.grant(decode_window(frame.payload))
            self._connection.enqueue(stream.send_buffer)
        elif frame.kind == HEAD:
            self._on_head(stream, decode_head(frame.payload))
        elif frame.kind == DATA:
            stream.on_data(frame.payload)
        elif frame.kind in (END, RESET):
            del self._streams[frame.stream]
            stream.send_buffer.drop()
            if frame.kind == END:
                stream.on_end()
            else:
                stream.fail(Unavailable(f"{self._peer} aborted the response", retry_after=1))

    def _on_head(self, stream: _HubStream, head: HeadFrame) -> None:
        if head.status != SWITCHING_PROTOCOLS:
            stream.on_head(head)
            return
        upgraded = stream.upgrade(head, self._remove_raw)
        del self._streams[stream.stream_id]
        self._raw_connections[stream.stream_id] = upgraded

    def _on_raw_frame(self, raw: RawConnection, frame: Frame) -> None:
        if frame.kind == HEAD:
            head = decode_head(frame.payload)
            if head.status != 200:
                self._log_refusal(head)
                raw.abort()
        else:
            raw.on_frame(frame)

    def _log_refusal(self, head: HeadFrame) -> None:
        """Logs each reason once: clients try again and again."""
        reason = dict(head.headers).get(REFUSAL_HEADER, TOO_OLD)
        if reason in self._logged_refusals:
            return
        if len(self._logged_refusals) >= MAX_LOGGED_REFUSALS:
            self._logged_refusals.clear()
        self._logged_refusals.add(reason)
        log.warning("%s refuses connections to a hosted cluster (status %d): %s", self._peer, head.status, reason)

    def _on_connection_lost(self) -> None:
        for raw in list(self._raw_connections.values()):
            raw.drop()
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.send_buffer.drop()
            stream.on_connection_lost(self._not_connected_error())
        self._on_lost(self)

    def _reset_abandoned(self) -> None:
        """Resets streams whose client went away before it got the response."""
        for stream in [stream for stream in self._streams.values() if stream.is_abandoned()]:
            self._reset(stream)
        for raw in list(self._raw_connections.values()):
            if isinstance(raw, UpgradedStream) and raw.is_abandoned():
                raw.abort()

    def _close_idle(self) -> None:
        is_idle = not self._streams and not self._raw_connections and self._last_used_id == self._last_stream_id
        self._idle_pings = self._idle_pings + 1 if is_idle else 0
        self._last_used_id = self._last_stream_id
        if self._max_idle_pings and self._idle_pings >= self._max_idle_pings:
            self.close()


class _HubStream:
    """One request and its response."""

    def __init__(
        self, stream_id: int, connection: TunnelConnection, reset: Callable[[_HubStream], None], protocol: str
    ) -> None:
        """`protocol` is what the client asks to upgrade to; empty: nothing."""
        self.stream_id, self._protocol = stream_id, protocol
        self.send_buffer = SendBuffer(stream_id)
        self.response: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._connection, self._reset = connection, reset
        self._receive_window = ReceiveWindow()
        self._head: HeadFrame | None = None
        self._pieces: list[bytes] = []
        """Kept until the end, or until the client's sink is there."""
        self._is_buffering = False
        self._sink: Sink | None = None
        self._end_sink: Callable[[Sink], None] | None = None
        """How the sink ends, once that is known."""
        self._pings_since_response = 0

    def upgrade(self, head: HeadFrame, on_done: Callable[[int], object]) -> UpgradedStream:
        """Answers with 101. What follows is no response any more."""
        protocol = dict(head.headers).get(UPGRADE_HEADER, "")
        if self._head is not None or not self._protocol or protocol.lower() != self._protocol.lower():
            raise ProtocolError("unexpected upgrade")
        upgraded = UpgradedStream(self._connection, self.send_buffer, self._receive_window, on_done)
        if not self.response.done():
            self.response.set_result(Upgrade(protocol, upgraded.join, headers=end_to_end_headers(head.headers)))
        return upgraded

    def on_head(self, head: HeadFrame) -> None:
        if self._head is not None:
            raise ProtocolError("second HEAD frame")
        self._head = head = head._replace(headers=end_to_end_headers(head.headers))
        self._is_buffering = head.length is not None and head.length <= MAX_BUFFERED_RESPONSE
        if not self._is_buffering and not self.response.done():
            self.response.set_result(StreamResponse(head.status, self._start_sink, head.content_type, head.headers))

    def on_data(self, data: bytes) -> None:
        self._receive_window.consume(len(data))
        head = self._head
        if head is None:
            raise ProtocolError("DATA frame before HEAD frame")
        if head.length is not None and self._receive_window.total > head.length:
            raise ProtocolError("more DATA than announced in HEAD frame")
        if self._sink is not None:
            self._sink.write(data)
            if self._sink.pending_bytes < INITIAL_CREDIT // 2:
                self._grant_credit()
        else:
            self._pieces.append(data)
            if self._is_buffering:
                self._grant_credit()

    def on_end(self) -> None:
        head = self._head
        if head is None or (head.length is not None and self._receive_window.total != head.length):
            self.fail(Unavailable("the worker's response was incomplete", retry_after=1))
        elif not self._is_buffering:
            self._finish_sink(_close)
        elif not self.response.done():
            self.response.set_result(Response(head.status, self._pieces, head.content_type, head.headers))

    def fail(self, error: StatusError) -> None:
        """Fails the response so that the client notices that something is missing."""
        if not self.response.done():
            self.response.set_exception(error)
        self._finish_sink(_abort)

    def on_connection_lost(self, error: StatusError) -> None:
        """The tunnel is gone. A stream is closed normally, because what it has delivered so far is valid."""
        if self._head is not None and self._head.length is None:
            self._finish_sink(_close)
        else:
            self.fail(error)

    def is_abandoned(self) -> bool:
        """The response was available for two pings and nobody started it."""
        if self.response.done() and self._sink is None:
            self._pings_since_response += 1
        return self._pings_since_response > 2

    def _start_sink(self, sink: Sink) -> None:
        self._sink = sink
        for piece in self._pieces:
            sink.write(piece)
        self._pieces.clear()
        if self._end_sink is not None:
            self._end_sink(sink)
            return
        sink.on_close(lambda: self._reset(self))
        sink.on_drain(self._grant_credit)
        self._grant_credit()

    def _finish_sink(self, end_sink: Callable[[Sink], None]) -> None:
        self._end_sink = end_sink
        if self._sink is not None:
            end_sink(self._sink)

    def _grant_credit(self) -> None:
        credit = self._receive_window.grant()
        if credit:
            self._connection.send_encoded(encode_window(self.stream_id, credit))


def _close(sink: Sink) -> None:
    sink.close()


def _abort(sink: Sink) -> None:
    sink.abort()
