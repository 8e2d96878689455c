"""Runs work in small steps to its end, as the scheduler of long reads does over several turns of the loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def result(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: T = done.value
            return found
