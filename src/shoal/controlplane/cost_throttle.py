"""Throttles keys in proportion to the number of objects a reconcile reads, so that many changes cause one reconcile."""

from __future__ import annotations

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.runtime.workqueue import WorkQueue

FREE_OBJECTS = 200
SECONDS_PER_OBJECT = 20e-6


class CostThrottle:
    def __init__(self, clock: Clock, queue: WorkQueue[Key]) -> None:
        self._clock, self._queue = clock, queue
        self._paused_until: dict[Key, float] = {}

    def enqueue(self, key: Key) -> None:
        remaining = self._paused_until.get(key, 0.0) - self._clock.monotonic()
        if remaining > 0:
            self._queue.add_after(key, remaining)
        else:
            self._queue.add(key)

    def record_cost(self, key: Key, objects: int) -> None:
        """Records that a reconcile of the key read that many objects."""
        if objects > FREE_OBJECTS:
            self._paused_until[key] = self._clock.monotonic() + objects * SECONDS_PER_OBJECT
        else:
            self._paused_until.pop(key, None)

    def forget(self, key: Key) -> None:
        self._paused_until.pop(key, None)
