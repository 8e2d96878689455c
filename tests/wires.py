"""A TCP proxy of one link, which can be cut and counts what it carries. TLS passes through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.fleet.bus.settings import BusSettings


class Wire:
    def __init__(self, target: int) -> None:
        self.target = target
        self._open: set[asyncio.StreamWriter] = set()
        self._whole = True
        self.port = 0
        self.carried = self.sent = 0
        """Bytes towards the one who dials, and from it."""

    @property
    def bus(self) -> BusSettings:
        return BusSettings((f"nats://127.0.0.1:{self.port}",))

    def cut(self) -> None:
        self._whole = False
        for writer in self._open:
            writer.transport.abort()

    def restore(self) -> None:
        self._whole = True

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target)
            self._open |= {writer, far}
            done, rest = await asyncio.wait(
                [asyncio.create_task(self._up(reader, far)), asyncio.create_task(self._down(far_reader, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in rest:
                task.cancel()
            await asyncio.gather(*done, *rest, return_exceptions=True)
        except OSError:
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    self._open.discard(each)
                    each.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.sent += len(data)
            writer.write(data)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.carried += len(data)
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def wire(target: int) -> AsyncIterator[Wire]:
    made = Wire(target)
    server = await asyncio.start_server(made.pass_on, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.cut()
