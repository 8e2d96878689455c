"""Store decorator that forwards every call. Base class of decorators that change or observe some of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.objects.errors import StoreError
from shoal.store.interface import Advance, Deliver, KeyValue, Store, Subscription, Write


class PassingStore:
    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        return self._store.put(key, value, expected)

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        return self._store.delete(key, expected)

    def together(self, writes: Sequence[Write], above: int = 0) -> asyncio.Future[int]:
        return self._store.together(writes, above)

    @property
    def id(self) -> str:
        return self._store.id

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def compacted(self) -> int:
        return self._store.compacted

    @property
    def takes_together(self) -> bool:
        return self._store.takes_together

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self._store.failure

    async def settled(self) -> None:
        await self._store.settled()

    def fresh(self) -> asyncio.Future[None] | None:
        return self._store.fresh()

    async def get(self, key: str) -> KeyValue | None:
        return await self._store.get(key)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        return await self._store.range(prefix, start=start, limit=limit, revision=revision)

    def watch(self, after: int, deliver: Deliver, advance: Advance | None = None) -> Subscription:
        return self._store.watch(after, deliver, advance)

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    def problem(self) -> str:
        return self._store.problem()

    async def close(self) -> None:
        await self._store.close()
