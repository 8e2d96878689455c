"""Keyed locks. A lock exists only while it is held or awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Place = tuple[str, str]
"""Logical cluster, namespace."""


class Locks:
    def __init__(self) -> None:
        self._locks: dict[Place, asyncio.Lock] = {}
        self._waiting: dict[Place, int] = {}

    @asynccontextmanager
    async def at(self, place: Place) -> AsyncIterator[None]:
        lock = self._locks.setdefault(place, asyncio.Lock())
        self._waiting[place] = self._waiting.get(place, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place], self._locks[place]
