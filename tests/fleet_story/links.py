"""Links that can be cut: one TCP proxy each, all in one thread with its own event loop. They count bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from tests.serving import HANG

T = TypeVar("T")


class Link:
    """From whoever dials `port` to a port of this machine; TLS passes through."""

    def __init__(self, target: int) -> None:
        self.port = self.carried = 0
        """Bytes, both ways."""
        self.target, self._whole = target, True
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def set_whole(self, whole: bool) -> None:
        self._whole = whole
        for writer in () if whole else self._open:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            if self._whole:
                far_reader, far = await asyncio.open_connection("127.0.0.1", self.target)
                ends.append(far)
                self._open.update(ends)
                copies = [asyncio.create_task(self._copy(*way)) for way in ((reader, far), (far_reader, writer))]
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
                for copy in copies:
                    copy.cancel()
                await asyncio.gather(*copies, return_exceptions=True)
        except OSError:
            pass
        finally:
            for end in ends:
                self._open.discard(end)
                end.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.carried += len(data)
            writer.write(data)
            await writer.drain()


class Links:
    """Closed with the block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._made: list[tuple[Link, asyncio.Server]] = []

    def __enter__(self) -> Links:
        self._thread.start()
        return self

    def make(self, target: int) -> Link:
        link = Link(target)
        self._made.append((link, self._call(link.start())))
        return link

    def cut(self, *links: Link) -> None:
        for link in links:
            self._call(link.set_whole(False))

    def restore(self, *links: Link) -> None:
        for link in links:
            self._call(link.set_whole(True))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG)

    async def _close(self) -> None:
        for link, server in self._made:
            server.close()
            await link.set_whole(False)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), HANG)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG)
        self._loop.close()
