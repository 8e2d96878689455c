"""A token bucket rate limiter."""

from __future__ import annotations

from shoal.clock import Clock


class Pace:
    """Lets the first `burst` calls pass at once, then `per_second` calls a second."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock, self._gap, self._credit = clock, 1 / per_second, burst / per_second
        self._due = clock.monotonic() - self._credit

    async def turn(self) -> None:
        now = self._clock.monotonic()
        self._due = max(self._due, now - self._credit) + self._gap
        if self._due > now:
            await self._clock.sleep(self._due - now)
