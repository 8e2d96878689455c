"""A store whose writes somebody judges, one by one, in the moment they are made: for a server that may have to stop.

A write that is refused was never in the queue. Reads and watches are not judged, nor is what is written together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shoal.objects.errors import StoreError, Unavailable
from shoal.store.interface import Advance, Deliver, KeyValue, Store, Subscription, Write

RETRY_SECONDS = 5
"""When a client that was refused should come again."""
Judge = Callable[[str, bytes | None], str]
"""Of a key and its new value (None: a deletion): why it is not written; empty: it is."""


class GatedStore:
    def __init__(self, store: Store, judge: Judge) -> None:
        self._store, self._judge = store, judge

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        self._check(key, value)
        return self._store.put(key, value, expected)

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        self._check(key, None)
        return self._store.delete(key, expected)

    def _check(self, key: str, value: bytes | None) -> None:
        why = self._judge(key, value)
        if why:
            raise Unavailable(why, retry_after=RETRY_SECONDS)

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
