"""Time as an argument.

Everything that waits or takes a timestamp takes a `Clock`; nothing else in the tree reads the wall clock. `FakeClock`
is for tests: it moves only by `step`, and wakes exactly the sleepers that are due.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back, for intervals."""

    def since_boot(self) -> float:
        """Like `monotonic`, but also counts while the machine is suspended, if the system supports that. For leases."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    # Called several times per request, so without a Python frame.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def since_boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FakeClock:
    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._sequence = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def since_boot(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return await asyncio.sleep(0)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._sequence), future))
        return await future

    def step(self, seconds: float) -> None:
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)


def rfc3339(seconds: float) -> str:
    """Formats like metav1.Time: whole seconds, UTC, `Z`."""
    return _format_second(int(seconds))


@lru_cache(maxsize=16)
def _format_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Formats like metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
