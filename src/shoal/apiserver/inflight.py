"""How many requests may be under way at once; the next one is told to come back (429)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from shoal.objects.errors import TooManyRequests

MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
MOST_MUTATING = 1000
MOST_READING = 2000


class Limiter:
    def __init__(self, mutating: int = MOST_MUTATING, reading: int = MOST_READING) -> None:
        self._most = {True: mutating, False: reading}
        self.now = {True: 0, False: 0}

    def enter(self, *, mutating: bool) -> Ticket:
        if self.now[mutating] >= self._most[mutating]:
            raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
        return Ticket(self, mutating)


class Ticket:
    """A place among the requests under way: given back at the end of the block unless kept for later."""

    __slots__ = ("_kept", "_limiter", "_mutating")

    def __init__(self, limiter: Limiter, mutating: bool) -> None:
        self._limiter, self._mutating, self._kept = limiter, mutating, False

    def __enter__(self) -> Ticket:
        self._limiter.now[self._mutating] += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            self._release()

    def keep(self) -> Callable[[], None]:
        self._kept = True
        return self._release

    def _release(self) -> None:
        self._limiter.now[self._mutating] -= 1
