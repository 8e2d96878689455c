"""`shoal worker` processes that a hub runs, each with its own data directory below the hub's.

The standard input of a process is a pipe that nobody writes to: when this process ends, however that happens, the pipe
closes and the worker ends too. Its output goes to `worker.log` beside its data, truncated at each start. It joins like
any worker, with a token for its name, which is in its environment and in no process list.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shoal.assemble.datadir import HUB_KUBECONFIG, write_private
from shoal.assemble.jointokens import authority_hash
from shoal.assemble.store_settings import StoreSettings
from shoal.clock import Clock
from shoal.fleet.processes.decide import failures_after
from shoal.fleet.processes.interface import Here
from shoal.telemetry import logs, tracing

OWNER, LOG = "worker-uid", "worker.log"
STOP_SECONDS = 15.0
"""A process that does not end after SIGTERM is killed after this time."""
DENIED = 4
"""The exit code of a worker that the hub does not accept (any more)."""
KEPT_BYTES, LONGEST_LINE = 4096, 300
NO_REASON = ("hint: ", "the worker's own API is at ")
"""Prefixes of lines that do not say why the process has ended."""


@dataclass(frozen=True, slots=True)
class HubHere:
    """The hub, as its worker processes connect to it."""

    url: str
    authority: str
    """PEM."""
    token: Callable[[str], Awaitable[str]]
    """Creates a join token for the worker of that name."""
    idle_seconds: float
    store: StoreSettings = field(default_factory=StoreSettings)
    """How the stores of the workers are encrypted."""


class _Child:
    def __init__(self, process: asyncio.subprocess.Process, pipe: int, since: float) -> None:
        self.process, self.pipe, self.since = process, pipe, since
        self.stopping = False


class WorkerProcesses:
    def __init__(self, root: Path, hub: HubHere, clock: Clock) -> None:
        """`root` holds the data directories."""
        self._root, self._hub, self._clock = root, hub, clock
        root.mkdir(mode=0o700, exist_ok=True)
        self.id = _place(root)
        for left in root.glob(".removed-*"):
            shutil.rmtree(left, ignore_errors=True)
        self._children: dict[str, _Child] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, tuple[int, Here]] = {}
        """Exit code and state of processes that ended by themselves."""
        self._told: Callable[[str], None] = lambda _: None

    def listen(self, told: Callable[[str], None]) -> None:
        self._told = told

    def look(self, name: str) -> Here:
        directory = self._root / name
        child = self._children.get(name)
        _, last = self._ended.get(name, (0, Here()))
        where, owner = str(directory), _owner(directory)
        if child is not None:
            return Here(child.process.pid, child.since, last.failures, last.ended, where, owner)
        return Here(0, last.since, last.failures, last.ended, where, owner, _occupant(directory))

    async def start(self, name: str, uid: str) -> None:
        began = self._clock.monotonic()
        code, _ = self._ended.get(name, (0, None))
        try:
            directory = self._made(name, uid)
            token = ""
            if code == DENIED or not (directory / HUB_KUBECONFIG).exists():
                token = await self._hub.token(name)
            self._children[name] = child = await self._spawn(name, directory, token)
        except OSError as error:
            self._note(name, began, 1, f"it cannot be started: {error}")
            return
        self._waiting[name] = asyncio.create_task(self._wait(name, child), name=f"worker process {name}")

    def _made(self, name: str, uid: str) -> Path:
        """Creates the directory atomically, so that its owner is always known."""
        directory = self._root / name
        if _owner(directory) is None:
            making = self._root / f".new-{name}"
            making.mkdir(mode=0o700, exist_ok=True)
            write_private(making / OWNER, uid + "\n")
            making.rename(directory)
        return directory

    async def _spawn(self, name: str, directory: Path, token: str) -> _Child:
        hub = self._hub
        # Only its own flags configure it: SHOAL_ variables of the hub are not passed on.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL_")}
        if token:
            environment["SHOAL_JOIN_TOKEN"] = token
        log = directory / LOG
        if log.exists():
            log.replace(directory / f"{LOG}.1")
        command = [
            *(sys.executable, "-P", "-m", "shoal.cli.main", "worker", "--supervised", "--name", name),
            *("--hub", hub.url, "--ca-hash", authority_hash(hub.authority)),
            *("--data-dir", str(directory), "--idle-seconds", str(hub.idle_seconds)),
            *_sealing(hub.store),
            *_telemetry(),
        ]
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        read, pipe = os.pipe()  # no other child inherits an end of it: Python's descriptors are not inheritable
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=read, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(read)
            os.close(output)
        return _Child(process, pipe, self._clock.monotonic())

    async def _wait(self, name: str, child: _Child) -> None:
        code = await child.process.wait()
        os.close(child.pipe)
        del self._children[name], self._waiting[name]
        if child.stopping:
            self._ended.pop(name, None)
        else:
            line = _last_line(self._root / name / LOG)
            self._note(name, child.since, code, f"{_exit(code)}{f': {line}' if line else ''}")
        self._told(name)

    def _note(self, name: str, began: float, code: int, how: str) -> None:
        now = self._clock.monotonic()
        before = self._ended[name][1].failures if name in self._ended else 0
        self._ended[name] = code, Here(since=now, failures=failures_after(before, now - began), ended=how)

    async def stop(self, name: str) -> None:
        child, waiting = self._children.get(name), self._waiting.get(name)
        if child is None or waiting is None:
            return
        child.stopping = True
        with suppress(ProcessLookupError):  # it has just ended
            child.process.terminate()
            await asyncio.wait([waiting], timeout=STOP_SECONDS)
            if not waiting.done():
                child.process.kill()
        await asyncio.wait([waiting])

    async def stop_all(self) -> None:
        self._told = lambda _: None
        await asyncio.gather(*(self.stop(name) for name in list(self._children)))

    async def remove(self, name: str) -> None:
        gone = self._root / f".removed-{name}-{secrets.token_hex(4)}"
        (self._root / name).rename(gone)
        self._ended.pop(name, None)
        await asyncio.to_thread(shutil.rmtree, gone)


def _sealing(store: StoreSettings) -> list[str]:
    if not store.encryption_key_file:
        return []
    kinds = ",".join(store.encrypted_kinds) or "none"
    return ["--encryption-key-file", str(Path(store.encryption_key_file).absolute()), "--encrypted-kinds", kinds]


def _telemetry() -> list[str]:
    """As for this process, but in text form: the last log line is reported when it ends."""
    traces = ["--tracing-endpoint", tracing.endpoint] if tracing.endpoint else []
    return ["--log-level", logs.level(), *traces]


def _place(root: Path) -> str:
    """Returns the ID that belongs to the directory, as long as it exists."""
    file = root / ".place"
    if not file.exists():
        write_private(file, secrets.token_hex(8) + "\n")
    return file.read_text().strip()


def _owner(directory: Path) -> str | None:
    if not directory.exists():
        return None
    file = directory / OWNER
    return file.read_text().strip() if file.exists() else ""


def _occupant(directory: Path) -> int:
    """Returns the pid that holds the lock of the data directory; 0: none."""
    try:
        lock = os.open(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(lock, 32, 0).decode().strip()
        return int(text) if text.isdecimal() else -1
    finally:
        os.close(lock)
    return 0


def _exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by signal {-code} ({signal.strsignal(-code)})"


def _last_line(log: Path) -> str:
    """Returns the last line of the log that says why it has ended."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - KEPT_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    told = [line.strip() for line in lines if line.strip() and not line.startswith(NO_REASON)]
    return told[-1][:LONGEST_LINE] if told else ""
