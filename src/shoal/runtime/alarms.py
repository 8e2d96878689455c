"""A delay queue: enqueues each key at its due time. One sleeping task serves all keys; it waits for the earliest."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, Generic, TypeVar

from shoal.clock import Clock

K = TypeVar("K", bound=Hashable)


class Alarms(Generic[K]):
    def __init__(self, clock: Clock, ring: Callable[[K], None]) -> None:
        self._clock, self._ring = clock, ring
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = count()
        self._earlier = asyncio.Event()

    def set(self, key: K, at: float | None) -> None:
        """Replaces the due time of the key. None cancels it."""
        if at is None:
            self._due.pop(key, None)
        elif self._due.get(key) != at:
            self._due[key] = at
            heapq.heappush(self._heap, (at, next(self._order), key))
            if self._heap[0][2] == key:
                self._earlier.set()

    async def run(self) -> None:
        while True:
            self._ring_due()
            self._earlier.clear()
            waking: list[asyncio.Task[Any]] = [asyncio.create_task(self._earlier.wait())]
            if self._heap:
                waking.append(asyncio.create_task(self._sleep_until(self._heap[0][0])))
            try:
                await asyncio.wait(waking, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waking:
                    task.cancel()

    async def _sleep_until(self, at: float) -> None:
        await self._clock.sleep(at - self._clock.now())

    def _ring_due(self) -> None:
        now = self._clock.now()
        while self._heap and (self._heap[0][0] <= now or self._due.get(self._heap[0][2]) != self._heap[0][0]):
            at, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                del self._due[key]
                self._ring(key)
