"""Store decorator that forwards every call. Base class of decorators that change or observe some of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.objects.errors import StoreError
from shoal.store.interface import EventHandler, KeyValue, ProgressHandler, Store, Subscription, WriteOp


class StoreDecorator:
    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        return self._store.put(key, value, expected_revision)

    def delete(self, key: str, expected_revision: int) -> asyncio.Future[int]:
        return self._store.delete(key, expected_revision)

    def transaction(self, operations: Sequence[WriteOp], above_revision: int = 0) -> asyncio.Future[int]:
        return self._store.transaction(operations, above_revision)

    @property
    def id(self) -> str:
        return self._store.id

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def compacted_revision(self) -> int:
        return self._store.compacted_revision

    @property
    def supports_transactions(self) -> bool:
        return self._store.supports_transactions

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self._store.failure

    async def flush(self) -> None:
        await self._store.flush()

    def read_index(self) -> asyncio.Future[None] | None:
        return self._store.read_index()

    async def get(self, key: str) -> KeyValue | None:
        return await self._store.get(key)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        return await self._store.range(prefix, start=start, limit=limit, revision=revision)

    def watch(
        self, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None = None
    ) -> Subscription:
        return self._store.watch(after_revision, handler, on_progress)

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    def health_error(self) -> str:
        return self._store.health_error()

    async def close(self) -> None:
        await self._store.close()
