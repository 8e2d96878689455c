"""The servers under test: started, asked and stopped, each by the process ids this module started.

`Server` is what they share; `Shoal` is here, `KubeApiserver` in `bench.peer`, Shoal on etcd in `bench.etcd`.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import orjson

from bench.processes import resident_mb, tree

START_SECONDS = 60.0
STOP_SECONDS = 20.0
_DICE = random.Random()
"""Seeded by nobody: tests that run beside each other choose other ports."""


class BenchmarkFailed(Exception):
    """A benchmark that cannot go on; the message is for a person."""


class BenchServer(ABC):
    """One kind of server in a directory of its own; may be started again on the data it has."""

    name = ""
    host = "127.0.0.1"
    port = 0
    token = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By program, the server itself first."""

    @abstractmethod
    def start(self) -> float:
        """Runs it and waits for readiness; the seconds from exec to the first 200 from /readyz."""

    def launch(self, program: str, command: list[str], environ: dict[str, str] | None = None) -> None:
        """In a session of its own: Ctrl-C reaches this program only, which then stops what it started."""
        with (self.directory / f"{program}.log").open("ab") as log:
            self.processes[program] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
            )

    def stop(self) -> None:
        """One after the other, politely; a Ctrl-C meanwhile ends the politeness, not the stopping."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()
                process.wait()
        self.processes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def pids(self) -> dict[str, list[int]]:
        return {program: tree(process.pid) for program, process in self.processes.items()}

    def resident(self) -> dict[str, float]:
        return {program: resident_mb(pids) for program, pids in self.pids().items()}

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            for program, process in self.processes.items():
                if process.poll() is not None:
                    raise BenchmarkFailed(f"{program} exited with {process.returncode}: {self._last_words(program)}")
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{self.name} was not ready after {START_SECONDS:.0f} s")
            time.sleep(0.005)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/readyz", timeout=2)[0] == 200
        return False

    def _last_words(self, program: str) -> str:
        lines = (self.directory / f"{program}.log").read_text(errors="replace").splitlines()
        return " / ".join(lines[-3:])

    def ask(self, method: str, path: str, body: Any = None, timeout: float = 60) -> tuple[int, Any]:
        """One request on a connection of its own; for preparation, never measured."""
        # The two servers sign their certificates in different ways; who they are is not what is measured.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, None if body is None else orjson.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, orjson.loads(content) if is_json else content

    def must(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.ask(method, path, body)
        if status >= 300:
            raise BenchmarkFailed(f"{self.name}: {method} {path}: {status} {answer}")
        return answer


class Shoal(BenchServer):
    name = "Shoal"
    command: tuple[str, ...] = ("up", "--workers", "0")

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def environ(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}

    def start(self) -> float:
        self.port = self.port or free_port()
        command = [sys.executable, "-c", "from shoal.cli.main import main; main()", *self.command]
        command += ["--data-dir", str(self.data), "--listen", f"{self.host}:{self.port}"]
        began = time.perf_counter()
        self.launch("shoal", command, self.environ())
        self.wait_ready()
        took = time.perf_counter() - began
        self.token = (self.data / "admin-token").read_text().strip()
        return took


def free_port() -> int:
    """Below those the kernel gives to connections: it would give one to somebody else before it is listened at."""
    while True:
        port = _DICE.randrange(16_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
