"""The process in which plans are worked out: a question comes on standard input, its answer goes to standard output.

Both are a length and a pickle; they come from and go to the process that started this one, and nobody else. It ends
when its input does.
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

from shoal.provision.simulation.model import Plan, Question
from shoal.provision.solver.report import Report

LENGTH = struct.Struct("!Q")
_NICENESS = 5
"""Whoever waits for the API server goes before whoever waits for a cheaper plan."""


def improve(question: Question, plan: Plan, iterations: int, seconds: float) -> tuple[Plan, Report]:
    """For at most about so long: what is found by then is the answer."""
    # Late: whoever only sends questions needs neither numpy nor HiGHS.
    from shoal.provision.solver.adapting import improve as improved  # noqa: PLC0415

    end = time.monotonic() + seconds
    return improved(question, plan, iterations=iterations, stop=lambda: time.monotonic() >= end)


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    while head := source.read(LENGTH.size):
        name, arguments = pickle.loads(source.read(LENGTH.unpack(head)[0]))
        try:
            answer: tuple[bool, Any] = (True, _named(name)(*arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


def _named(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not get among the answers.
    os.dup2(2, 1)
    os.nice(_NICENESS)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
