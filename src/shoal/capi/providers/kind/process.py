"""Runs a program without a shell and without standard input. A cancelled process is terminated with its children."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

LineHandler = Callable[[str], None]
"""Called with each line of standard error."""

MAX_BYTES = 1 << 20
CHUNK = 1 << 16
TERMINATE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


async def run_process(
    program: str,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    on_line: LineHandler,
    timeout_seconds: float,
) -> tuple[int, str]:
    """Returns the exit code and standard output. Raises TimeoutError, OSError and SubprocessError."""
    async with asyncio.timeout(timeout_seconds), _process(program, arguments, environment) as process:
        output, _ = await asyncio.gather(_read_stdout(process), _read_stderr(process, on_line))
        return await process.wait(), output


@asynccontextmanager
async def _process(
    program: str, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process leads its own process group, which is terminated when the block is left early."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        # A pipe to a process that has ended already is a closed transport, which fails in other ways than a pipe.
        stdin=asyncio.subprocess.DEVNULL,
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


async def _read_stdout(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(CHUNK):
        output += chunk[: MAX_BYTES - len(output)]
    return output.decode(errors="replace")


async def _read_stderr(process: asyncio.subprocess.Process, on_line: LineHandler) -> None:
    assert process.stderr is not None
    rest = b""
    while chunk := await process.stderr.read(CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[-CHUNK:]
        for line in lines:
            _report_line(line, on_line)
    _report_line(rest, on_line)


def _report_line(line: bytes, on_line: LineHandler) -> None:
    text = line.decode(errors="replace").strip()
    if text:
        on_line(text)
