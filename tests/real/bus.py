"""A real nats-server."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.servers import free_port
from shoal.fleet.bus.settings import BusSettings
from tests.real.building import program
from tests.serving import HANG
from tests.wires import Wire as Wire
from tests.wires import wire as wire

NATS = program("nats-server")


class Nats:
    """Its storage is a file, so that it can be killed and started again."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._directory, self._flags = directory, flags
        self.port = free_port()
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
