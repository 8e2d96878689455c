"""Servers with a bug that somebody could have made: what the checker is for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, ResourceCache
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs import READS
from shoal.apiserver.verbs.watch import CacheWatcher
from shoal.assemble.server import shoal_server
from shoal.assemble.storage.config import OpenedStore, StoreSettings
from shoal.assemble.storage.datadir import DataDir
from shoal.assemble.storage.factory import open_store
from shoal.objects.wire import Answer
from shoal.store.decorator import StoreDecorator
from shoal.store.interface import CompareFailed, Store

OURS = "core/configmaps/root/default/k"
EVERY = 7


class Losing(StoreDecorator):
    """Some changes of an object are acknowledged, and written where nobody looks."""

    _count = itertools.count(1)

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        number = next(self._count)
        if key.startswith(OURS) and expected_revision and not number % EVERY:
            return self._store.put(f"soak.shoal.dev/lost/root//{number}", value, 0)
        return self._store.put(key, value, expected_revision)


class Unguarded(StoreDecorator):
    """Who comes second overwrites what the first has written."""

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        try:
            return self._store.put(key, value, expected_revision)
        except CompareFailed as failed:
            if not key.startswith(OURS) or not failed.current_revision:
                raise
            return self._store.put(key, value, failed.current_revision)


class Doubling(StoreDecorator):
    """A write is tried again although it was done."""

    _count = itertools.count(1)

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        first = self._store.put(key, value, expected_revision)
        if not key.startswith(OURS) or next(self._count) % EVERY:
            return first
        return asyncio.ensure_future(self._again(first, key, value))

    async def _again(self, first: asyncio.Future[int], key: str, value: bytes) -> int:
        return await self._store.put(key, value, await first)


@contextmanager
def store_of(made: Callable[[Store], Store]) -> Iterator[None]:
    """Servers that start meanwhile have that store around theirs."""

    async def opened(directory: DataDir, settings: StoreSettings) -> OpenedStore:
        found = await open_store(directory, settings)
        found.store = made(found.store)
        return found

    with patch.object(shoal_server, "open_store", opened):
        yield


class Behind:
    """A kind as it is in a cache that has not seen the last change of an object."""

    def __init__(self, kind: ResourceCache, entry: CachedObject) -> None:
        self._kind, self._entry = kind, entry

    def get(self, cluster: str, namespace: str, name: str) -> CachedObject:
        return self._entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)


@contextmanager
def lagging() -> Iterator[None]:
    """Some reads are answered from a cache that is one change behind."""
    get, count = READS["get"], itertools.count(1)

    def late(core: ServerComponents, call: RequestContext) -> Answer | Awaitable[Answer]:
        recent = call.resource_cache.history.of_cluster(call.info.cluster)
        last = next((change for change in reversed(recent) if change.latest.name == call.name), None)
        if last is not None and last.old is not None and _is_ours(last) and not next(count) % EVERY:
            call.resource_cache = cast(ResourceCache, Behind(call.resource_cache, last.old))
        return get(core, call)

    with patch.dict(READS, {"get": late}):
        yield


def _is_ours(change: CacheEvent) -> bool:
    return change.latest.namespace == "default" and change.latest.name.startswith("k")


@contextmanager
def skipping() -> Iterator[None]:
    """A watch leaves an event out now and then."""
    deliver, count = CacheWatcher.deliver, itertools.count(1)

    def some(self: CacheWatcher, change: CacheEvent) -> None:
        if not _is_ours(change) or next(count) % EVERY:
            deliver(self, change)

    with patch.object(CacheWatcher, "deliver", some):
        yield


@contextmanager
def swapping() -> Iterator[None]:
    """A watch tells of an event after the next one now and then."""
    deliver, count = CacheWatcher.deliver, itertools.count(1)
    held: dict[Any, CacheEvent] = {}

    def other_way_round(self: CacheWatcher, change: CacheEvent) -> None:
        if _is_ours(change) and self not in held and not next(count) % EVERY:
            held[self] = change
            return
        deliver(self, change)
        before = held.pop(self, None)
        if before is not None:
            deliver(self, before)

    with patch.object(CacheWatcher, "deliver", other_way_round):
        yield
