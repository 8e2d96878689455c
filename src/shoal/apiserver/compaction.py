"""Keeps a bounded window of history: five minutes, or less when events exceed the memory bounds."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from shoal.apiserver.cache import Cache
from shoal.clock import Clock
from shoal.objects.errors import StoreError
from shoal.store.interface import Store

log = logging.getLogger("shoal.apiserver")


@dataclass(frozen=True, slots=True)
class Window:
    seconds: float = 300.0
    changes: int = 100_000
    bytes: int = 128 * 1024 * 1024
    every: float = 10.0
    """Seconds between two compactions."""


class Compactor:
    def __init__(self, store: Store, cache: Cache, clock: Clock, window: Window) -> None:
        self._store, self._cache, self._clock, self._window = store, cache, clock, window
        self._seen: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._window.every)
            try:
                await self.step()
            except StoreError as error:
                log.warning("history was not compacted, will try again: %s", error)

    async def step(self) -> None:
        now = self._clock.monotonic()
        self._seen.append((now, self._cache.revision))
        until = self._cache.window(self._window.changes, self._window.bytes)
        while self._seen and self._seen[0][0] <= now - self._window.seconds:
            until = max(until, self._seen.popleft()[1])
        if until > self._cache.oldest:
            self._cache.trim(until)
            await self._store.compact(until)
