"""The hub's end of a worker's tunnel: a `wire.Handler` whose requests the worker answers.

Responses of moderate length are buffered. Longer ones and streams are passed on as they come, no faster than the client
reads them. When the tunnel ends, pending requests fail, and streams are ended so that clients resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.clock import Clock
from shoal.fleet.tunnel.flow import Incoming, Outgoing
from shoal.fleet.tunnel.frames import (
    CREDIT,
    DATA,
    END,
    HEAD,
    LAST_STREAM,
    LONGEST,
    OPEN,
    RESET,
    WINDOW,
    Answered,
    Frame,
    ProtocolError,
    decode_head,
    decode_window,
    encode_open,
    encode_window,
)
from shoal.fleet.tunnel.link import Link
from shoal.fleet.tunnel.paths import kept
from shoal.objects.errors import StatusError, Unavailable
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Sink, StreamResponse

COLLECTED = 1024 * 1024
"""Longer responses are not buffered."""


def not_connected(worker: str) -> Unavailable:
    return Unavailable(f'worker "{worker}" is not connected', retry_after=1)


class HubEnd:
    def __init__(self, worker: str, clock: Clock, lost: Callable[[HubEnd], None]) -> None:
        self.worker = worker
        self._tell_lost = lost
        self._link = Link(worker, clock, self._took, self._lost)
        self._link.ticks.append(self._sweep)
        self._streams: dict[int, _Stream] = {}
        self._last = 0

    def start(self, stream: ByteStream) -> Receiver:
        return self._link.start(stream)

    def close(self) -> None:
        self._link.close()

    async def handle(self, request: Request) -> Answer:
        stream = self._open(request)
        try:
            answer = await stream.answer
        except asyncio.CancelledError:
            self._reset(stream)
            raise
        if request.method == "HEAD" and isinstance(answer, StreamResponse):  # No sink will be started.
            self._reset(stream)
        return answer

    def _open(self, request: Request) -> _Stream:
        if self._link.closed:
            raise not_connected(self.worker)
        if self._link.congested:
            raise Unavailable(f'worker "{self.worker}" takes no more requests now', retry_after=1)
        head = encode_open(request)
        if len(head) > LONGEST:
            raise StatusError("request headers too large", code=431, reason="RequestHeaderFieldsTooLarge")
        stream = _Stream(self._number(), self._link, self._reset)
        self._streams[stream.number] = stream
        self._link.send(OPEN, stream.number, head)
        if request.body:
            stream.out.add(request.body)
            stream.out.closing = True
            self._link.queue(stream.out)
        return stream

    def _number(self) -> int:
        while True:
            self._last = self._last % LAST_STREAM + 1
            if self._last not in self._streams:
                return self._last

    def _reset(self, stream: _Stream) -> None:
        """The client no longer waits for the rest."""
        if self._streams.pop(stream.number, None) is not None:
            stream.out.drop()
            self._link.send(RESET, stream.number)

    def _took(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream)
        if frame.kind == OPEN:
            raise ProtocolError("a worker opened a stream")
        if stream is None:  # Frames that were in flight when this end reset the stream.
            return
        if frame.kind == WINDOW:
            stream.out.grant(decode_window(frame.payload))
            self._link.queue(stream.out)
        elif frame.kind == HEAD:
            stream.answered(decode_head(frame.payload))
        elif frame.kind == DATA:
            stream.took(frame.payload)
        elif frame.kind in (END, RESET):
            del self._streams[frame.stream]
            stream.out.drop()
            if frame.kind == END:
                stream.finished()
            else:
                stream.broken(Unavailable(f'worker "{self.worker}" gave up the answer', retry_after=1))

    def _lost(self) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.out.drop()
            stream.cut(not_connected(self.worker))
        self._tell_lost(self)

    def _sweep(self) -> None:
        """Resets streams whose client went away before it got the response."""
        for stream in [stream for stream in self._streams.values() if stream.is_forgotten()]:
            self._reset(stream)


class _Stream:
    """One request and its response."""

    def __init__(self, number: int, link: Link, reset: Callable[[_Stream], None]) -> None:
        self.number = number
        self.out = Outgoing(number)
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._link, self._reset = link, reset
        self._incoming = Incoming()
        self._head: Answered | None = None
        self._pieces: list[bytes] = []
        """Kept until the end, or until the client's sink is there."""
        self._collecting = False
        self._sink: Sink | None = None
        self._end: Callable[[Sink], None] | None = None
        """How the sink ends, once that is known."""
        self._ticks = 0

    def answered(self, head: Answered) -> None:
        if self._head is not None:
            raise ProtocolError("a second HEAD")
        self._head = head = head._replace(headers=kept(head.headers))
        self._collecting = head.length is not None and head.length <= COLLECTED
        if not self._collecting and not self.answer.done():
            self.answer.set_result(StreamResponse(head.status, self._start, head.content_type, head.headers))

    def took(self, data: bytes) -> None:
        self._incoming.took(len(data))
        head = self._head
        if head is None:
            raise ProtocolError("DATA before the HEAD")
        if head.length is not None and self._incoming.total > head.length:
            raise ProtocolError("more DATA than the HEAD said")
        if self._sink is not None:
            self._sink.write(data)
            if self._sink.pending < CREDIT // 2:
                self._grant()
        else:
            self._pieces.append(data)
            if self._collecting:
                self._grant()

    def finished(self) -> None:
        head = self._head
        if head is None or (head.length is not None and self._incoming.total != head.length):
            self.broken(Unavailable("the worker's answer was incomplete", retry_after=1))
        elif not self._collecting:
            self._finish(_close)
        elif not self.answer.done():
            self.answer.set_result(Response(head.status, self._pieces, head.content_type, head.headers))

    def broken(self, error: StatusError) -> None:
        """Fails the response so that the client notices that something is missing."""
        if not self.answer.done():
            self.answer.set_exception(error)
        self._finish(_abort)

    def cut(self, error: StatusError) -> None:
        """The tunnel is gone. A stream is closed normally, because what it has delivered so far is valid."""
        if self._head is not None and self._head.length is None:
            self._finish(_close)
        else:
            self.broken(error)

    def is_forgotten(self) -> bool:
        """The response was available for two pings and nobody started it."""
        if self.answer.done() and self._sink is None:
            self._ticks += 1
        return self._ticks > 2

    def _start(self, sink: Sink) -> None:
        self._sink = sink
        for piece in self._pieces:
            sink.write(piece)
        self._pieces.clear()
        if self._end is not None:
            self._end(sink)
            return
        sink.on_close(lambda: self._reset(self))
        sink.on_drain(self._grant)
        self._grant()

    def _finish(self, end: Callable[[Sink], None]) -> None:
        self._end = end
        if self._sink is not None:
            end(self._sink)

    def _grant(self) -> None:
        more = self._incoming.grant()
        if more:
            self._link.send_encoded(encode_window(self.number, more))


def _close(sink: Sink) -> None:
    sink.close()


def _abort(sink: Sink) -> None:
    sink.abort()
