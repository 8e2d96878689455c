"""A token bucket rate limiter."""

from __future__ import annotations

from shoal.clock import Clock


class TokenBucket:
    """Lets the first `burst` calls pass at once, then `per_second` calls a second."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock, self._interval, self._credit = clock, 1 / per_second, burst / per_second
        self._next_slot = clock.monotonic() - self._credit

    async def wait(self) -> None:
        now = self._clock.monotonic()
        self._next_slot = max(self._next_slot, now - self._credit) + self._interval
        if self._next_slot > now:
            await self._clock.sleep(self._next_slot - now)
