"""A work queue like client-go's: a key is queued once, is never processed by two workers at a time, and is retried with
exponential backoff.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from shoal.clock import Clock
from shoal.runtime.metrics import queue_meter
from shoal.telemetry import tracing

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 60.0


class WorkQueue(Generic[K]):
    def __init__(self, clock: Clock, name: str = "unnamed") -> None:
        """`name` is the `name` label of the queue's metrics."""
        self._clock = clock
        self._meter = queue_meter(name, self)
        self._waiting: deque[K] = deque()
        self._known: dict[K, float] = {}
        """Queued keys, with the time each was added."""
        self._working: dict[K, float] = {}
        """Keys being processed, with their start times."""
        self._again: set[K] = set()
        self._failures: dict[K, tuple[int, float]] = {}
        """Number of failures of a key, and the end of its current backoff."""
        self._ready = asyncio.Event()
        self._traces: dict[K, tracing.Context] = {}
        self._later: dict[K, tuple[float, asyncio.Task[None]]] = {}
        """Delayed keys: due time and timer task. Of several requests for a key the earliest counts."""

    def add(self, key: K) -> None:
        if tracing.tracer is not None:
            self.follow(key, tracing.following())
        if key in self._working:
            self._again.add(key)
        elif key not in self._known:
            self._meter.adds += 1
            self._known[key] = self._clock.monotonic()
            self._waiting.append(key)
            self._ready.set()

    def follow(self, key: K, context: tracing.Context | None) -> None:
        """Continues that trace when the key is processed."""
        if context is not None:
            self._traces[key] = context

    def trace(self, key: K) -> tracing.Context | None:
        """Removes and returns the trace of a key that was taken, if that trace is still recorded."""
        found = self._traces.pop(key, None)
        return found if found is not None and tracing.is_followed(found) else None

    def add_after(self, key: K, seconds: float) -> None:
        self._add_at(key, self._clock.monotonic() + seconds)

    def _add_at(self, key: K, due: float) -> None:
        async def wait() -> None:
            await self._clock.sleep(due - self._clock.monotonic())
            del self._later[key]
            self.add(key)

        waiting = self._later.get(key)
        if waiting is not None:
            if waiting[0] <= due:
                return
            waiting[1].cancel()
        self._later[key] = due, asyncio.get_running_loop().create_task(wait())

    async def take(self) -> K:
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        key = self._waiting.popleft()
        now = self._working[key] = self._clock.monotonic()
        self._meter.waited.observe(now - self._known.pop(key))
        return key

    def done(self, key: K, later: float | None = None) -> None:
        """`requeue_after`: the key is added again that many seconds after it was taken, because that is when
        `reconcile` read the clock.
        """
        taken = self._working.pop(key)
        self._meter.worked.observe(self._clock.monotonic() - taken)
        self._failures.pop(key, None)
        self._return(key)
        if later is not None:
            self._add_at(key, taken + later)

    def failed(self, key: K) -> float:
        """Ends the processing of the key, requeues it after a backoff and returns that delay. A failure during a
        running backoff does not extend it.
        """
        now, taken = self._clock.monotonic(), self._working.pop(key)
        self._meter.worked.observe(now - taken)
        self._meter.retries += 1
        count, until = self._failures.get(key, (0, now))
        pause = until - now
        if pause <= 0:
            pause = min(FIRST_PAUSE * float(2 ** min(count, 20)), LONGEST_PAUSE)
            self._failures[key] = count + 1, now + pause
        if key in self._again:
            self._return(key)
        else:
            self.add_after(key, pause)
        return pause

    def _return(self, key: K) -> None:
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def depth(self) -> int:
        return len(self._waiting)

    def under_way(self) -> tuple[float, float]:
        """Seconds of all unfinished work, and of the oldest."""
        now = self._clock.monotonic()
        took = [now - taken for taken in self._working.values()]
        return sum(took), max(took, default=0.0)

    def close(self) -> None:
        for _, task in self._later.values():
            task.cancel()
        self._later.clear()
