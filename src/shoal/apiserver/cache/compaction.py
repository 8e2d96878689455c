"""Keeps a bounded window of history: five minutes, or less when events exceed the memory bounds."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from shoal.apiserver.cache.cacher import WatchCache
from shoal.clock import Clock
from shoal.objects.errors import StoreError
from shoal.store.interface import Store

log = logging.getLogger("shoal.apiserver")


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    seconds: float = 300.0
    max_events: int = 100_000
    max_bytes: int = 128 * 1024 * 1024
    interval_seconds: float = 10.0
    """Seconds between two compactions."""


class HistoryCompactor:
    def __init__(self, store: Store, cache: WatchCache, clock: Clock, window: HistoryWindow) -> None:
        self._store, self._cache, self._clock, self._window = store, cache, clock, window
        self._revisions: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._window.interval_seconds)
            try:
                await self.compact()
            except StoreError as error:
                log.warning("cannot compact history; retrying: %s", error)

    async def compact(self) -> None:
        now = self._clock.monotonic()
        self._revisions.append((now, self._cache.revision))
        until = self._cache.revision_to_trim(self._window.max_events, self._window.max_bytes)
        while self._revisions and self._revisions[0][0] <= now - self._window.seconds:
            until = max(until, self._revisions.popleft()[1])
        if until > self._cache.oldest_revision:
            self._cache.trim(until)
            await self._store.compact(until)
