"""Main module of the solver process: requests on standard input, responses on standard output.

Each message is a length and a pickle, exchanged only with the parent process. The process ends when its input is
closed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.solver.report import OptimizationReport

LENGTH = struct.Struct("!Q")
_NICENESS = 5
"""The API server has priority over a cheaper plan."""


def improve(
    inputs: SchedulingInput, plan: Results, iterations: int, seconds: float
) -> tuple[Results, OptimizationReport]:
    """Runs for about `seconds` at most and returns the best plan found."""
    # Imported late: the parent process needs neither numpy nor HiGHS.
    from shoal.provision.solver.optimize import improve as improved  # noqa: PLC0415

    deadline = time.monotonic() + seconds
    return improved(inputs, plan, iterations=iterations, stop=lambda: time.monotonic() >= deadline)


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    while head := source.read(LENGTH.size):
        name, arguments = pickle.loads(source.read(LENGTH.unpack(head)[0]))
        try:
            answer: tuple[bool, Any] = (True, _resolve(name)(*arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


def _resolve(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    target: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return target


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # Output of libraries must not mix with the responses.
    os.dup2(2, 1)
    os.nice(_NICENESS)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
