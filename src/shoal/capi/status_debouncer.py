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

from shoal.runtime.workqueue import WorkQueue

IDLE_SECONDS = 0.01
DEBOUNCE_SECONDS = 0.15
MAX_DELAY_SECONDS = 5.0
QueuedKey = tuple[WorkQueue[Any], Hashable]


class StatusDebouncer:
    def __init__(self) -> None:
        self._writes_in_flight, self._last_write = 0, 0.0
        self._pending_keys: dict[QueuedKey, tuple[float, float]] = {}
        """Last change, in that order, and when it was first added."""
        self._pending_statuses: dict[QueuedKey, float] = {}
        """When it was added, in that order."""
        self._due_statuses: set[QueuedKey] = set()
        """Statuses whose text may be written now."""
        self._timer: asyncio.Handle | None = None

    @contextmanager
    def track_write(self) -> Iterator[None]:
        self._writes_in_flight += 1
        try:
            yield
        finally:
            self._writes_in_flight -= 1
            self._last_write = asyncio.get_running_loop().time()

    def add(self, queue: WorkQueue[Any], key: Hashable) -> None:
        """Like the queue's own `add`, debounced."""
        now = self._ensure_timer()
        _, since = self._pending_keys.pop((queue, key), (now, now))
        if now - since < MAX_DELAY_SECONDS:
            self._pending_keys[queue, key] = now, since
        else:
            queue.add(key)

    def is_due(self, queue: WorkQueue[Any], key: Hashable) -> bool:
        """Reports whether status text may be written now. If not, the key is enqueued when it may."""
        item = queue, key
        if item in self._due_statuses:
            self._due_statuses.discard(item)
            return True
        self._pending_statuses.setdefault(item, self._ensure_timer())
        return False

    def forget(self, queue: WorkQueue[Any], key: Hashable) -> None:
        """Drops the deferred text, which was written together with another change."""
        self._pending_statuses.pop((queue, key), None)
        self._due_statuses.discard((queue, key))

    def _ensure_timer(self) -> float:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_soon(self._flush)
        return loop.time()

    def _flush(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        idle = not self._writes_in_flight and now - self._last_write >= IDLE_SECONDS
        for item in _due_items(
            ((item, last) for item, (last, _) in self._pending_keys.items()), now - DEBOUNCE_SECONDS, idle
        ):
            del self._pending_keys[item]
            item[0].add(item[1])
        for item in _due_items(iter(self._pending_statuses.items()), now - MAX_DELAY_SECONDS, idle):
            del self._pending_statuses[item]
            self._due_statuses.add(item)
            item[0].add(item[1])
        if self._pending_keys or self._pending_statuses:
            self._timer = loop.call_later(IDLE_SECONDS, self._flush)


def _due_items(pending: Iterator[tuple[QueuedKey, float]], deadline: float, idle: bool) -> list[QueuedKey]:
    """The first items, up to one that has not waited long enough."""
    due = []
    for item, moment in pending:
        if not idle and moment > deadline:
            break
        due.append(item)
    return due
