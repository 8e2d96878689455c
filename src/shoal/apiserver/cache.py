"""The watch cache: the state of the store in memory and the window of events that led to it.

One `ResourceCache` per stored resource covers all logical clusters and holds one `ObjectTable` per cluster.
`Store.watch` is the only source, so the cache never runs ahead of durability, and every reader sees one order. Older
states inside the window are rebuilt by undoing events (continued and exact lists).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import takewhile

from shoal.apiserver.encoding import splice
from shoal.apiserver.entries import REMOVED as REMOVED
from shoal.apiserver.entries import Change as Change
from shoal.apiserver.entries import Entry as Entry
from shoal.apiserver.fields import Listener, Pin, Pinned
from shoal.apiserver.tables import Table as Table
from shoal.store.interface import Event
from shoal.telemetry.tracing import Changes

log = logging.getLogger("shoal.apiserver")

SHORT = 500
"""Histories up to this length are scanned; longer ones are looked up by trigger value."""
Base = Callable[[str, str], Sequence[Entry] | None]
"""(resource key, cluster) -> the bootstrap objects of that cluster; None while the cluster is not known."""


class Kind:
    """All objects of one stored resource, their recent events and their event handlers."""

    def __init__(self, key: str, base: Base) -> None:
        self.key = key
        self._base = base
        self.tables: dict[str, Table] = {}
        self.history: deque[Change] = deque()
        self.listeners: dict[str, dict[Listener, None]] = {}
        """Handlers by cluster (`*`: all clusters). A dict, because unlike a set it keeps order."""
        self.pinned: dict[str, dict[Hashable, Pinned]] = {}
        """Handlers for one value of a field, by cluster and trigger key."""
        self.removed: dict[str, dict[str, int]] = {}
        """Deleted bootstrap objects: cluster -> key -> revision of the tombstone in the store."""
        self.sent = 0
        """Number of events sent to watches."""

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
        removed = self.removed.get(cluster, ())
        for entry in base:
            if entry.key not in table.entries and entry.key not in removed:
                table.put(entry)

    def sleep(self, cluster: str) -> None:
        """Drops derived state of an idle cluster."""
        table = self.tables.get(cluster)
        if table is not None and table.sleep():
            del self.tables[cluster]

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
                self.removed.setdefault(cluster, {})[key] = event.revision
            else:
                self._unhide(cluster, key)
        else:
            new = Entry(namespace, name, event.revision, splice(event.value, event.revision))
            old = table.put(new)
            if self.removed:
                self._unhide(cluster, key)
        if old is None and new is None:
            return None
        change = Change(event.revision, cluster, old, new)
        self.history.append(change)
        return change

    def _unhide(self, cluster: str, key: str) -> None:
        hidden = self.removed.get(cluster)
        if hidden is not None:
            hidden.pop(key, None)
            if not hidden:
                del self.removed[cluster]

    def listen(self, cluster: str, listener: Listener, pin: Pin | None = None) -> None:
        """With a trigger the handler only gets events in which the object had or has that value."""
        if pin is None:
            self.listeners.setdefault(cluster, {})[listener] = None
            return
        fields = self.pinned.setdefault(cluster, {})
        if pin.field not in fields:
            fields[pin.field] = Pinned(pin.read)
        fields[pin.field].listen(pin.value, listener)

    def forget(self, cluster: str, listener: Listener, pin: Pin | None = None) -> None:
        if pin is None:
            found = self.listeners.get(cluster)
            if found is not None:
                found.pop(listener, None)
                if not found:
                    del self.listeners[cluster]
            return
        fields = self.pinned.get(cluster, {})
        pinned = fields.get(pin.field)
        if pinned is not None:
            pinned.forget(pin.value, listener)
            if not len(pinned):
                del fields[pin.field]
                if not fields:
                    del self.pinned[cluster]

    @property
    def watchers(self) -> int:
        pinned = (each for fields in self.pinned.values() for each in fields.values())
        return sum(map(len, self.listeners.values())) + sum(map(len, pinned))

    def announce(self, change: Change) -> None:
        for where in (change.cluster, "*"):
            told = list(self.listeners.get(where, ()))
            if self.pinned:
                for pinned in self.pinned.get(where, {}).values():
                    told += pinned.note(change)
            for listener in told:
                try:
                    listener(change)
                except Exception:
                    # A failing handler must not stop the other handlers or the delivery from the store.
                    log.exception("a listener of %s failed and is dropped", self.key)
                    self._drop(where, listener)

    def _drop(self, cluster: str, listener: Listener) -> None:
        self.forget(cluster, listener)
        for pinned in self.pinned.get(cluster, {}).values():
            pinned.drop(listener)

    def since(self, revision: int) -> list[Change]:
        """Events after that revision, oldest first."""
        return _after(self.history, revision)

    def missed(self, cluster: str, revision: int, pin: Pin | None = None) -> list[Change]:
        """Events a handler would have received after that revision. A handler with a trigger must be registered
        already.
        """
        is_long = len(self.history) > SHORT and self.history[-SHORT].revision > revision
        if pin is not None and is_long:
            found = self.pinned[cluster][pin.field].recent(pin.value, _of_cluster(self.history, cluster))
            return _after(found, revision)
        return list(_of_cluster(self.since(revision), cluster))

    def trim(self, revision: int) -> None:
        """Trims the events kept per trigger value. The history itself is shortened event by event."""
        for fields in self.pinned.values():
            for pinned in fields.values():
                pinned.trim(revision)

    def as_of(self, cluster: str, revision: int) -> Table:
        """The table at an older revision, rebuilt by undoing later events."""
        return _undone(self.table(cluster), [change for change in self.since(revision) if change.cluster == cluster])

    def stored_as_of(self, revision: int) -> dict[str, Table]:
        """Every cluster's table at an older revision, stored objects only: no bootstrap objects are added for this."""
        later: dict[str, list[Change]] = {}
        for change in self.since(revision):
            later.setdefault(change.cluster, []).append(change)
        return {
            **self.tables,
            **{where: _undone(self.tables.get(where) or Table(), made) for where, made in later.items()},
        }


