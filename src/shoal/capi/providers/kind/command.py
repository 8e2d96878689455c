"""The interface to kind, and its implementation as a subprocess.

No shell and no kubeconfig of the user: kind gets a private file each time. Only part of the output is kept. A cancelled
process is terminated with all its children.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, Protocol

from shoal.capi.providers.kind.errors import (
    COMMAND_FAILED,
    KindError,
    command_error,
    engine_not_found,
    kind_not_found,
    timeout_error,
)

Object = dict[str, Any]
ProgressHandler = Callable[[str], None]
"""Called with each line that kind prints."""

ENGINES = ("docker", "podman", "nerdctl")
MAX_LINES, MAX_BYTES = 60, 1 << 20
CHUNK = 1 << 16
TERMINATE_SECONDS = 5.0
MACHINE_ID = Path("/etc/machine-id")
_PR_SET_PDEATHSIG = 1


class KindRunner(Protocol):
    """All methods raise KindError when kind or the container engine fails."""

    host_id: str
    """Identifies the host of its clusters; empty: unknown."""

    async def clusters(self) -> frozenset[str]: ...

    async def create(self, name: str, config: Object, progress: ProgressHandler) -> None: ...

    async def delete(self, name: str, progress: ProgressHandler) -> None:
        """A missing cluster is no error."""

    async def kubeconfig(self, name: str) -> str: ...


class KindCommand:
    """`program` is a path, or a name found in PATH. `engine` is docker, podman or nerdctl; empty:
    $KIND_EXPERIMENTAL_PROVIDER, else the engine kind detects.
    """

    def __init__(
        self,
        program: str = "kind",
        engine: str = "",
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = 60.0,
        create_timeout: float = 1800.0,
    ) -> None:
        self._program, self._timeout, self._create_timeout = program, timeout, create_timeout
        self._environment = dict(os.environ if environment is None else environment)
        if engine:
            self._environment["KIND_EXPERIMENTAL_PROVIDER"] = engine
        self.host_id = self._environment.get("DOCKER_HOST") or _machine_id()

    async def clusters(self) -> frozenset[str]:
        output = await self._run("get", "clusters")
        return frozenset(line.strip() for line in output.splitlines() if line.strip())

    async def create(self, name: str, config: Object, progress: ProgressHandler) -> None:
        arguments = ("create", "cluster", "--name", name, "--config", "-")
        await self._run(
            *arguments, stdin=json.dumps(config).encode(), progress=progress, timeout_seconds=self._create_timeout
        )

    async def delete(self, name: str, progress: ProgressHandler) -> None:
        await self._run("delete", "cluster", "--name", name, progress=progress)

    async def kubeconfig(self, name: str) -> str:
        return await self._run("get", "kubeconfig", "--name", name)

    async def _run(
        self, *arguments: str, stdin: bytes = b"", progress: ProgressHandler | None = None, timeout_seconds: float = 0.0
    ) -> str:
        """Returns standard output."""
        program, command, timeout_seconds = (
            self._find_program(),
            " ".join(arguments[:2]),
            timeout_seconds or self._timeout,
        )
        lines: deque[str] = deque(maxlen=MAX_LINES)

        def on_line(line: str) -> None:
            lines.append(line)
            if progress is not None:
                progress(line)

        try:
            with tempfile.TemporaryDirectory(prefix="shoal-kind-") as private:
                environment = {**self._environment, "KUBECONFIG": str(Path(private, "kubeconfig"))}
                async with asyncio.timeout(timeout_seconds), _process(program, arguments, environment) as process:
                    output, _ = await asyncio.gather(_read_stdout(process, stdin), _read_stderr(process, on_line))
                    code = await process.wait()
        except TimeoutError:
            raise timeout_error(command, timeout_seconds) from None
        except (OSError, SubprocessError) as error:
            raise KindError(COMMAND_FAILED, f"kind {command}: {error}") from None
        if code != 0:
            raise command_error(command, lines)
        return output

    def _find_program(self) -> str:
        path = self._environment.get("PATH", "")
        program = shutil.which(self._program, path=path)
        if program is None:
            raise kind_not_found(self._program)
        engine_name = self._environment.get("KIND_EXPERIMENTAL_PROVIDER", "")
        engines = (engine_name,) if engine_name else ENGINES
        if not any(shutil.which(engine, path=path) for engine in engines):
            raise engine_not_found(engines)
        return program


def _machine_id() -> str:
    try:
        return MACHINE_ID.read_text().strip()
    except OSError:
        return ""


@asynccontextmanager
async def _process(
    program: str, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process leads its own process group, which is terminated when the block is left early."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
        preexec_fn=_set_parent_death_signal if _LIBC is not None else None,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            await _terminate(process)


async def _terminate(process: asyncio.subprocess.Process) -> None:
    """Children may ignore the first signal and outlive the process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), TERMINATE_SECONDS)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _set_parent_death_signal() -> None:
    """A kind process that outlived a killed Shoal would create a cluster that nothing tracks."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _read_stdout(process: asyncio.subprocess.Process, stdin: bytes) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()
    output = bytearray()
    while chunk := await process.stdout.read(CHUNK):
        output += chunk[: MAX_BYTES - len(output)]
    return output.decode(errors="replace")


async def _read_stderr(process: asyncio.subprocess.Process, on_line: ProgressHandler) -> None:
    """Reads standard error, where kind prints messages for people, line by line."""
    assert process.stderr is not None
    rest = b""
    while chunk := await process.stderr.read(CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[-CHUNK:]
        for line in lines:
            _report_line(line, on_line)
    _report_line(rest, on_line)


def _report_line(line: bytes, on_line: ProgressHandler) -> None:
    text = line.decode(errors="replace").strip()
    if text:
        on_line(text)
