"""Keeps a bounded window of history: five minutes, or less when events exceed the bounds of memory or of the store.

The store is compacted for all clusters together: its history serves a server that restarts, and other servers.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from shoal.apiserver.cache.cacher import WatchCache
from shoal.clock import Clock
from shoal.objects.errors import StoreError
from shoal.store.interface import Store

log = logging.getLogger("shoal.apiserver")

STEPS = 8
"""The store is compacted at once when an eighth of its bound was written since the last time."""


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    seconds: float = 300.0
    max_events: int = 100_000
    max_bytes: int = 128 * 1024 * 1024
    """In memory, for all logical clusters together."""
    max_stored_bytes: int = 256 * 1024 * 1024
    """Bytes of writes after which a state is dropped from the history of the store."""
    interval_seconds: float = 10.0
    """Seconds between two compactions."""
    poll_seconds: float = 0.5
    """Seconds between two looks at what was written."""


class _Sample(NamedTuple):
    time: float
    revision: int
    written_bytes: int


class HistoryCompactor:
    def __init__(self, store: Store, cache: WatchCache, clock: Clock, window: HistoryWindow) -> None:
        self._store, self._cache, self._clock, self._window = store, cache, clock, window
        self._samples: deque[_Sample] = deque()
        self._compacted = 0
        """The revision up to which the store was compacted."""

    async def run(self) -> None:
        while True:
            await self._wait()
            try:
                await self.compact()
            except StoreError as error:
                log.warning("cannot compact history; retrying: %s", error)

    async def _wait(self) -> None:
        """Returns after the interval, or as soon as much was written."""
        written, waited = self._cache.written_bytes, 0.0
        step = self._window.max_stored_bytes // STEPS
        while waited < self._window.interval_seconds and self._cache.written_bytes < written + step:
            await self._clock.sleep(self._window.poll_seconds)
            waited += self._window.poll_seconds

    async def compact(self) -> None:
        now, cache, window = self._clock.monotonic(), self._cache, self._window
        self._samples.append(_Sample(now, cache.revision, cache.written_bytes))
        expired = stored = 0
        for sample in self._samples:
            if sample.time <= now - window.seconds:
                expired = stored = sample.revision
            elif sample.written_bytes <= cache.written_bytes - window.max_stored_bytes:
                stored = sample.revision
            else:
                break
        while self._samples and self._samples[0].revision <= stored and self._samples[0].time <= now - window.seconds:
            self._samples.popleft()
        if expired > cache.history.oldest_revision:
            cache.history.trim(expired)
            cache.drop_unused()
        cache.history.fit(window.max_events, window.max_bytes)
        if stored > self._compacted:
            await self._store.compact(stored)
            self._compacted = stored
