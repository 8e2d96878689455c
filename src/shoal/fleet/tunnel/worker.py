"""The worker's end of its tunnel: passes requests from the hub to a local `wire.Handler`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import orjson

from shoal.clock import Clock
from shoal.fleet.tunnel.flow import Incoming, Outgoing
from shoal.fleet.tunnel.frames import (
    DATA,
    END,
    HEAD,
    LONGEST,
    OPEN,
    RESET,
    WINDOW,
    Frame,
    Opened,
    ProtocolError,
    decode_open,
    decode_window,
    encode_head,
    encode_window,
)
from shoal.fleet.tunnel.link import Link
from shoal.objects.errors import InternalError, NotImplementedHere, StatusError, TooLarge
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request, Response, StreamResponse, Upgrade

log = logging.getLogger("shoal.fleet")

MAX_BODY = 3 * 1024 * 1024
MAX_PENDING = 16 * 1024 * 1024
"""A stream whose client is this far behind is aborted, as the server does for its own streams."""


class WorkerEnd:
    def __init__(self, name: str, handler: Handler, clock: Clock) -> None:
        self._handler = handler
        self.link = Link(name, clock, self._took, self._lost)
        self._streams: dict[int, _Stream] = {}
        self._over = asyncio.Event()

    def start(self, stream: ByteStream) -> Receiver:
        return self.link.start(stream)

    async def ended(self) -> None:
        """Waits until the tunnel is gone."""
        await self._over.wait()

    def close(self) -> None:
        self.link.close()

    def _took(self, frame: Frame) -> None:
        number = frame.stream
        stream = self._streams.get(number)
        if frame.kind == OPEN:
            if stream is not None:
                raise ProtocolError(f"stream {number} is open already")
            stream = self._streams[number] = _Stream(number, self.link, self._handler, self._done)
            stream.opened(decode_open(frame.payload))
        elif stream is None:  # Frames that were in flight when this end closed the stream.
            return
        elif frame.kind == DATA:
            stream.took(frame.payload)
        elif frame.kind == END:
            stream.complete()
        elif frame.kind == WINDOW:
            stream.out.grant(decode_window(frame.payload))
            self.link.queue(stream.out)
        elif frame.kind == RESET:
            stream.drop()
        else:
            raise ProtocolError("the hub answered")

    def _done(self, number: int) -> None:
        self._streams.pop(number, None)

    def _lost(self) -> None:
        for stream in list(self._streams.values()):
            stream.drop()
        self._over.set()


class _Stream:
    """One request and its response; the sink of the response if that is a stream."""

    def __init__(self, number: int, link: Link, handler: Handler, done: Callable[[int], None]) -> None:
        self._number, self._link, self._handler, self._done = number, link, handler, done
        self.out = Outgoing(number)
        self.out.drained = self._drained
        self._incoming = Incoming()
        self._length = 0
        self._request: Request | None = None
        """Set until it is complete."""
        self._body: list[bytes] = []
        self._task: asyncio.Future[Answer] | None = None
        self._limit = 0
        self._closed = False
        self._callbacks: list[Callable[[], None]] = []
        self._on_drain: Callable[[], None] | None = None

    # --- the request ---

    def opened(self, opened: Opened) -> None:
        self._request, self._length = opened
        if self._length > MAX_BODY:
            self._request = None
            self._answer(failed(TooLarge(f"Request entity too large: limit is {MAX_BODY}")))
        elif not self._length:
            self.complete()

    def took(self, data: bytes) -> None:
        self._incoming.took(len(data))
        if self._request is None:
            return
        if self._incoming.total > self._length:
            raise ProtocolError("more DATA than the OPEN said")
        self._body.append(data)
        more = self._incoming.grant()
        if more:
            self._link.send_encoded(encode_window(self._number, more))

    def complete(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        if self._incoming.total != self._length:
            raise ProtocolError("less DATA than the OPEN said")
        request.body = b"".join(self._body)
        self._body.clear()
        try:
            answer = self._handler(request)
        except Exception as error:
            answer = failed(error)
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            self._answer(answer)
        else:
            self._task = asyncio.ensure_future(answer)
            self._task.add_done_callback(self._waited)

    def _waited(self, task: asyncio.Future[Answer]) -> None:
        if task.cancelled():
            self.abort()
            return
        error = task.exception()
        if not self._closed:
            self._answer(failed(error) if error is not None else task.result())

    # --- the response ---

    def _answer(self, answer: Answer) -> None:
        if isinstance(answer, Upgrade):
            answer = failed(NotImplementedHere("connections of hosted clusters cannot be upgraded"))
        length = None
        if isinstance(answer, Response):
            length = len(answer.body) if isinstance(answer.body, bytes) else sum(map(len, answer.body))
        head = encode_head(answer.status, answer.content_type, answer.headers, length)
        if len(head) > LONGEST:
            self._answer(failed(InternalError("Internal error occurred: the answer's headers are too large")))
            return
        self._link.send(HEAD, self._number, head)
        if isinstance(answer, Response):
            for piece in [answer.body] if isinstance(answer.body, bytes) else answer.body:
                self.out.add(piece)
            self.close()
        else:
            self._stream(answer)

    def _stream(self, answer: StreamResponse) -> None:
        try:
            answer.start(self)
        except Exception:
            log.exception("a stream failed")
            self.abort()
        # The first burst (a watch's initial events) was requested by the client: only what it falls behind after that
        # counts.
        self._limit = MAX_PENDING + self.out.pending

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending(self) -> int:
        return self.out.pending

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        self.out.add(data)
        self._link.queue(self.out)
        if 0 < self._limit < self.out.pending:
            log.warning("a client of a hosted cluster's stream is %d bytes behind and is cut off", self.out.pending)
            self.abort()

    def close(self) -> None:
        if not self._closed:
            self.out.closing = True
            self._link.queue(self.out)
            self._notify()

    def abort(self) -> None:
        if not self.out.ended:
            self._link.send(RESET, self._number)
        self.drop()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if self._closed:
            self._notify()

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._on_drain = callback

    def drop(self) -> None:
        """Discards the stream: the hub or the tunnel is done with it."""
        self._request = None
        self.out.drop()
        if self._task is not None:
            self._task.cancel()
        self._notify()
        self._done(self._number)

    def _drained(self) -> None:
        if self.out.ended:
            self._done(self._number)
        elif self._on_drain is not None:
            self._on_drain()

    def _notify(self) -> None:
        # Deferred: a caller that writes to many sinks in a loop must not see its own set change.
        self._closed = True
        loop = asyncio.get_running_loop()
        for callback in self._callbacks:
            loop.call_soon(callback)
        self._callbacks.clear()


def failed(error: BaseException) -> Response:
    """Converts any exception to a Status response."""
    if not isinstance(error, StatusError):
        log.error("a request through the tunnel failed", exc_info=error)
        error = InternalError("Internal error occurred: the worker's log has the details")
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.status_code, orjson.dumps(error.wire()), headers=headers)
