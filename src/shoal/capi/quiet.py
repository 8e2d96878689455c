"""What may wait for a quiet moment: counts, and words of a status that only people read.

While objects are written one after the other, every one of them would change the counts of those above it. They are
looked at when no write has been under way for a moment, or when nothing more has come for the same key; words wait
longer. This is the event loop's own time, not the clock's: nothing that is decided depends on it.
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
        """When it came up last, in that order, and since when it waits."""
        self._words: dict[Item, float] = {}
        """Since when, in that order."""
        self._due: set[Item] = set()
        """Words whose moment has come."""
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
        """As the queue's own `add`, in a quiet moment."""
        now = self._awake()
        _, since = self._counts.pop((queue, key), (now, now))
        if now - since < LONGEST_SECONDS:
            self._counts[queue, key] = now, since
        else:
            queue.add(key)

    def is_due(self, queue: WorkQueue[Any], key: Hashable) -> bool:
        """Whether the moment for words has come; if not, the key comes back then."""
        item = queue, key
        if item in self._due:
            self._due.discard(item)
            return True
        self._words.setdefault(item, self._awake())
        return False

    def forget(self, queue: WorkQueue[Any], key: Hashable) -> None:
        """The words were said together with something else."""
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
    """The first ones, up to one that has not waited long enough."""
    found = []
    for item, moment in waiting:
        if not calm and moment > before:
            break
        found.append(item)
    return found
