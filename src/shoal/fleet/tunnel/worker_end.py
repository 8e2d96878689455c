"""The worker's end of its tunnel: passes requests from the hub to a local `wire.Handler`, raw connections to a local
`Connector`. In a tunnel between two hubs the one that has the workers has this end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import orjson

from shoal.clock import Clock
from shoal.fleet.tunnel.connection import TunnelConnection
from shoal.fleet.tunnel.flow_control import ReceiveWindow, SendBuffer
from shoal.fleet.tunnel.frames import (
    DATA,
    END,
    HEAD,
    MAX_PAYLOAD,
    OPEN,
    RESET,
    WINDOW,
    Frame,
    OpenFrame,
    ProtocolError,
    decode_open,
    decode_window,
    encode_head,
    encode_window,
)
from shoal.fleet.tunnel.paths import UPGRADE_HEADER, parse_hosted_path
from shoal.fleet.tunnel.raw_connection import (
    CLIENT_ADDRESS_HEADER,
    CONNECT,
    REFUSAL_HEADER,
    Connector,
    RawConnection,
    SocketHandler,
)
from shoal.fleet.tunnel.upgraded_stream import UpgradedStream
from shoal.objects.errors import InternalError, NotImplementedHere, StatusError, TooLarge, Unavailable
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request, Response, StreamResponse, Upgrade

log = logging.getLogger("shoal.fleet")

MAX_BODY = 3 * 1024 * 1024
MAX_PENDING = 16 * 1024 * 1024
"""A stream whose client is this far behind is aborted, as the server does for its own streams."""
MAX_REFUSAL = 1024
"""Characters of the reason for which a raw connection is refused."""


class WorkerTunnel:
    def __init__(
        self,
        name: str,
        handler: Handler,
        clock: Clock,
        connector: Connector | None = None,
        on_lost: Callable[[WorkerTunnel], None] = lambda tunnel: None,
    ) -> None:
        """Without a connector raw connections are refused. `on_lost` is called once, at the end."""
        self._handler, self._connector, self._on_lost = handler, connector, on_lost
        self.connection = TunnelConnection(name, clock, self._on_frame, self._on_connection_lost)
        self._streams: dict[int, _WorkerStream] = {}
        self._raw_connections: dict[int, RawConnection | UpgradedStream] = {}
        self._connect_tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    def start(self, stream: ByteStream) -> Receiver:
        return self.connection.start(stream)

    async def wait_ended(self) -> None:
        """Waits until the tunnel is gone."""
        await self._ended.wait()

    def close(self) -> None:
        self.connection.close()

    def _on_frame(self, frame: Frame) -> None:
        number = frame.stream
        stream, raw = self._streams.get(number), self._raw_connections.get(number)
        if frame.kind == OPEN:
            if stream is not None or raw is not None:
                raise ProtocolError(f"stream {number} is already open")
            self._open(number, decode_open(frame.payload))
        elif raw is not None:
            raw.on_frame(frame)
        elif stream is None:  # Frames that were in flight when this end closed the stream.
            return
        elif frame.kind == DATA:
            stream.on_data(frame.payload)
        elif frame.kind == END:
            stream.on_end()
        elif frame.kind == WINDOW:
            stream.send_buffer.grant(decode_window(frame.payload))
            self.connection.enqueue(stream.send_buffer)
        elif frame.kind == RESET:
            stream.drop()
        else:
            raise ProtocolError("unexpected response frame from the hub")

    def _open(self, number: int, open_frame: OpenFrame) -> None:
        if open_frame.request.method != CONNECT:
            after_upgrade = self._on_upgraded, self._remove_raw
            stream = _WorkerStream(number, self.connection, self._handler, self._remove_stream, *after_upgrade)
            self._streams[number] = stream
            stream.on_open(open_frame)
            return
        raw = RawConnection(number, self.connection, self._remove_raw)
        self._raw_connections[number] = raw
        task = asyncio.get_running_loop().create_task(self._connect(raw, open_frame.request))
        self._connect_tasks.add(task)
        task.add_done_callback(self._connect_tasks.discard)

    async def _connect(self, raw: RawConnection, request: Request) -> None:
        """Joins the raw connection and the local server by a pair of sockets."""
        try:
            serve = await self._socket_handler(request.path)
            near, far = _socket_pair()
        except Exception as error:
            self._refuse(raw, error)
            return
        if raw.is_done:
            near.close()
            far.close()
            return
        serve(far, request.headers.get(CLIENT_ADDRESS_HEADER, ""), lambda: None)
        self.connection.send(HEAD, raw.stream_id, encode_head(200, "", (), None))
        await raw.attach(near)

    async def _socket_handler(self, path: str) -> SocketHandler:
        if self._connector is None:
            raise NotImplementedHere("this worker does not accept connections to hosted clusters")
        return await self._connector(parse_hosted_path(path))

    def _refuse(self, raw: RawConnection, error: Exception) -> None:
        if raw.is_done:
            return
        if not isinstance(error, StatusError):
            log.error("connection through the tunnel failed", exc_info=error)
            error = InternalError("Internal error occurred: see the worker's log")
        head = encode_head(error.status_code, "", ((REFUSAL_HEADER, error.message[:MAX_REFUSAL]),), 0)
        self.connection.send(HEAD, raw.stream_id, head)
        raw.abort()

    def _remove_raw(self, number: int) -> None:
        self._raw_connections.pop(number, None)

    def _remove_stream(self, number: int) -> None:
        self._streams.pop(number, None)

    def _on_upgraded(self, upgraded: UpgradedStream) -> None:
        del self._streams[upgraded.stream_id]
        self._raw_connections[upgraded.stream_id] = upgraded

    def _on_connection_lost(self) -> None:
        for raw in list(self._raw_connections.values()):
            raw.drop()
        for stream in list(self._streams.values()):
            stream.drop()
        self._ended.set()
        self._on_lost(self)


class _WorkerStream:
    """One request and its response; the sink of the response if that is a stream."""

    def __init__(
        self,
        number: int,
        connection: TunnelConnection,
        handler: Handler,
        on_done: Callable[[int], None],
        on_upgraded: Callable[[UpgradedStream], None],
        remove_upgraded: Callable[[int], None],
    ) -> None:
        """`on_upgraded` takes over the stream after a 101 response, until `remove_upgraded`."""
        self._number, self._connection, self._handler, self._on_done = number, connection, handler, on_done
        self._on_upgraded, self._remove_upgraded, self._wants_upgrade = on_upgraded, remove_upgraded, False
        self.send_buffer = SendBuffer(number)
        self.send_buffer.on_drained = self._on_drained
        self._receive_window = ReceiveWindow()
        self._length = 0
        self._request: Request | None = None
        """Set until it is complete."""
        self._body: list[bytes] = []
        self._task: asyncio.Future[Answer] | None = None
        self._pending_limit = 0
        self._closed = False
        self._callbacks: list[Callable[[], None]] = []
        self._on_drain: Callable[[], None] | None = None

    # --- the request ---

    def on_open(self, open_frame: OpenFrame) -> None:
        self._request, self._length = open_frame
        if self._length > MAX_BODY:
            self._request = None
            self._send_response(error_response(TooLarge(f"Request entity too large: limit is {MAX_BODY}")))
        elif not self._length:
            self.on_end()

    def on_data(self, data: bytes) -> None:
        self._receive_window.consume(len(data))
        if self._request is None:
            return
        if self._receive_window.total > self._length:
            raise ProtocolError("more DATA than announced in OPEN frame")
        self._body.append(data)
        credit = self._receive_window.grant()
        if credit:
            self._connection.send_encoded(encode_window(self._number, credit))

    def on_end(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        if self._receive_window.total != self._length:
            raise ProtocolError("less DATA than announced in OPEN frame")
        request.body = b"".join(self._body)
        self._body.clear()
        self._wants_upgrade = "upgrade" in request.headers
        try:
            answer = self._handler(request)
        except Exception as error:
            answer = error_response(error)
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            self._send_response(answer)
        else:
            self._task = asyncio.ensure_future(answer)
            self._task.add_done_callback(self._on_handler_done)

    def _on_handler_done(self, task: asyncio.Future[Answer]) -> None:
        if task.cancelled():
            self.abort()
            return
        error = task.exception()
        if not self._closed:
            self._send_response(error_response(error) if error is not None else task.result())

    # --- the response ---

    def _send_response(self, response: Answer) -> None:
        if isinstance(response, Upgrade):
            if self._wants_upgrade:
                self._upgrade(response)
                return
            response = error_response(NotImplementedHere("hosted clusters do not support connection upgrades"))
        length = None
        if isinstance(response, Response):
            length = len(response.body) if isinstance(response.body, bytes) else sum(map(len, response.body))
        head = encode_head(response.status, response.content_type, response.headers, length)
        if len(head) > MAX_PAYLOAD:
            self._send_response(
                error_response(InternalError("Internal error occurred: the response headers are too large"))
            )
            return
        self._connection.send(HEAD, self._number, head)
        if isinstance(response, Response):
            for piece in [response.body] if isinstance(response.body, bytes) else response.body:
                self.send_buffer.add(piece)
            self.close()
        else:
            self._start_stream(response)

    def _upgrade(self, answer: Upgrade) -> None:
        upgraded = UpgradedStream(self._connection, self.send_buffer, self._receive_window, self._remove_upgraded)
        headers = ((UPGRADE_HEADER, answer.protocol), *answer.headers)
        self._connection.send(HEAD, self._number, encode_head(answer.status, "", headers, None))
        self._on_upgraded(upgraded)
        try:
            upgraded.attach(answer.start(upgraded))
        except Exception:
            log.exception("upgrade through the tunnel failed")
            upgraded.abort()

    def _start_stream(self, answer: StreamResponse) -> None:
        try:
            answer.start(self)
        except Exception:
            log.exception("stream through the tunnel failed")
            self.abort()
        # The first burst (a watch's initial events) was requested by the client: only what it falls behind after that
        # counts.
        self._pending_limit = MAX_PENDING + self.send_buffer.pending

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending_bytes(self) -> int:
        return self.send_buffer.pending

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        self.send_buffer.add(data)
        self._connection.enqueue(self.send_buffer)
        if 0 < self._pending_limit < self.send_buffer.pending:
            log.warning("closing stream of a hosted cluster: client is %d bytes behind", self.send_buffer.pending)
            self.abort()

    def close(self) -> None:
        if not self._closed:
            self.send_buffer.is_closing = True
            self._connection.enqueue(self.send_buffer)
            self._mark_closed()

    def abort(self) -> None:
        if not self.send_buffer.has_ended:
            self._connection.send(RESET, self._number)
        self.drop()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if self._closed:
            self._mark_closed()

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._on_drain = callback

    def drop(self) -> None:
        """Discards the stream: the hub or the tunnel is done with it."""
        self._request = None
        self.send_buffer.drop()
        if self._task is not None:
            self._task.cancel()
        self._mark_closed()
        self._on_done(self._number)

    def _on_drained(self) -> None:
        if self.send_buffer.has_ended:
            self._on_done(self._number)
        elif self._on_drain is not None:
            self._on_drain()

    def _mark_closed(self) -> None:
        # Deferred: a caller that writes to many sinks in a loop must not see its own set change.
        self._closed = True
        loop = asyncio.get_running_loop()
        for callback in self._callbacks:
            loop.call_soon(callback)
        self._callbacks.clear()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    try:
        near, far = socket.socketpair()
    except OSError as error:
        raise Unavailable(f"the worker cannot open a socket: {error.strerror}", retry_after=1) from error
    near.setblocking(False)
    far.setblocking(False)
    return near, far


def error_response(error: BaseException) -> Response:
    """Converts any exception to a Status response."""
    if not isinstance(error, StatusError):
        log.error("request through the tunnel failed", exc_info=error)
        error = InternalError("Internal error occurred: see the worker's log")
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.status_code, orjson.dumps(error.to_status()), headers=headers)
