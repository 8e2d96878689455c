"""Calls the server without a socket. Structurally implements the transport of `client`.

The rest of the chain runs as for any request: authentication by the same bearer tokens, authorization, admission.
Controllers in the server's process use this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, MutableSet

from shoal.objects.errors import BadRequest, Unavailable
from shoal.objects.wire import Handler, Request, Response, StreamResponse, Upgrade
from shoal.store.fencing import Holds, only_while

IN_PROCESS = "in-process"
"""Remote address of such requests. Response headers meant for people are left out."""


class InProcessTransport:
    def __init__(self, handler: Handler, pipes: MutableSet[Pipe] | None = None) -> None:
        """`pipes` collects the open streams."""
        self._handler = handler
        self._pipes: MutableSet[Pipe] = pipes if pipes is not None else set()
        self._holds: Holds | None = None

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = await self._call(Request(method, path, query, headers, body, remote=IN_PROCESS))
        if isinstance(answer, Response):
            content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        else:
            # A large response of another server, streamed through.
            pipe = Pipe()
            answer.start(pipe)
            content = b"".join([piece async for piece in pipe.read()])
            if pipe.broken:
                raise Unavailable("the answer was cut off", retry_after=1)
        return answer.status, {name.lower(): value for name, value in answer.headers}, content

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        answer = await self._call(Request(method, path, query, headers, remote=IN_PROCESS))
        if isinstance(answer, Response):
            content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
            return answer.status, _once(content)
        pipe = Pipe()
        self._pipes.add(pipe)
        pipe.on_close(lambda: self._pipes.discard(pipe))
        answer.start(pipe)
        return answer.status, pipe.read()

    def fenced(self, holds: Holds) -> InProcessTransport:
        """Returns a transport that may write only while `holds` is true."""
        fenced = InProcessTransport(self._handler, self._pipes)
        fenced._holds = holds
        return fenced

    async def close(self) -> None:
        """Does nothing: no connection is held open."""

    async def _call(self, request: Request) -> Response | StreamResponse:
        if self._holds is not None and request.method != "GET":
            with only_while(self._holds):
                return await self._answered(request)
        return await self._answered(request)

    async def _answered(self, request: Request) -> Response | StreamResponse:
        answer = self._handler(request)
        made = answer if isinstance(answer, (Response, StreamResponse, Upgrade)) else await answer
        if isinstance(made, Upgrade):
            raise BadRequest(f"there is no connection in one process to upgrade to {made.protocol}")
        return made


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class Pipe:
    """A sink and its reading end: a watch that never leaves the process."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self.broken = False
        """True if the stream was aborted before its end."""
        self._callbacks: list[Callable[[], None]] = []
        self._drained: Callable[[], None] | None = None
        self._size = 0

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending(self) -> int:
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
        self.broken = self.broken or not self._closed
        self.close()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._drained = callback

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
                if self._drained is not None:
                    self._drained()
                await self._ready.wait()
        finally:
            self.close()
