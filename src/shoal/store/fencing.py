"""Fences writes with a lease: the lease is checked at the moment of the write, at every attempt.

A paused process resumes in the middle of its work and does not know how long it was paused. The check travels in the
context of a request, so it reaches the store from the controller that writes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shoal.store.interface import StoreUnavailable

Holds = Callable[[], bool]
_holds: ContextVar[Holds | None] = ContextVar("holds", default=None)


class Fenced(StoreUnavailable):
    def __init__(self) -> None:
        super().__init__("this server does not hold its lease any more: another one goes on with the loops")


@contextmanager
def only_while(holds: Holds) -> Iterator[None]:
    """Writes in this context succeed only while the check returns True."""
    token = _holds.set(holds)
    try:
        yield
    finally:
        _holds.reset(token)


def condition() -> Holds | None:
    """Returns the lease check of the current context."""
    return _holds.get()
