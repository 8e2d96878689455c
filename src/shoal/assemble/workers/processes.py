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

from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import HUB_KUBECONFIG, make_private_directory, write_private_file
from shoal.assemble.workers.join_tokens import ca_cert_hash
from shoal.clock import Clock
from shoal.fleet.workerprocesses.decide import failures_after
from shoal.fleet.workerprocesses.interface import ProcessState
from shoal.kinds.limits import DEFAULT_LIMITS, ClusterLimits, format_limits
from shoal.objects.egress import EgressSettings
from shoal.telemetry import logs, tracing

OWNER_FILE, LOG_FILE = "worker-uid", "worker.log"
STOP_TIMEOUT_SECONDS = 15.0
"""A process that does not end after SIGTERM is killed after this time."""
EXIT_DENIED = 4
"""The exit code of a worker that the hub does not accept (any more)."""
LOG_TAIL_BYTES, MAX_LINE_LENGTH = 4096, 300
NO_REASON_PREFIXES = ("hint: ", "the worker's own API is at ")
"""Prefixes of lines that do not say why the process has ended."""


@dataclass(frozen=True, slots=True)
class SupervisingHub:
    """The hub, as its worker processes connect to it."""

    url: str
    authority: str
    """PEM."""
    create_join_token: Callable[[str], Awaitable[str]]
    """Creates a join token for the worker of that name."""
    idle_seconds: float
    store_encryption: StoreSettings = field(default_factory=StoreSettings)
    """How the stores of the workers are encrypted."""
    cluster_limits: ClusterLimits = DEFAULT_LIMITS
    """Limits of hosted clusters that do not specify theirs."""
    egress: EgressSettings = field(default_factory=EgressSettings)
    """Which addresses objects of their clusters may name."""


class _WorkerChild:
    def __init__(self, process: asyncio.subprocess.Process, pipe: int, since: float) -> None:
        self.process, self.pipe, self.since = process, pipe, since
        self.is_stopping = False


