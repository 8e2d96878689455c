"""Makes room for a new Event in a logical cluster whose share for Events is full: the oldest ones are deleted.

Refusing it would hide what happens in the cluster just when somebody has to know.
"""

from __future__ import annotations

import asyncio
import logging

from shoal.apiserver.cache.cacher import CachedObject, WatchCache
from shoal.apiserver.cache.usage import EVENTS, Account
from shoal.objects.errors import StoreError
from shoal.store.interface import CompareFailed, Store

log = logging.getLogger("shoal.apiserver")

MAX_DELETIONS = 100
"""Deletions for one new Event. One that needs more is refused."""


class EventsShare:
    def __init__(self, cache: WatchCache, store: Store) -> None:
        self._events, self._usage, self._store = cache.resource_cache_by_key(EVENTS), cache.usage, store

    def make_room(self, cluster: str, account: Account, objects: int, size: int) -> bool:
        """Deletes Events until that much is free. Returns False if it would take too many."""
        oldest: list[CachedObject] = []
        table = self._events.tables.get(cluster)
        for entry in table.entries.values() if table is not None else ():  # in the order of their creation
            if objects <= 0 and size <= 0:
                break
            if len(oldest) == MAX_DELETIONS:
                return False
            if not self._usage.is_reserved(self._key(cluster, entry)):
                oldest.append(entry)
                objects, size = objects - 1, size - entry.stored_size
        if objects > 0 or size > 0:
            return False
        for entry in oldest:
            self._delete(cluster, account, entry)
        return True

    def _key(self, cluster: str, entry: CachedObject) -> str:
        return f"{EVENTS}/{cluster}/{entry.key}"

    def _delete(self, cluster: str, account: Account, entry: CachedObject) -> None:
        key = self._key(cluster, entry)
        try:
            deleted = self._store.delete(key, entry.revision)
        except StoreError:
            return  # it is being written or deleted
        reservation = self._usage.reserve(account, key, -1, -entry.stored_size)

        def on_deleted(future: asyncio.Future[int]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None and not isinstance(error, CompareFailed):
                log.info("cannot delete an old Event of logical cluster %s: %s", cluster, error)
            if reservation is not None:
                self._usage.release(key, reservation)

        deleted.add_done_callback(on_deleted)
