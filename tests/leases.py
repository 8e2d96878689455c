"""A Lease whose holder was paused: it acts as if it held it, until it looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Stale:
    """Stands where a `Lease` would; `valid` says what a look at it finds."""

    valid = False
    looks = 0
    holds = True

    def __init__(self, *_: object) -> None:
        type(self).looks, type(self).valid = 0, False

    def is_valid(self) -> bool:
        type(self).looks += 1
        return self.valid

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()
