"""A delay queue: enqueues each key at its due time. One sleeping task serves all keys; it waits for the earliest."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, Generic, TypeVar

from shoal.clock import Clock

K = TypeVar("K", bound=Hashable)


class DelayQueue(Generic[K]):
    def __init__(self, clock: Clock, enqueue: Callable[[K], None]) -> None:
        self._clock, self._enqueue = clock, enqueue
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = count()
        self._wakeup = asyncio.Event()

    def schedule(self, key: K, due: float | None) -> None:
        """Replaces the due time of the key. None cancels it."""
        if due is None:
            self._due.pop(key, None)
        elif self._due.get(key) != due:
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._sequence), key))
            if self._heap[0][2] == key:
                self._wakeup.set()

    async def run(self) -> None:
        while True:
            self._enqueue_due()
            self._wakeup.clear()
            waiters: list[asyncio.Task[Any]] = [asyncio.create_task(self._wakeup.wait())]
            if self._heap:
                waiters.append(asyncio.create_task(self._sleep_until(self._heap[0][0])))
            try:
                await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiters:
                    task.cancel()

    async def _sleep_until(self, due: float) -> None:
        await self._clock.sleep(due - self._clock.now())

    def _enqueue_due(self) -> None:
        now = self._clock.now()
        while self._heap and (self._heap[0][0] <= now or self._due.get(self._heap[0][2]) != self._heap[0][0]):
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self._enqueue(key)
