"""A work queue like client-go's: a key is queued once, is never processed by two workers at a time, and is retried with
exponential backoff.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from shoal.clock import Clock
from shoal.runtime.metrics import register_queue
from shoal.telemetry import tracing

K = TypeVar("K", bound=Hashable)

BASE_DELAY, MAX_DELAY = 0.05, 60.0


class WorkQueue(Generic[K]):
    def __init__(self, clock: Clock, name: str = "unnamed") -> None:
        """`name` is the `name` label of the queue's metrics."""
        self._clock = clock
        self._metrics = register_queue(name, self)
        self._queue: deque[K] = deque()
        self._queued_at: dict[K, float] = {}
        """Queued keys, with the time each was added."""
        self._processing: dict[K, float] = {}
        """Keys being processed, with their start times."""
        self._dirty: set[K] = set()
        self._failures: dict[K, tuple[int, float]] = {}
        """Number of failures of a key, and the end of its current backoff."""
        self._ready = asyncio.Event()
        self._traces: dict[K, tracing.SpanContext] = {}
        self._delayed: dict[K, tuple[float, asyncio.Task[None]]] = {}
        """Delayed keys: due time and timer task. Of several requests for a key the earliest counts."""

    def add(self, key: K) -> None:
        if tracing.tracer is not None:
            self.set_trace(key, tracing.active_context())
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._queued_at:
            self._metrics.adds += 1
            self._queued_at[key] = self._clock.monotonic()
            self._queue.append(key)
            self._ready.set()

    def set_trace(self, key: K, context: tracing.SpanContext | None) -> None:
        """Continues that trace when the key is processed."""
        if context is not None:
            self._traces[key] = context

    def pop_trace(self, key: K) -> tracing.SpanContext | None:
        """Removes and returns the trace of a key that was taken, if that trace is still recorded."""
        context = self._traces.pop(key, None)
        return context if context is not None and tracing.is_active(context) else None

    def add_after(self, key: K, seconds: float) -> None:
        self._add_at(key, self._clock.monotonic() + seconds)

    def _add_at(self, key: K, due: float) -> None:
        async def wait() -> None:
            await self._clock.sleep(due - self._clock.monotonic())
            del self._delayed[key]
            self.add(key)

        scheduled = self._delayed.get(key)
        if scheduled is not None:
            if scheduled[0] <= due:
                return
            scheduled[1].cancel()
        self._delayed[key] = due, asyncio.get_running_loop().create_task(wait())

    async def get(self) -> K:
        while not self._queue:
            self._ready.clear()
            await self._ready.wait()
        key = self._queue.popleft()
        now = self._processing[key] = self._clock.monotonic()
        self._metrics.queue_duration.observe(now - self._queued_at.pop(key))
        return key

    def done(self, key: K, requeue_after: float | None = None) -> None:
        """`requeue_after`: the key is added again that many seconds after it was taken, because that is when
        `reconcile` read the clock.
        """
        started = self._processing.pop(key)
        self._metrics.work_duration.observe(self._clock.monotonic() - started)
        self._failures.pop(key, None)
        self._readd_if_dirty(key)
        if requeue_after is not None:
            self._add_at(key, started + requeue_after)

    def retry(self, key: K) -> float:
        """Ends the processing of the key, requeues it after a backoff and returns that delay. A failure during a
        running backoff does not extend it.
        """
        now, started = self._clock.monotonic(), self._processing.pop(key)
        self._metrics.work_duration.observe(now - started)
        self._metrics.retries += 1
        count, until = self._failures.get(key, (0, now))
        delay = until - now
        if delay <= 0:
            delay = min(BASE_DELAY * float(2 ** min(count, 20)), MAX_DELAY)
            self._failures[key] = count + 1, now + delay
        if key in self._dirty:
            self._readd_if_dirty(key)
        else:
            self.add_after(key, delay)
        return delay

    def _readd_if_dirty(self, key: K) -> None:
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def depth(self) -> int:
        return len(self._queue)

    def unfinished_work(self) -> tuple[float, float]:
        """Seconds of all unfinished work, and of the oldest."""
        now = self._clock.monotonic()
        durations = [now - started for started in self._processing.values()]
        return sum(durations), max(durations, default=0.0)

    def close(self) -> None:
        """Ends all timers. Keys that were delayed or being processed are queued, so that a controller that runs again
        takes them up.
        """
        for _, task in self._delayed.values():
            task.cancel()
        interrupted = [*self._processing, *self._delayed]
        for pending in (self._delayed, self._processing, self._dirty):
            pending.clear()
        for key in interrupted:
            self.add(key)
