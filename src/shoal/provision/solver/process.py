"""Child process for long computations, so that the event loop is not blocked.

The process is started on first use, and restarted once if it dies during a call. Calls run one after another. It ends
with `run`, which runs beside the controllers, or with `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import Any, TypeVar

from shoal.objects.errors import ShoalError
from shoal.provision.solver.worker import LENGTH

log = logging.getLogger(__name__)

T = TypeVar("T")

ITERATIONS = 300
SECONDS = 2.0
"""Default time limit for one plan."""
_TIMEOUT_MARGIN = 10.0
"""Seconds beyond the requested time before a call times out. Reaching it means a defect or an overloaded machine."""
_SINGLE_THREAD_ENV = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class SolverFailed(ShoalError):
    """The call has no result: the process died twice, timed out, or the function raised."""


class SolverProcess:
    name = "solver"

    def __init__(self, niceness: int = 5) -> None:
        """`niceness`: by default, the API server has priority over what is computed."""
        self._niceness = niceness
        self._process: Process | None = None
        self._lock = asyncio.Lock()
        self._preparation: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Waits until cancelled, then ends the process."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def call(self, function: Callable[..., T], *arguments: Any, seconds: float) -> T:
        """Calls a module-level function in the process. Arguments and result must be picklable. `seconds` is the time
        the function should need; a much longer call is killed.
        """
        payload = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        async with self._lock:
            for _ in range(2):
                data = await self._request(payload, seconds + _TIMEOUT_MARGIN)
                if data is not None:
                    break
            else:
                raise SolverFailed("the solver process died")
        succeeded, answer = pickle.loads(data)
        if not succeeded:
            log.warning("%s failed: %s", function.__qualname__, answer)
            raise SolverFailed(str(answer).strip().splitlines()[-1])
        result: T = answer
        return result

    def prepare(self, function: Callable[[], None]) -> None:
        """Starts the process and calls the function there, so that a later call is faster. Does not wait for it."""
        if self._process is None and (self._preparation is None or self._preparation.done()):
            self._preparation = asyncio.create_task(self._prepare(function))

    async def _prepare(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(SolverFailed):  # the call itself will report it
            await self.call(function, seconds=_TIMEOUT_MARGIN)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _request(self, payload: bytes, seconds: float) -> bytes | None:
        """Returns None if the process died. A cancelled call kills the process."""
        done = False
        try:
            async with asyncio.timeout(seconds):
                process = await self._ensure_started()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(LENGTH.pack(len(payload)) + payload)
                await process.stdin.drain()
                head = await process.stdout.readexactly(LENGTH.size)
                data = await process.stdout.readexactly(LENGTH.unpack(head)[0])
            done = True
            return data
        except TimeoutError:
            raise SolverFailed(f"the solver did not answer within {seconds:g} seconds") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        finally:
            if not done:
                await asyncio.shield(self.close())

    async def _ensure_started(self) -> Process:
        if self._process is None:
            command = (sys.executable, "-P", "-m", "shoal.provision.solver.worker", str(self._niceness))
            environment = {
                key: value for key, value in os.environ.items() if not key.startswith("SHOAL_")
            } | _SINGLE_THREAD_ENV
            self._process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment)
        return self._process
