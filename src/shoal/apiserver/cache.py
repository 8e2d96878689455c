"""The state of the store in memory, and the window of changes that led to it.

One `Kind` per stored resource, over all logical clusters; in it one `Table` per cluster. The cache is fed by
`Store.watch` alone, so it never runs ahead of durability, and every reader sees one order. Older states
inside the window are rebuilt by undoing changes (continued and exact lists).
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from shoal.apiserver.encoding import decode, respliced, splice
from shoal.kinds.quota_usage import Charge
from shoal.store.interface import Event

log = logging.getLogger("shoal.apiserver")

REMOVED = b"-"
"""Stored in place of a bootstrap object that was deleted: it hides the shared one below."""


class Entry:
    """One object: its served bytes, and what is read of them again and again."""

    __slots__ = ("_labels", "charge", "data", "message", "name", "namespace", "normal", "revision", "virtual")

    def __init__(self, namespace: str, name: str, revision: int, data: bytes, virtual: bool = False) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.data = data
        self.virtual = virtual
        """A bootstrap object that nobody has written yet: not in the store."""
        self.normal: str = ""
        """The schema hash the bytes are known to be pruned and defaulted for."""
        self._labels: dict[str, str] | None = None
        self.message: bytes | None = None
        """The object in protobuf, once somebody has asked for it."""
        self.charge: Charge | None = None
        """What the object takes of a quota, once one had to know."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            # Cheaper than decoding: most objects in a large list have no labels at all.
            found = decode(self.data)["metadata"].get("labels") if b'"labels":' in self.data else None
            self._labels = found or {}
        return self._labels

    def object(self) -> dict[str, Any]:
        return decode(self.data)


class Change:
    """One step of one object. `new` is None for a deletion, `old` for a creation."""

    __slots__ = ("cluster", "frames", "new", "old", "revision")

    def __init__(self, revision: int, cluster: str, old: Entry | None, new: Entry | None) -> None:
        self.revision = revision
        self.cluster = cluster
        self.old = old
        self.new = new
        self.frames: dict[object, bytes] = {}
        """Encoded watch events by view: each is made once and shared by every watcher."""

    @property
    def last(self) -> Entry:
        entry = self.new or self.old
        assert entry is not None
        return entry

    def gone(self) -> Entry:
        """The object's last state, at the revision of its deletion."""
        assert self.old is not None
        return Entry(self.old.namespace, self.old.name, self.revision, respliced(self.old.data, self.revision))


class Table:
    """The objects of one kind in one cluster, in key order."""

    __slots__ = ("based", "entries", "joined", "keys")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.based = False
        """Whether the bootstrap objects have been laid under the stored ones."""
        self.joined: dict[object, list[bytes] | None] = {}
        """Bodies of lists that were asked for again while nothing changed (None: asked for once)."""

    def put(self, entry: Entry) -> Entry | None:
        key = entry.key
        old = self.entries.get(key)
        if old is None:
            insort(self.keys, key)
        self.entries[key] = entry
        if self.joined:
            self.joined = {}
        return old

    def remove(self, key: str) -> Entry | None:
        old = self.entries.pop(key, None)
        if old is not None:
            del self.keys[bisect_left(self.keys, key)]
            self.joined = {}
        return old

    def select(self, namespace: str, after: str = "") -> list[Entry]:
        """In key order; one namespace or (empty) all; `after` is the last key of the page before."""
        if not namespace and not after:
            return [self.entries[key] for key in self.keys]
        low, high = 0, len(self.keys)
        if namespace:
            low = bisect_left(self.keys, f"{namespace}/")
            high = bisect_left(self.keys, f"{namespace}0")  # "0" follows "/" in byte order
        if after:
            low = max(low, bisect_left(self.keys, after + "\0"))
        return [self.entries[key] for key in self.keys[low:high]]


Listener = Callable[[Change], None]
Base = Callable[[str, str], Sequence[Entry] | None]
"""(kind key, cluster) -> the bootstrap objects such a cluster starts with; None while it is not known."""


