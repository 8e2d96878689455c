"""Limits the number of writes that wait for the store. Further writes get 429.

Reads are answered synchronously from memory, so there is never more than one of them.
"""

from __future__ import annotations

from types import TracebackType

from shoal.objects.errors import TooManyRequests

MAX_IN_FLIGHT = 1000


class InFlightLimiter:
    def __init__(self, limit: int = MAX_IN_FLIGHT) -> None:
        self._limit = limit
        self.count = 0

    def __enter__(self) -> None:
        if self.count >= self._limit:
            raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
        self.count += 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.count -= 1
