"""Who writes may have to hold something meanwhile, a lease: it is looked at in the moment of the write, at every try.

A process that was paused goes on in the middle of what it did, and does not know how long ago it began. The condition
goes with the context of a request, so that it gets from the loop that writes to the store, and nowhere else.
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
    """What is written in this context is written only while that is so."""
    token = _holds.set(holds)
    try:
        yield
    finally:
        _holds.reset(token)


def condition() -> Holds | None:
    """Of the present context."""
    return _holds.get()