class Kind:
    """All objects of one stored resource, with their recent changes and who listens to them."""

    def __init__(self, key: str, base: Base) -> None:
        self.key = key
        self._base = base
        self.tables: dict[str, Table] = {}
        self.history: deque[Change] = deque()
        self.listeners: dict[str, dict[Listener, None]] = {}
        """By cluster (`*`: all of them); a dict because it keeps order, which a set does not."""
        self.removed: dict[tuple[str, str], int] = {}
        """Deleted bootstrap objects: (cluster, key) -> the revision of their removal mark in the store."""

    def table(self, cluster: str) -> Table:
        table = self.tables.get(cluster)
        if table is None:
            table = self.tables[cluster] = Table()
        if not table.based:
            self._lay_base(table, cluster)
        return table

    def _lay_base(self, table: Table, cluster: str) -> None:
        base = self._base(self.key, cluster)
        if base is None:
            return
        table.based = True
        for entry in base:
            if entry.key not in table.entries and (cluster, entry.key) not in self.removed:
                table.put(entry)

    def get(self, cluster: str, namespace: str, name: str) -> Entry | None:
        return self.table(cluster).entries.get(f"{namespace}/{name}")

    def clusters(self) -> list[str]:
        return sorted(self.tables)

    def is_bootstrap(self, cluster: str, key: str) -> bool:
        return any(entry.key == key for entry in self._base(self.key, cluster) or ())

    def apply(self, event: Event, cluster: str, namespace: str, name: str) -> Change | None:
        table = self.table(cluster)
        key = f"{namespace}/{name}"
        if event.value is None or event.value == REMOVED:
            old, new = table.remove(key), None
            if event.value is not None:
                self.removed[cluster, key] = event.revision
            else:
                self.removed.pop((cluster, key), None)
        else:
            new = Entry(namespace, name, event.revision, splice(event.value, event.revision))
            old = table.put(new)
            if self.removed:
                self.removed.pop((cluster, key), None)
        if old is None and new is None:
            return None
        change = Change(event.revision, cluster, old, new)
        self.history.append(change)
        return change

    def listen(self, cluster: str, listener: Listener) -> None:
        self.listeners.setdefault(cluster, {})[listener] = None

    def forget(self, cluster: str, listener: Listener) -> None:
        found = self.listeners.get(cluster)
        if found is not None:
            found.pop(listener, None)
            if not found:
                del self.listeners[cluster]

    def announce(self, change: Change) -> None:
        for where in (change.cluster, "*"):
            for listener in list(self.listeners.get(where, ())):
                try:
                    listener(change)
                except Exception:
                    # One that fails must not cost the others their event, nor the store its delivery.
                    log.exception("a listener of %s failed and is dropped", self.key)
                    self.forget(where, listener)

    def since(self, revision: int) -> list[Change]:
        """Changes after that revision, oldest first."""
        if not self.history or self.history[-1].revision <= revision:
            return []
        found = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def as_of(self, cluster: str, revision: int) -> Table:
        """The table as it was at an older revision, by undoing what came after."""
        later = [change for change in self.since(revision) if change.cluster == cluster]
        now = self.table(cluster)
        if not later:
            return now
        past = Table()
        past.entries = dict(now.entries)
        for change in reversed(later):
            if change.old is None:
                past.entries.pop(change.last.key, None)
            else:
                past.entries[change.old.key] = change.old
        past.keys = sorted(past.entries)
        return past


Observer = Callable[[Kind, Change], None]


