"""Refuses writes that would make a logical cluster larger than its limits.

What a full cluster needs to be cleaned up is never refused: deletions and their marks, and writes that grow nothing.
Essential writes keep a cluster alive (Leases, status) or let a deletion end. They may use a reserve beyond the limit.
"""

from __future__ import annotations

from shoal.apiserver.cache.cacher import CachedObject, WatchCache
from shoal.apiserver.cache.usage import EVENTS, Account, Reservation
from shoal.apiserver.limits.events_share import EventsShare
from shoal.apiserver.limits.refusals import LimitExceeded, Refusals
from shoal.apiserver.registry.clusters import LogicalCluster
from shoal.store.interface import Store

EVENTS_PARTS = 4
"""Events may take a quarter of the limits, in addition: neither they nor other objects can keep the others out. A new
Event takes the place of old ones.
"""
MIN_EVENTS, MIN_EVENT_BYTES = 100, 1 << 20
"""The least that Events may take."""
RESERVE_PARTS = 10
"""The reserve is a tenth of the limit, or at least that for a few small objects."""
MIN_RESERVE_OBJECTS, MIN_RESERVE_BYTES = 100, 1 << 20
NO_END = 1 << 62
LEASES = "coordination.k8s.io/leases"
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
MAX_DEFINITIONS = 1000
"""CustomResourceDefinitions of a cluster with a limit of objects: each is compiled, and read by every discovery."""


class StorageLimits:
    def __init__(self, cache: WatchCache, store: Store, refusals: Refusals) -> None:
        self._cache, self._usage, self._refusals = cache, cache.usage, refusals
        self._events_share = EventsShare(cache, store)

    def reserve(
        self, cluster: LogicalCluster, kind: str, key: str, size: int, old: CachedObject | None, essential: bool
    ) -> Reservation | None:
        """Reserves the room of a write: `size` bytes under that key, in place of `old`. Raises LimitExceeded. Returns
        None if there is nothing to give back.
        """
        if old is not None and not old.virtual:
            added, growth = 0, size - old.stored_size
            if growth <= 0:
                return None
        else:
            added, growth = 1, size
        account = self._usage.account(cluster.name, kind)
        max_objects, max_bytes = cluster.limits.objects, cluster.limits.bytes
        if kind == EVENTS:
            max_objects, max_bytes = _part(max_objects, MIN_EVENTS), _part(max_bytes, MIN_EVENT_BYTES)
        # What exceeds a limit; 0 for a limit that is kept.
        objects_over = added if _exceeds(account.objects + account.reserved_objects + added, max_objects) else 0
        size_over = growth if _exceeds(account.bytes + account.reserved_bytes + growth, max_bytes) else 0
        if objects_over or size_over:
            if kind == EVENTS:
                free_objects, free_bytes = _free(account, max_objects, max_bytes)
                granted = self._events_share.make_room(cluster.name, account, added - free_objects, growth - free_bytes)
            else:
                is_essential = essential or kind == LEASES
                granted = is_essential and _overdraw(account, objects_over, size_over, max_objects, max_bytes)
            if not granted:
                raise self._refusal(cluster, kind, account, objects_over, growth)
        if added and not objects_over:
            account.overdraft_objects = 0
        if not size_over:
            account.overdraft_bytes = 0
        if kind == DEFINITIONS and added and max_objects is not None:
            self._check_definitions(cluster.name)
        return self._usage.reserve(account, key, added, growth)

    def release(self, key: str, reservation: Reservation) -> None:
        self._usage.release(key, reservation)

    def _refusal(self, cluster: LogicalCluster, kind: str, account: Account, added: int, growth: int) -> LimitExceeded:
        field = "objects" if added and kind != EVENTS else "bytes"
        self._refusals.record(cluster.name, field)
        limit = getattr(cluster.limits, field)
        if field == "objects":
            return LimitExceeded(cluster.name, field, added, account.objects + account.reserved_objects, limit)
        used, unit = account.bytes + account.reserved_bytes, ""
        if kind == EVENTS:
            limit, unit = _part(limit, MIN_EVENT_BYTES), "events.bytes"
        return LimitExceeded(cluster.name, field, growth, used, limit, unit)

    def _check_definitions(self, cluster: str) -> None:
        table = self._cache.resource_cache_by_key(DEFINITIONS).table(cluster)
        used = len(table.entries)
        if used >= MAX_DEFINITIONS:
            self._refusals.record(cluster, "objects")
            raise LimitExceeded(cluster, "", 1, used, MAX_DEFINITIONS, "customresourcedefinitions")


def _part(limit: int | None, least: int) -> int | None:
    return None if limit is None else max(limit // EVENTS_PARTS, least)


def _free(account: Account, max_objects: int | None, max_bytes: int | None) -> tuple[int, int]:
    return (
        NO_END if max_objects is None else max_objects - account.objects - account.reserved_objects,
        NO_END if max_bytes is None else max_bytes - account.bytes - account.reserved_bytes,
    )


def _exceeds(used: int, limit: int | None) -> bool:
    return limit is not None and used > limit


def _overdraw(account: Account, objects: int, size: int, max_objects: int | None, max_bytes: int | None) -> bool:
    """Takes what exceeds the limits from the reserve, if that suffices."""
    objects, size = account.overdraft_objects + objects, account.overdraft_bytes + size
    if objects > max((max_objects or 0) // RESERVE_PARTS, MIN_RESERVE_OBJECTS):
        return False
    if size > max((max_bytes or 0) // RESERVE_PARTS, MIN_RESERVE_BYTES):
        return False
    account.overdraft_objects, account.overdraft_bytes = objects, size
    return True
