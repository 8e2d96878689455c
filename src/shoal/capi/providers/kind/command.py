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
from typing import Any, Protocol

from shoal.capi.providers.kind.answers import FAILED, Problem, engine_missing, failure, kind_missing, timed_out

Object = dict[str, Any]
Progress = Callable[[str], None]
"""Called with each line that kind prints."""

ENGINES = ("docker", "podman", "nerdctl")
KEPT_LINES, KEPT_BYTES = 60, 1 << 20
CHUNK = 1 << 16
END_SECONDS = 5.0
MACHINE_ID = Path("/etc/machine-id")
_PR_SET_PDEATHSIG = 1


class Kind(Protocol):
    """All methods raise KindError when kind or the container engine fails."""

    machine: str
    """Identifies the host of its clusters; empty: unknown."""

    async def clusters(self) -> frozenset[str]: ...

    async def create(self, name: str, config: Object, progress: Progress) -> None: ...

    async def delete(self, name: str, progress: Progress) -> None:
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
        seconds: float = 60.0,
        create_seconds: float = 1800.0,
    ) -> None:
        self._program, self._seconds, self._create_seconds = program, seconds, create_seconds
        self._environment = dict(os.environ if environment is None else environment)
        if engine:
            self._environment["KIND_EXPERIMENTAL_PROVIDER"] = engine
        self.machine = self._environment.get("DOCKER_HOST") or _machine_id()

    async def clusters(self) -> frozenset[str]:
        answer = await self._run("get", "clusters")
        return frozenset(line.strip() for line in answer.splitlines() if line.strip())

    async def create(self, name: str, config: Object, progress: Progress) -> None:
        arguments = ("create", "cluster", "--name", name, "--config", "-")
        await self._run(*arguments, given=json.dumps(config).encode(), progress=progress, seconds=self._create_seconds)

    async def delete(self, name: str, progress: Progress) -> None:
        await self._run("delete", "cluster", "--name", name, progress=progress)

    async def kubeconfig(self, name: str) -> str:
        return await self._run("get", "kubeconfig", "--name", name)

    async def _run(
        self, *arguments: str, given: bytes = b"", progress: Progress | None = None, seconds: float = 0.0
    ) -> str:
        """Returns standard output."""
        program, what, seconds = self._found(), " ".join(arguments[:2]), seconds or self._seconds
        said: deque[str] = deque(maxlen=KEPT_LINES)

        def heard(line: str) -> None:
            said.append(line)
            if progress is not None:
                progress(line)

        try:
            with tempfile.TemporaryDirectory(prefix="shoal-kind-") as private:
                environment = {**self._environment, "KUBECONFIG": str(Path(private, "kubeconfig"))}
                async with asyncio.timeout(seconds), _process(program, arguments, environment) as process:
                    answer, _ = await asyncio.gather(_answer(process, given), _listen(process, heard))
                    code = await process.wait()
        except TimeoutError:
            raise timed_out(what, seconds) from None
        except OSError as error:
            raise Problem(FAILED, f"kind {what}: {error}") from None
        if code != 0:
            raise failure(what, said)
        return answer

    def _found(self) -> str:
        path = self._environment.get("PATH", "")
        program = shutil.which(self._program, path=path)
        if program is None:
            raise kind_missing(self._program)
        wanted = self._environment.get("KIND_EXPERIMENTAL_PROVIDER", "")
        engines = (wanted,) if wanted else ENGINES
        if not any(shutil.which(engine, path=path) for engine in engines):
            raise engine_missing(engines)
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
        preexec_fn=_end_with_parent if _LIBC is not None else None,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Children may ignore the first signal and outlive the process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), END_SECONDS)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """A kind process that outlived a killed Shoal would create a cluster that nothing tracks."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _answer(process: asyncio.subprocess.Process, given: bytes) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    found = bytearray()
    while piece := await process.stdout.read(CHUNK):
        found += piece[: KEPT_BYTES - len(found)]
    return found.decode(errors="replace")


async def _listen(process: asyncio.subprocess.Process, heard: Progress) -> None:
    """Reads standard error, where kind prints messages for people, line by line."""
    assert process.stderr is not None
    rest = b""
    while piece := await process.stderr.read(CHUNK):
        *lines, rest = (rest + piece).split(b"\n")
        rest = rest[-CHUNK:]
        for line in lines:
            _tell(line, heard)
    _tell(rest, heard)


def _tell(line: bytes, heard: Progress) -> None:
    text = line.decode(errors="replace").strip()
    if text:
        heard(text)
