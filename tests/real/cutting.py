"""A TCP proxy that breaks connections: both halves of one at once, in the middle of whatever they carry."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.serving import HANG

SEED = 20261


class CuttingProxy:
    """Every connection lives for a random time, up to `longest` seconds; TLS passes through."""

    def __init__(self, target: int, longest: float) -> None:
        self.cuts = 0
        self.port = 0
        self._target = target
        self._longest = longest
        self._random = random.Random(SEED)
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        assert self._started.wait(HANG)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.timeout(self._random.uniform(0.1, self._longest)):
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        except TimeoutError:
            self.cuts += 1
        except OSError:
            pass
        finally:
            writer.transport.abort()
            far_writer.transport.abort()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(HANG)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@contextmanager
def cutting(target: int, longest: float = 1.5) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(target, longest)
    try:
        yield proxy
    finally:
        proxy.stop()