def _after(changes: deque[Change], revision: int) -> list[Change]:
    if not changes or changes[-1].revision <= revision:
        return []
    found = list(takewhile(lambda change: change.revision > revision, reversed(changes)))
    found.reverse()
    return found


def _of_cluster(changes: Iterable[Change], cluster: str) -> Iterable[Change]:
    return changes if cluster == "*" else (change for change in changes if change.cluster == cluster)


def _undone(now: Table, later: Sequence[Change]) -> Table:
    """Returns the table as it was before these events."""
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
        """Watches and exact lists may start from this revision. Older ones get 410."""
        self._bytes = 0
        self._ages: deque[tuple[Kind, Change]] = deque()
        self._observers: dict[Observer, None] = {}
        self._arrivals: list[asyncio.Future[None]] = []
        self.traced: Changes | None = None
        """None if tracing is off."""

    def kind(self, group: str, plural: str) -> Kind:
        return self.stored(f"{group or 'core'}/{plural}")

    def stored(self, key: str) -> Kind:
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = Kind(key, self._base)
        return kind

    def load(self, keys: Iterator[tuple[str, bytes, int]], revision: int) -> None:
        """Loads the state at the start of the window. `apply` delivers everything later."""
        for key, value, written in keys:
            kind_key, cluster, namespace, name = split_key(key)
            kind = self.stored(kind_key)
            if value == REMOVED:
                kind.removed.setdefault(cluster, {})[f"{namespace}/{name}"] = written
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
        """Receives the events of `Store.watch`."""
        for event in events:
            kind_key, cluster, namespace, name = split_key(event.key)
            kind = self.stored(kind_key)
            change = kind.apply(event, cluster, namespace, name)
            self.revision = event.revision
            if change is not None:
                self._ages.append((kind, change))
                self._bytes += len(change.last.data)
                if self.traced is not None:
                    change.traceparent = self.traced.delivered(event.key, event.value)
                kind.announce(change)
                if self._observers:
                    self._tell(kind, change)
        self._arrived()

    def advance(self, revision: int) -> None:
        """Advances to a revision up to which the store holds no events for this cache."""
        self.revision = revision
        self._arrived()

    def _arrived(self) -> None:
        while self._arrivals:
            arrival = self._arrivals.pop()
            if not arrival.done():
                arrival.set_result(None)

    def observe(self, observer: Observer) -> None:
        """Calls the observer for every event of every resource, in one order."""
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
        """Events of every resource after that revision, oldest first."""
        found = list(takewhile(lambda aged: aged[1].revision > revision, reversed(self._ages)))
        found.reverse()
        return found

    def drop(self, cluster: str) -> None:
        """Forgets a deleted logical cluster. Its stored objects have been deleted before."""
        for kind in self.kinds.values():
            kind.tables.pop(cluster, None)
            kind.removed.pop(cluster, None)

    def sleep(self, cluster: str) -> None:
        for kind in self.kinds.values():
            kind.sleep(cluster)

    def trim(self, revision: int) -> None:
        """Forgets the events up to that revision."""
        while self._ages and self._ages[0][1].revision <= revision:
            kind, change = self._ages.popleft()
            self._bytes -= len(change.last.data)
            kind.history.popleft()
        for each in self.kinds.values():
            if each.pinned:
                each.trim(revision)
        self.oldest = max(self.oldest, revision)

    def window(self, most_changes: int, most_bytes: int) -> int:
        """Returns the revision up to which events must be trimmed so that the rest fits the bounds; 0 if everything
        fits.
        """
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
        """Waits until the cache holds that revision."""
        while self.revision < revision:
            arrival = asyncio.get_running_loop().create_future()
            self._arrivals.append(arrival)
            await arrival


def store_key(kind: str, cluster: str, namespace: str, name: str) -> str:
    """`group/plural/cluster/namespace/name`: one resource over all clusters is one key range."""
    return f"{kind}/{cluster}/{namespace}/{name}"


def split_key(key: str) -> tuple[str, str, str, str]:
    group, plural, cluster, namespace, name = key.split("/", 4)
    return f"{group}/{plural}", cluster, namespace, name
