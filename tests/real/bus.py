"""A real nats-server, and links to it that can be cut."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from shoal.fleet.bus.settings import BusSettings
from tests.real.building import program
from tests.serving import HANG

NATS = program("nats-server")


class Nats:
    """Its storage is a file, so that it can be killed and started again."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._directory, self._flags = directory, flags
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def bus(self) -> BusSettings:
        return BusSettings((self.url,))

    def start(self) -> None:
        assert NATS is not None
        where = [str(NATS), "-a", "127.0.0.1", "-p", str(self.port), "-l", str(self._directory / "nats.log")]
        self._process = subprocess.Popen([*where, *self._flags])
        end = time.monotonic() + HANG
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self._process.poll() is None, "nats-server ended"
            assert time.monotonic() < end
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(HANG)
            self._process = None


@contextmanager
def nats_server(directory: Path, *flags: str) -> Iterator[Nats]:
    """With JetStream, unless there are flags that say something else."""
    running = Nats(directory, *(flags or ("-js", "-sd", str(directory / "jetstream"))))
    try:
        yield running
    finally:
        running.kill()


class Wire:
    """A TCP proxy of one link. It counts what it carries towards the one who dials."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: set[asyncio.StreamWriter] = set()
        self._whole = True
        self.port = self.carried = 0

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
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._target)
            self._open |= {writer, far}
            done, rest = await asyncio.wait(
                [asyncio.create_task(self._copy(reader, far)), asyncio.create_task(self._copy(far_reader, writer, 1))],
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

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: int = 0) -> None:
        while data := await reader.read(65536):
            self.carried += counted * len(data)
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
