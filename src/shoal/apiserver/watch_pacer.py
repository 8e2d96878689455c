"""Lets watches that are behind catch up, a little in each turn of the event loop.

A watch is behind while it has to send more than its client has room for: initial events, or events that came faster
than the client reads. It keeps no copy of them and reads them from the cache when the client has room. When the cache
no longer has them, the watch ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import Protocol

from shoal.objects.wire import Sink

TURN_SECONDS = 0.005
"""Seconds of one event loop turn that are given to watches that are behind."""
SWEEP_SECONDS = 5.0


class LaggingWatch(Protocol):
    @property
    def sink(self) -> Sink | None: ...

    def catch_up(self) -> bool:
        """Sends a few events. Returns False if nothing more can be sent for now."""

    def end_if_expired(self) -> None:
        """Ends the watch if the cache no longer has what it would have to send."""


class WatchPacer:
    def __init__(self) -> None:
        self._behind: dict[LaggingWatch, None] = {}
        self._ready: deque[LaggingWatch] = deque()
        self._queued: set[LaggingWatch] = set()
        self._run_scheduled = self._sweep_scheduled = False
        self.expired_total = 0
        """Number of watches that ended because they were too far behind."""

    @property
    def behind_count(self) -> int:
        return len(self._behind)

    def is_sending_to(self, sink: Sink) -> bool:
        """True if more will be written to the sink as soon as there is room."""
        return any(watch.sink is sink for watch in self._behind)

    def add(self, watch: LaggingWatch) -> None:
        self._behind[watch] = None
        self.resume(watch)
        if not self._sweep_scheduled:
            self._sweep_scheduled = True
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def remove(self, watch: LaggingWatch) -> None:
        self._behind.pop(watch, None)

    def resume(self, watch: LaggingWatch) -> None:
        """The client has room again."""
        if watch in self._behind and watch not in self._queued:
            self._queued.add(watch)
            self._ready.append(watch)
            self._schedule()

    def _schedule(self) -> None:
        if not self._run_scheduled:
            self._run_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._run_scheduled = False
        began = perf_counter()
        while self._ready and perf_counter() - began < TURN_SECONDS:
            watch = self._ready.popleft()
            if watch in self._behind and watch.catch_up():
                self._ready.append(watch)
            else:
                self._queued.discard(watch)
        if self._ready:
            self._schedule()

    def _sweep(self) -> None:
        for watch in list(self._behind):
            watch.end_if_expired()
        self._sweep_scheduled = bool(self._behind)
        if self._sweep_scheduled:
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
