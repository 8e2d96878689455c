"""Debounces status updates: replica counts, and status text that only people read.

While objects are written one after another, every write would change the counts of their owners. Keys are enqueued when
no write has been in flight for a moment, or when a key has had no further changes; text waits longer. The event loop's
time is used, not the clock's: no decision depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from shoal.runtime.queue import WorkQueue

CALM_SECONDS = 0.01
STEADY_SECONDS = 0.15
LONGEST_SECONDS = 5.0
Item = tuple[WorkQueue[Any], Hashable]


class Quiet:
    def __init__(self) -> None:
        self._writes, self._last = 0, 0.0
        self._counts: dict[Item, tuple[float, float]] = {}
        """Last change, in that order, and when it was first added."""
        self._words: dict[Item, float] = {}
        """When it was added, in that order."""
        self._due: set[Item] = set()
        """Statuses whose text may be written now."""
        self._timer: asyncio.Handle | None = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._writes += 1
        try:
            yield
        finally:
            self._writes -= 1
            self._last = asyncio.get_running_loop().time()

    def add(self, queue: WorkQueue[Any], key: Hashable) -> None:
        """Like the queue's own `add`, debounced."""
        now = self._awake()
        _, since = self._counts.pop((queue, key), (now, now))
        if now - since < LONGEST_SECONDS:
            self._counts[queue, key] = now, since
        else:
            queue.add(key)

    def is_due(self, queue: WorkQueue[Any], key: Hashable) -> bool:
        """Reports whether status text may be written now. If not, the key is enqueued when it may."""
        item = queue, key
        if item in self._due:
            self._due.discard(item)
            return True
        self._words.setdefault(item, self._awake())
        return False

    def forget(self, queue: WorkQueue[Any], key: Hashable) -> None:
        """Drops the deferred text, which was written together with another change."""
        self._words.pop((queue, key), None)
        self._due.discard((queue, key))

    def _awake(self) -> float:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_soon(self._look)
        return loop.time()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        calm = not self._writes and now - self._last >= CALM_SECONDS
        for item in _ripe(((item, last) for item, (last, _) in self._counts.items()), now - STEADY_SECONDS, calm):
            del self._counts[item]
            item[0].add(item[1])
        for item in _ripe(iter(self._words.items()), now - LONGEST_SECONDS, calm):
            del self._words[item]
            self._due.add(item)
            item[0].add(item[1])
        self._timer = loop.call_later(CALM_SECONDS, self._look) if self._counts or self._words else None


def _ripe(waiting: Iterator[tuple[Item, float]], before: float, calm: bool) -> list[Item]:
    """The first items, up to one that has not waited long enough."""
    found = []
    for item, moment in waiting:
        if not calm and moment > before:
            break
        found.append(item)
    return found
