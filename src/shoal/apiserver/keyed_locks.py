"""Keyed locks. A lock exists only while it is held or awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LockKey = tuple[str, str]
"""Logical cluster, namespace."""


class KeyedLocks:
    def __init__(self) -> None:
        self._locks: dict[LockKey, asyncio.Lock] = {}
        self._waiters: dict[LockKey, int] = {}

    @asynccontextmanager
    async def lock(self, key: LockKey) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiters[key] = self._waiters.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiters[key] -= 1
            if not self._waiters[key]:
                del self._waiters[key], self._locks[key]
