"""Pauses of an evaluation: its caller gets the turn every few milliseconds, and may end it by an exception.

The interpreter pauses by cost. Functions that take long in one call pause by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

PauseFunc = Callable[[], None]

PAUSE_COST = 2_000
"""Cost between two pauses: one or two milliseconds."""


def no_pause() -> None:
    """The caller has nothing else to do."""


current_pause: ContextVar[PauseFunc] = ContextVar("current_pause", default=no_pause)
"""The pause of the evaluation under way."""