class WorkerProcesses:
    def __init__(self, root: Path, hub: SupervisingHub, clock: Clock) -> None:
        """`root` holds the data directories."""
        self._root, self._hub, self._clock = root, hub, clock
        make_private_directory(root)
        self.id = _place_id(root)
        for left in root.glob(".removed-*"):
            shutil.rmtree(left, ignore_errors=True)
        self._children: dict[str, _WorkerChild] = {}
        self._wait_tasks: dict[str, asyncio.Task[None]] = {}
        self._last_exits: dict[str, tuple[int, ProcessState]] = {}
        """Exit code and state of processes that ended by themselves."""
        self._handler: Callable[[str], None] = lambda _: None

    def add_exit_handler(self, handler: Callable[[str], None]) -> None:
        self._handler = handler

    def state_of(self, name: str) -> ProcessState:
        directory = self._root / name
        child = self._children.get(name)
        _, last = self._last_exits.get(name, (0, ProcessState()))
        where, owner = str(directory), _owner_uid(directory)
        if child is not None:
            return ProcessState(child.process.pid, child.since, last.failures, last.exit_message, where, owner)
        return ProcessState(0, last.changed_at, last.failures, last.exit_message, where, owner, _lock_holder(directory))

    async def start(self, name: str, uid: str) -> None:
        began = self._clock.monotonic()
        code, _ = self._last_exits.get(name, (0, None))
        try:
            directory = self._ensure_directory(name, uid)
            token = ""
            if code == EXIT_DENIED or not (directory / HUB_KUBECONFIG).exists():
                token = await self._hub.create_join_token(name)
            self._children[name] = child = await self._spawn(name, directory, token)
        except OSError as error:
            self._record_exit(name, began, 1, f"cannot start the process: {error}")
            return
        self._wait_tasks[name] = asyncio.create_task(self._wait(name, child), name=f"worker process {name}")

    def _ensure_directory(self, name: str, uid: str) -> Path:
        """Creates the directory atomically, so that its owner is always known."""
        directory = self._root / name
        if _owner_uid(directory) is None:
            staging = self._root / f".new-{name}"
            staging.mkdir(mode=0o700, exist_ok=True)
            write_private_file(staging / OWNER_FILE, uid + "\n")
            staging.rename(directory)
        return directory

    async def _spawn(self, name: str, directory: Path, token: str) -> _WorkerChild:
        hub = self._hub
        # Only its own flags configure it: SHOAL_ variables of the hub are not passed on.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL_")}
        if token:
            environment["SHOAL_JOIN_TOKEN"] = token
        log = directory / LOG_FILE
        if log.exists():
            log.replace(directory / f"{LOG_FILE}.1")
        command = [
            *(sys.executable, "-P", "-m", "shoal.cli.main", "worker", "--supervised", "--name", name),
            *("--hub", hub.url, "--ca-hash", ca_cert_hash(hub.authority)),
            *("--data-dir", str(directory), "--idle-seconds", str(hub.idle_seconds)),
            *("--cluster-limits", format_limits(hub.cluster_limits)),
            *_encryption_flags(hub.store_encryption),
            *_egress_flags(hub.egress),
            *_telemetry_flags(),
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
        return _WorkerChild(process, pipe, self._clock.monotonic())

    async def _wait(self, name: str, child: _WorkerChild) -> None:
        code = await child.process.wait()
        os.close(child.pipe)
        del self._children[name], self._wait_tasks[name]
        if child.is_stopping:
            self._last_exits.pop(name, None)
        else:
            line = _last_line(self._root / name / LOG_FILE)
            self._record_exit(name, child.since, code, f"{_exit_text(code)}{f': {line}' if line else ''}")
        self._handler(name)

    def _record_exit(self, name: str, began: float, code: int, reason: str) -> None:
        now = self._clock.monotonic()
        before = self._last_exits[name][1].failures if name in self._last_exits else 0
        self._last_exits[name] = (
            code,
            ProcessState(changed_at=now, failures=failures_after(before, now - began), exit_message=reason),
        )

    async def stop(self, name: str) -> None:
        child, waiting = self._children.get(name), self._wait_tasks.get(name)
        if child is None or waiting is None:
            return
        child.is_stopping = True
        with suppress(ProcessLookupError):  # it has just ended
            child.process.terminate()
            await asyncio.wait([waiting], timeout=STOP_TIMEOUT_SECONDS)
            if not waiting.done():
                child.process.kill()
        await asyncio.wait([waiting])

    async def stop_all(self) -> None:
        self._handler = lambda _: None
        await asyncio.gather(*(self.stop(name) for name in list(self._children)))

    async def remove(self, name: str) -> None:
        trash = self._root / f".removed-{name}-{secrets.token_hex(4)}"
        (self._root / name).rename(trash)
        self._last_exits.pop(name, None)
        await asyncio.to_thread(shutil.rmtree, trash)


def _encryption_flags(store: StoreSettings) -> list[str]:
    if not store.encryption_key_file:
        return []
    kinds = ",".join(store.encrypted_kinds) or "none"
    return ["--encryption-key-file", str(Path(store.encryption_key_file).absolute()), "--encrypted-kinds", kinds]


def _egress_flags(egress: EgressSettings) -> list[str]:
    return ["--allow-egress", ",".join(map(str, egress.allowed))] if egress.allowed else []


def _telemetry_flags() -> list[str]:
    """As for this process, but in text form: the last log line is reported when it ends."""
    traces = ["--tracing-endpoint", tracing.endpoint] if tracing.endpoint else []
    return ["--log-level", logs.current_level(), *traces]


def _place_id(root: Path) -> str:
    """Returns the ID that belongs to the directory, as long as it exists."""
    file = root / ".place"
    if not file.exists():
        write_private_file(file, secrets.token_hex(8) + "\n")
    return file.read_text().strip()


def _owner_uid(directory: Path) -> str | None:
    if not directory.exists():
        return None
    file = directory / OWNER_FILE
    return file.read_text().strip() if file.exists() else ""


def _lock_holder(directory: Path) -> int:
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


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code} ({signal.strsignal(-code)})"


def _last_line(log: Path) -> str:
    """Returns the last line of the log that says why it has ended."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    candidates = [line.strip() for line in lines if line.strip() and not line.startswith(NO_REASON_PREFIXES)]
    return candidates[-1][:MAX_LINE_LENGTH] if candidates else ""
