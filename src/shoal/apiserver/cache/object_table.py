"""The objects of one resource in one logical cluster, in key order, with field indexes for repeated selectors."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Hashable

from shoal.apiserver.cache.objects import CachedObject
from shoal.apiserver.cache.trigger import NAME_FIELD, FieldIndex, Trigger

MAX_INDEXES = 4
MIN_INDEXED_OBJECTS = 64
"""Number of objects from which on an index pays off."""


class ObjectTable:
    """The objects of one resource in one cluster, in key order."""

    __slots__ = ("entries", "has_bootstrap", "indexes", "keys", "list_bodies")

    def __init__(self) -> None:
        self.entries: dict[str, CachedObject] = {}
        self.keys: list[str] = []
        self.has_bootstrap = False
        """Whether the bootstrap objects have been added to the stored ones."""
        self.list_bodies: dict[object, list[bytes] | None] = {}
        """Bodies of lists that were requested again while nothing changed (None: requested once)."""
        self.indexes: dict[Hashable, FieldIndex | None] | None = None
        """By trigger key; likewise."""

    def put(self, entry: CachedObject) -> CachedObject | None:
        key = entry.key
        old = self.entries.get(key)
        if old is None:
            insort(self.keys, key)
        self.entries[key] = entry
        if self.list_bodies:
            self.list_bodies = {}
        if self.indexes is not None:
            self._update_indexes(old, entry)
        return old

    def remove(self, key: str) -> CachedObject | None:
        old = self.entries.pop(key, None)
        if old is not None:
            del self.keys[bisect_left(self.keys, key)]
            self.list_bodies = {}
            if self.indexes is not None:
                self._update_indexes(old, None)
        return old

    def _update_indexes(self, old: CachedObject | None, new: CachedObject | None) -> None:
        for index in (self.indexes or {}).values():
            if index is not None:
                index.update(old, new)

    def select(self, namespace: str, after: str = "", trigger: Trigger | None = None) -> list[CachedObject]:
        """Returns objects in key order, of one namespace or (empty) all. `after` is the last key of the previous page.
        With a trigger the result may be a superset of the objects with its value, but never misses one.
        """
        keys = self._indexed_keys(namespace, trigger) if trigger is not None else None
        if keys is not None:
            entries = [self.entries[key] for key in keys if key > after and key in self.entries]
            return [entry for entry in entries if entry.namespace == namespace] if namespace else entries
        if not namespace and not after:
            return [self.entries[key] for key in self.keys]
        low, high = self._range(namespace)
        if after:
            low = max(low, bisect_left(self.keys, after + "\0"))
        return [self.entries[key] for key in self.keys[low:high]]

    def count(self, namespace: str) -> int:
        low, high = self._range(namespace)
        return high - low

    def _range(self, namespace: str) -> tuple[int, int]:
        if not namespace:
            return 0, len(self.keys)
        # "0" follows "/" in byte order
        return bisect_left(self.keys, f"{namespace}/"), bisect_left(self.keys, f"{namespace}0")

    def _indexed_keys(self, namespace: str, trigger: Trigger) -> list[str] | None:
        """The keys of objects with that value. None if there is no index."""
        if trigger.key == NAME_FIELD:
            key = f"{namespace}/{trigger.value}"
            return [key] if namespace or key in self.entries else None
        if len(self.entries) < MIN_INDEXED_OBJECTS:
            return None
        index = self.indexes.get(trigger.key) if self.indexes is not None else None
        return index.keys(trigger.value) if index is not None and index.is_complete else None

    def build_index(self, trigger: Trigger) -> Generator[None, None, None]:
        """Builds the index of a field that was selected by before, if it pays off; one object in each step. It is used
        once it is complete.
        """
        if trigger.key == NAME_FIELD or len(self.entries) < MIN_INDEXED_OBJECTS:
            return
        if self.indexes is None:
            self.indexes = {}
        indexes = self.indexes
        if trigger.key not in indexes:
            if len(indexes) < MAX_INDEXES:
                indexes[trigger.key] = None
            return
        if indexes[trigger.key] is None:
            index = indexes[trigger.key] = FieldIndex(trigger.value_of)
            try:
                yield from index.build(self.entries)
            finally:
                if not index.is_complete:
                    indexes[trigger.key] = None

    def drop_derived(self) -> bool:
        """Drops what is rebuilt on access: bootstrap objects, list bodies, derived values. Returns whether nothing is
        left.
        """
        if self.has_bootstrap:
            self.entries = {key: entry for key, entry in self.entries.items() if not entry.virtual}
            self.keys = [key for key in self.keys if key in self.entries]
            self.has_bootstrap = False
        self.list_bodies = {}
        self.indexes = None
        for entry in self.entries.values():
            entry.drop_derived()
        return not self.entries
