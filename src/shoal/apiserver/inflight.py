"""Limits the number of writes that wait for the store. Further writes get 429.

Reads are answered synchronously from memory, so there is never more than one of them.
"""

from __future__ import annotations

from types import TracebackType

from shoal.objects.errors import TooManyRequests

MOST = 1000


class InFlight:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.now = 0

    def __enter__(self) -> None:
        if self.now >= self._most:
            raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
        self.now += 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.now -= 1
