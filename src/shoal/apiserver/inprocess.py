"""Calls the server without a socket. Structurally implements the transport of `client`.

The rest of the chain runs as for any request: authentication by the same bearer tokens, authorization, admission.
Controllers in the server's process use this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, MutableSet
from urllib.parse import unquote

from shoal.objects.errors import BadRequest, Unavailable
from shoal.objects.wire import Handler, Request, Response, StreamResponse, Upgrade
from shoal.store.fencing import LeaseCheck, fenced_by

MAX_READS_IN_A_ROW = 64
"""Reads are answered without a pause. After this many, others have their turn."""
IN_PROCESS = "in-process"
"""Remote address of such requests. Response headers meant for people are left out."""


def _request(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes = b"") -> Request:
    return Request(method, unquote(path) if "%" in path else path, query, headers, body, remote_addr=IN_PROCESS)


class InProcessTransport:
    def __init__(self, handler: Handler, pipes: MutableSet[Pipe] | None = None) -> None:
        """`pipes` collects the open streams."""
        self._handler = handler
        self._pipes: MutableSet[Pipe] = pipes if pipes is not None else set()
        self._holds: LeaseCheck | None = None
        self._answered_at_once = 0

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = await self._call(_request(method, path, query, headers, body))
        if isinstance(answer, Response):
            content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        else:
            # A large response of another server, streamed through.
            pipe = Pipe()
            answer.start(pipe)
            content = b"".join([piece async for piece in pipe.read()])
            if pipe.aborted:
                raise Unavailable("the response was truncated", retry_after=1)
        return answer.status, {name.lower(): value for name, value in answer.headers}, content

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        answer = await self._call(_request(method, path, query, headers))
        if isinstance(answer, Response):
            content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
            return answer.status, _once(content)
        pipe = Pipe()
        self._pipes.add(pipe)
        pipe.on_close(lambda: self._pipes.discard(pipe))
        answer.start(pipe)
        return answer.status, pipe.read()

    def with_fence(self, holds: LeaseCheck) -> InProcessTransport:
        """Returns a transport that may write only while `holds` is true."""
        transport = InProcessTransport(self._handler, self._pipes)
        transport._holds = holds
        return transport

    async def close(self) -> None:
        """Does nothing: no connection is held open."""

    async def _call(self, request: Request) -> Response | StreamResponse:
        if self._holds is not None and request.method != "GET":
            with fenced_by(self._holds):
                return await self._handle(request)
        return await self._handle(request)

    async def _handle(self, request: Request) -> Response | StreamResponse:
        answer = self._handler(request)
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            result = answer
            self._answered_at_once += 1
            if self._answered_at_once % MAX_READS_IN_A_ROW == 0:
                await asyncio.sleep(0)
        else:
            result = await answer
        if isinstance(result, Upgrade):
            raise BadRequest(f"in-process requests cannot be upgraded to {result.protocol}")
        return result


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class Pipe:
    """A sink and its reading end: a watch that never leaves the process."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self.aborted = False
        """True if the stream was aborted before its end."""
        self._callbacks: list[Callable[[], None]] = []
        self._on_drain: Callable[[], None] | None = None
        self._size = 0

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending_bytes(self) -> int:
        return self._size

    def write(self, data: bytes) -> None:
        if not self._closed:
            self._pieces.append(data)
            self._size += len(data)
            self._ready.set()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._ready.set()
            for callback in self._callbacks:
                callback()

    def abort(self) -> None:
        self.aborted = self.aborted or not self._closed
        self.close()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._on_drain = callback

    async def read(self) -> AsyncIterator[bytes]:
        try:
            while True:
                while self._pieces:
                    piece = self._pieces.popleft()
                    self._size -= len(piece)
                    yield piece
                if self._closed:
                    return
                self._ready.clear()
                if self._on_drain is not None:
                    self._on_drain()
                await self._ready.wait()
        finally:
            self.close()
