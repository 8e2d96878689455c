"""The objects of one resource in one logical cluster, in key order, with field indexes for repeated selectors."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable

from shoal.apiserver.entries import Entry
from shoal.apiserver.fields import NAME, Index, Pin

MOST_INDEXES = 4
INDEXED = 64
"""Number of objects from which on an index pays off."""


class Table:
    """The objects of one resource in one cluster, in key order."""

    __slots__ = ("based", "entries", "indexes", "joined", "keys")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.based = False
        """Whether the bootstrap objects have been added to the stored ones."""
        self.joined: dict[object, list[bytes] | None] = {}
        """Bodies of lists that were requested again while nothing changed (None: requested once)."""
        self.indexes: dict[Hashable, Index | None] | None = None
        """By trigger key; likewise."""

    def put(self, entry: Entry) -> Entry | None:
        key = entry.key
        old = self.entries.get(key)
        if old is None:
            insort(self.keys, key)
        self.entries[key] = entry
        if self.joined:
            self.joined = {}
        if self.indexes is not None:
            self._move(old, entry)
        return old

    def remove(self, key: str) -> Entry | None:
        old = self.entries.pop(key, None)
        if old is not None:
            del self.keys[bisect_left(self.keys, key)]
            self.joined = {}
            if self.indexes is not None:
                self._move(old, None)
        return old

    def _move(self, old: Entry | None, new: Entry | None) -> None:
        for index in (self.indexes or {}).values():
            if index is not None:
                index.put(old, new)

    def select(self, namespace: str, after: str = "", pin: Pin | None = None) -> list[Entry]:
        """Returns objects in key order, of one namespace or (empty) all. `after` is the last key of the previous page.
        With a trigger the result may be a superset of the objects with its value, but never misses one.
        """
        keys = self._pinned(namespace, pin) if pin is not None else None
        if keys is not None:
            found = [self.entries[key] for key in keys if key > after and key in self.entries]
            return [entry for entry in found if entry.namespace == namespace] if namespace else found
        if not namespace and not after:
            return [self.entries[key] for key in self.keys]
        low, high = 0, len(self.keys)
        if namespace:
            low = bisect_left(self.keys, f"{namespace}/")
            high = bisect_left(self.keys, f"{namespace}0")  # "0" follows "/" in byte order
        if after:
            low = max(low, bisect_left(self.keys, after + "\0"))
        return [self.entries[key] for key in self.keys[low:high]]

    def _pinned(self, namespace: str, pin: Pin) -> list[str] | None:
        """The keys of objects with that value. None if there is no index."""
        if pin.field == NAME:
            key = f"{namespace}/{pin.value}"
            return [key] if namespace or key in self.entries else None
        if len(self.entries) < INDEXED:
            return None
        if self.indexes is None:
            self.indexes = {}
        index = self.indexes.get(pin.field)
        if index is None:
            if pin.field not in self.indexes:
                if len(self.indexes) < MOST_INDEXES:
                    self.indexes[pin.field] = None
                return None
            index = self.indexes[pin.field] = Index(pin.read, self.entries.values())
        return index.keys(pin.value)

    def sleep(self) -> bool:
        """Drops what is rebuilt on access: bootstrap objects, list bodies, derived values. Returns whether nothing is
        left.
        """
        if self.based:
            self.entries = {key: entry for key, entry in self.entries.items() if not entry.virtual}
            self.keys = [key for key in self.keys if key in self.entries]
            self.based = False
        self.joined = {}
        self.indexes = None
        for entry in self.entries.values():
            entry.rest()
        return not self.entries