class Cache:
    def __init__(self, base: Base) -> None:
        self._base = base
        self.kinds: dict[str, Kind] = {}
        self.revision = 0
        self.oldest = 0
        """Watches and exact lists may start from this revision; older ones get 410."""
        self._bytes = 0
        self._ages: deque[tuple[Kind, Change]] = deque()
        self._observers: dict[Observer, None] = {}
        self._arrivals: list[asyncio.Future[None]] = []

    def kind(self, group: str, plural: str) -> Kind:
        return self.stored(f"{group or 'core'}/{plural}")

    def stored(self, key: str) -> Kind:
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = Kind(key, self._base)
        return kind

    def load(self, keys: Iterator[tuple[str, bytes, int]], revision: int) -> None:
        """The state at the start of the window; what came later is delivered by `apply`."""
        for key, value, written in keys:
            kind_key, cluster, namespace, name = split_key(key)
            kind = self.stored(kind_key)
            if value == REMOVED:
                kind.removed[cluster, f"{namespace}/{name}"] = written
                continue
            table = kind.tables.get(cluster)
            if table is None:
                table = kind.tables[cluster] = Table()
            table.entries[f"{namespace}/{name}"] = Entry(namespace, name, written, splice(value, written))
        for loaded in self.kinds.values():
            for table in loaded.tables.values():
                table.keys = sorted(table.entries)
        self.revision = self.oldest = revision

    def apply(self, events: Sequence[Event]) -> None:
        """The delivery end of `Store.watch`."""
        for event in events:
            kind_key, cluster, namespace, name = split_key(event.key)
            kind = self.stored(kind_key)
            change = kind.apply(event, cluster, namespace, name)
            self.revision = event.revision
            if change is not None:
                self._ages.append((kind, change))
                self._bytes += len(change.last.data)
                kind.announce(change)
                if self._observers:
                    self._tell(kind, change)
        self._arrived()

    def advance(self, revision: int) -> None:
        """Nothing of ours happened up to that revision."""
        self.revision = revision
        self._arrived()

    def _arrived(self) -> None:
        while self._arrivals:
            arrival = self._arrivals.pop()
            if not arrival.done():
                arrival.set_result(None)

    def observe(self, observer: Observer) -> None:
        """Tells of every change of every kind, in one order."""
        self._observers[observer] = None

    def unobserve(self, observer: Observer) -> None:
        self._observers.pop(observer, None)

    def _tell(self, kind: Kind, change: Change) -> None:
        for observer in list(self._observers):
            try:
                observer(kind, change)
            except Exception:
                log.exception("an observer of all kinds failed and is dropped")
                self.unobserve(observer)

    def since(self, revision: int) -> list[tuple[Kind, Change]]:
        """Changes of every kind after that revision, oldest first."""
        found = list(takewhile(lambda aged: aged[1].revision > revision, reversed(self._ages)))
        found.reverse()
        return found

    def drop(self, cluster: str) -> None:
        """Forgets a logical cluster that is gone; what it stored has been deleted before."""
        for kind in self.kinds.values():
            kind.tables.pop(cluster, None)
            for where, key in [found for found in kind.removed if found[0] == cluster]:
                del kind.removed[where, key]

    def trim(self, revision: int) -> None:
        """Forgets the changes up to that revision."""
        while self._ages and self._ages[0][1].revision <= revision:
            kind, change = self._ages.popleft()
            self._bytes -= len(change.last.data)
            kind.history.popleft()
        self.oldest = max(self.oldest, revision)

    def window(self, most_changes: int, most_bytes: int) -> int:
        """The revision up to which changes must go so that the rest fits the bounds; 0: it fits."""
        excess_bytes = self._bytes - most_bytes
        excess = len(self._ages) - most_changes
        if excess <= 0 and excess_bytes <= 0:
            return 0
        until = 0
        for index, (_, change) in enumerate(self._ages):
            if index >= excess and excess_bytes <= 0:
                break
            excess_bytes -= len(change.last.data)
            until = change.revision
        return until

    async def reached(self, revision: int) -> None:
        """Returns once the cache holds that revision."""
        while self.revision < revision:
            arrival = asyncio.get_running_loop().create_future()
            self._arrivals.append(arrival)
            await arrival


def store_key(kind: str, cluster: str, namespace: str, name: str) -> str:
    """`group/plural/cluster/namespace/name`: one kind over all clusters is one range."""
    return f"{kind}/{cluster}/{namespace}/{name}"


def split_key(key: str) -> tuple[str, str, str, str]:
    group, plural, cluster, namespace, name = key.split("/", 4)
    return f"{group}/{plural}", cluster, namespace, name
