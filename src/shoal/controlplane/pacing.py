"""Throttles keys in proportion to the number of objects a reconcile reads, so that many changes cause one reconcile."""

from __future__ import annotations

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.runtime.queue import WorkQueue

MANY = 200
REST_PER_OBJECT = 20e-6


class Pace:
    def __init__(self, clock: Clock, queue: WorkQueue[Key]) -> None:
        self._clock, self._queue = clock, queue
        self._rests: dict[Key, float] = {}

    def wake(self, key: Key) -> None:
        left = self._rests.get(key, 0.0) - self._clock.monotonic()
        if left > 0:
            self._queue.add_after(key, left)
        else:
            self._queue.add(key)

    def worked(self, key: Key, objects: int) -> None:
        """Records that a reconcile of the key read that many objects."""
        if objects > MANY:
            self._rests[key] = self._clock.monotonic() + objects * REST_PER_OBJECT
        else:
            self._rests.pop(key, None)

    def forget(self, key: Key) -> None:
        self._rests.pop(key, None)
