"""Keyed locks. A lock exists only while it is held or awaited."""

from __future__ import annotations

import asyncio

LockKey = tuple[str, str]
"""Logical cluster, namespace."""


class KeyedLocks:
    def __init__(self) -> None:
        self._locks: dict[LockKey, asyncio.Lock] = {}
        self._users: dict[LockKey, int] = {}
        """Number of holders and waiters."""

    async def acquire(self, key: LockKey) -> None:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            await lock.acquire()
        except BaseException:
            self._forget(key)
            raise

    def release(self, key: LockKey) -> None:
        self._locks[key].release()
        self._forget(key)

    def _forget(self, key: LockKey) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key], self._locks[key]
