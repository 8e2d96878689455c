"""Fences writes with a lease: the lease is checked at the moment of the write, at every attempt.

A paused process resumes in the middle of its work and does not know how long it was paused. The check travels in the
context of a request, so it reaches the store from the controller that writes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shoal.store.interface import StoreUnavailable

LeaseCheck = Callable[[], bool]
_lease_check: ContextVar[LeaseCheck | None] = ContextVar("holds", default=None)


class FencedError(StoreUnavailable):
    def __init__(self) -> None:
        super().__init__("this server lost its lease: another server runs the controllers")


@contextmanager
def fenced_by(lease_check: LeaseCheck) -> Iterator[None]:
    """Writes in this context succeed only while the check returns True."""
    token = _lease_check.set(lease_check)
    try:
        yield
    finally:
        _lease_check.reset(token)


def current_lease_check() -> LeaseCheck | None:
    """Returns the lease check of the current context."""
    return _lease_check.get()
