"""The watch cache: the state of the store in memory and the window of events that led to it.

One `ResourceCache` per stored resource covers all logical clusters and holds one `ObjectTable` per cluster.
`Store.watch` is the only source, so the cache never runs ahead of durability, and every reader sees one order. Older
states inside the window are rebuilt by undoing events (continued and exact lists).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence

from shoal.apiserver.cache.event_history import ResourceHistory, events_after, undo
from shoal.apiserver.cache.object_table import ObjectTable as ObjectTable
from shoal.apiserver.cache.objects import TOMBSTONE as TOMBSTONE
from shoal.apiserver.cache.objects import CachedObject as CachedObject
from shoal.apiserver.cache.objects import CacheEvent as CacheEvent
from shoal.apiserver.cache.storage_form import inject_revision
from shoal.apiserver.cache.trigger import EventHandler, Trigger, TriggerWatchers
from shoal.apiserver.cache.usage import StoredUsage
from shoal.apiserver.cache.watch_history import WatchHistory
from shoal.store.interface import StoreEvent
from shoal.telemetry.tracing import WriteTraces

log = logging.getLogger("shoal.apiserver")

SCAN_LIMIT = 500
"""Histories up to this length are scanned; longer ones are looked up by trigger value."""
BootstrapSource = Callable[[str, str], Sequence[CachedObject] | None]
"""(resource key, cluster) -> the bootstrap objects of that cluster; None while the cluster is not known."""


class ResourceCache:
    """All objects of one stored resource, their recent events and their event handlers."""

    def __init__(self, key: str, bootstrap_source: BootstrapSource) -> None:
        self.key = key
        self._bootstrap_source = bootstrap_source
        self.tables: dict[str, ObjectTable] = {}
        self.history = ResourceHistory()
        self.handlers: dict[str, dict[EventHandler, None]] = {}
        """Handlers by cluster (`*`: all clusters). A dict, because unlike a set it keeps order."""
        self.trigger_watchers: dict[str, dict[Hashable, TriggerWatchers]] = {}
        """Handlers for one value of a field, by cluster and trigger key."""
        self.tombstones: dict[str, dict[str, int]] = {}
        """Deleted bootstrap objects: cluster -> key -> revision of the tombstone in the store."""
        self.events_sent = 0
        """Number of events sent to watches."""

    def table(self, cluster: str) -> ObjectTable:
        table = self.tables.get(cluster)
        if table is None:
            table = self.tables[cluster] = ObjectTable()
        if not table.has_bootstrap:
            self._add_bootstrap_objects(table, cluster)
        return table

    def _add_bootstrap_objects(self, table: ObjectTable, cluster: str) -> None:
        objects = self._bootstrap_source(self.key, cluster)
        if objects is None:
            return
        table.has_bootstrap = True
        tombstones = self.tombstones.get(cluster, ())
        for entry in objects:
            if entry.key not in table.entries and entry.key not in tombstones:
                table.put(entry)

    def refresh_bootstrap(self, cluster: str, revision: int) -> list[CacheEvent]:
        """Replaces bootstrap objects that nobody has written, as of that revision. Returns the events."""
        table = self.tables.get(cluster)
        if table is None or not table.has_bootstrap:
            return []
        changes = []
        for entry in self._bootstrap_source(self.key, cluster) or ():
            old = table.entries.get(entry.key)
            if old is not None and old.virtual:
                table.put(entry)
                changes.append(CacheEvent(revision, cluster, old, entry))
        return changes

    @property
    def is_unused(self) -> bool:
        return not (self.tables or self.tombstones or self.handlers or self.trigger_watchers or self.history)

    def drop_derived(self, cluster: str) -> None:
        """Drops derived state of an idle cluster."""
        table = self.tables.get(cluster)
        if table is not None and table.drop_derived():
            del self.tables[cluster]

    def get(self, cluster: str, namespace: str, name: str) -> CachedObject | None:
        return self.table(cluster).entries.get(f"{namespace}/{name}")

    def clusters(self) -> list[str]:
        return sorted(self.tables)

    def is_bootstrap(self, cluster: str, key: str) -> bool:
        return any(entry.key == key for entry in self._bootstrap_source(self.key, cluster) or ())

    def apply(self, event: StoreEvent, cluster: str, namespace: str, name: str) -> CacheEvent | None:
        table = self.table(cluster)
        key = f"{namespace}/{name}"
        if event.value is None or event.value == TOMBSTONE:
            old, new = table.remove(key), None
            if event.value is not None:
                self.tombstones.setdefault(cluster, {})[key] = event.revision
            else:
                self._remove_tombstone(cluster, key)
        else:
            new = CachedObject(namespace, name, event.revision, inject_revision(event.value, event.revision))
            old = table.put(new)
            if self.tombstones:
                self._remove_tombstone(cluster, key)
        if old is None and new is None:
            return None
        return CacheEvent(event.revision, cluster, old, new)

    def _remove_tombstone(self, cluster: str, key: str) -> None:
        tombstones = self.tombstones.get(cluster)
        if tombstones is not None:
            tombstones.pop(key, None)
            if not tombstones:
                del self.tombstones[cluster]

    def add_event_handler(self, cluster: str, handler: EventHandler, trigger: Trigger | None = None) -> None:
        """With a trigger the handler only gets events in which the object had or has that value."""
        if trigger is None:
            self.handlers.setdefault(cluster, {})[handler] = None
            return
        fields = self.trigger_watchers.setdefault(cluster, {})
        if trigger.key not in fields:
            fields[trigger.key] = TriggerWatchers(trigger.value_of)
        fields[trigger.key].add(trigger.value, handler)

    def remove_event_handler(self, cluster: str, handler: EventHandler, trigger: Trigger | None = None) -> None:
        if trigger is None:
            handlers = self.handlers.get(cluster)
            if handlers is not None:
                handlers.pop(handler, None)
                if not handlers:
                    del self.handlers[cluster]
            return
        fields = self.trigger_watchers.get(cluster, {})
        watchers = fields.get(trigger.key)
        if watchers is not None:
            watchers.remove(trigger.value, handler)
            if not len(watchers):
                del fields[trigger.key]
                if not fields:
                    del self.trigger_watchers[cluster]

    def event_handlers(self, cluster: str) -> list[EventHandler]:
        """All handlers of a cluster, with and without a trigger."""
        handlers = list(self.handlers.get(cluster, ()))
        for watchers in self.trigger_watchers.get(cluster, {}).values():
            handlers += watchers.handlers()
        return handlers

    @property
    def watcher_count(self) -> int:
        trigger_watchers = (each for fields in self.trigger_watchers.values() for each in fields.values())
        return sum(map(len, self.handlers.values())) + sum(map(len, trigger_watchers))

    def dispatch(self, event: CacheEvent) -> None:
        for scope in (event.cluster, "*"):
            handlers = list(self.handlers.get(scope, ()))
            if self.trigger_watchers:
                for watchers in self.trigger_watchers.get(scope, {}).values():
                    handlers += watchers.handlers_for(event)
            for handler in handlers:
                try:
                    handler(event)
                except Exception:
                    # A failing handler must not stop the other handlers or the delivery from the store.
                    log.exception("event handler of %s failed; removing it", self.key)
                    self._remove_failed_handler(scope, handler)

    def _remove_failed_handler(self, cluster: str, handler: EventHandler) -> None:
        self.remove_event_handler(cluster, handler)
        for watchers in self.trigger_watchers.get(cluster, {}).values():
            watchers.remove_everywhere(handler)

    def missed_events(self, cluster: str, revision: int, trigger: Trigger | None = None) -> list[CacheEvent]:
        """Events a handler would have received after that revision. A handler with a trigger must be registered
        already.
        """
        missed = self.history.after(cluster, revision)
        if trigger is None or len(missed) <= SCAN_LIMIT:
            return missed
        watchers = self.trigger_watchers[cluster][trigger.key]
        recent = watchers.recent_events(trigger.value, self.history.of_cluster(cluster))
        return events_after(list(recent), revision)

    def drop_oldest(self, cluster: str, count: int, revision: int, early: bool) -> None:
        """Drops the oldest events of a cluster: `count` of them, up to that revision. `early`: those of other clusters
        are kept for longer.
        """
        self.history.drop_oldest(cluster, count)
        if self.trigger_watchers:
            for scope in (cluster, "*"):
                for watchers in self.trigger_watchers.get(scope, {}).values():
                    if early and scope == "*":
                        watchers.forget_recent_events()
                    else:
                        watchers.trim(revision)

    def at_revision(self, cluster: str, revision: int) -> ObjectTable:
        """The table at an older revision, rebuilt by undoing later events."""
        return undo(self.table(cluster), self.history.after(cluster, revision))

    def stored_at_revision(self, revision: int) -> dict[str, ObjectTable]:
        """Every cluster's table at an older revision, stored objects only: no bootstrap objects are added for this."""
        events = self.history.by_cluster_after(revision)
        return {
            **self.tables,
            **{where: undo(self.tables.get(where) or ObjectTable(), made) for where, made in events.items()},
        }


Observer = Callable[[ResourceCache, CacheEvent], None]


class WatchCache:
    def __init__(self, bootstrap_source: BootstrapSource) -> None:
        self._bootstrap_source = bootstrap_source
        self.resource_caches: dict[str, ResourceCache] = {}
        self._by_group_resource: dict[tuple[str, str], ResourceCache] = {}
        self.usage = StoredUsage()
        self.history: WatchHistory[ResourceCache] = WatchHistory()
        self.revision = 0
        self.written_bytes = 0
        """Bytes of all writes since the start."""
        self._dropped_resources: set[str] = set()
        """Resources whose definition was deleted somewhere."""
        self._observers: dict[Observer, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self.traced_changes: WriteTraces | None = None
        """None if tracing is off."""

    def resource_cache(self, group: str, plural: str) -> ResourceCache:
        found = self._by_group_resource.get((group, plural))
        if found is None:
            found = self.resource_cache_by_key(f"{group or 'core'}/{plural}")
            self._by_group_resource[group, plural] = found
        return found

    def resource_cache_by_key(self, key: str) -> ResourceCache:
        kind = self.resource_caches.get(key)
        if kind is None:
            kind = self.resource_caches[key] = ResourceCache(key, self._bootstrap_source)
        return kind

    @property
    def watcher_count(self) -> int:
        return sum(kind.watcher_count for kind in self.resource_caches.values())

    def load(self, keys: Iterator[tuple[str, bytes, int]], revision: int) -> None:
        """Loads the state at the start of the window. `apply` delivers everything later."""
        for key, value, written in keys:
            kind_key, cluster, namespace, name = split_key(key)
            kind = self.resource_cache_by_key(kind_key)
            if value == TOMBSTONE:
                kind.tombstones.setdefault(cluster, {})[f"{namespace}/{name}"] = written
                continue
            table = kind.tables.get(cluster)
            if table is None:
                table = kind.tables[cluster] = ObjectTable()
            entry = CachedObject(namespace, name, written, inject_revision(value, written))
            table.entries[f"{namespace}/{name}"] = entry
            self.usage.load(cluster, kind_key, entry)
        for loaded in self.resource_caches.values():
            for table in loaded.tables.values():
                table.keys = sorted(table.entries)
        self.revision = self.history.oldest_revision = revision

    def apply(self, events: Sequence[StoreEvent]) -> None:
        """Receives the events of `Store.watch`."""
        for event in events:
            kind_key, cluster, namespace, name = split_key(event.key)
            kind = self.resource_cache_by_key(kind_key)
            change = kind.apply(event, cluster, namespace, name)
            self.revision = event.revision
            self.written_bytes += len(event.value) if event.value is not None else 0
            if change is not None:
                self.usage.count(kind_key, event.key, change)
                if self.traced_changes is not None:
                    change.traceparent = self.traced_changes.pop_traceparent(event.key, event.value)
                self._deliver(kind, change)
        self._wake_waiters()

    def _deliver(self, kind: ResourceCache, change: CacheEvent) -> None:
        self.history.append(kind, change)
        kind.dispatch(change)
        if self._observers:
            self._notify_observers(kind, change)
        self.history.shorten(change.cluster)

    def refresh_bootstrap(self, key: str, cluster: str) -> None:
        """Replaces the bootstrap objects of a resource in a cluster after what they are made of has changed. Called by
        the handler of that change, whose revision they get.
        """
        kind = self.resource_cache_by_key(key)
        for change in kind.refresh_bootstrap(cluster, self.revision):
            self._deliver(kind, change)

    def advance(self, revision: int) -> None:
        """Advances to a revision up to which the store holds no events for this cache."""
        self.revision = revision
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        while self._waiters:
            waiter = self._waiters.pop()
            if not waiter.done():
                waiter.set_result(None)

    def observe(self, observer: Observer) -> None:
        """Calls the observer for every event of every resource, in one order."""
        self._observers[observer] = None

    def unobserve(self, observer: Observer) -> None:
        self._observers.pop(observer, None)

    def _notify_observers(self, resource_cache: ResourceCache, event: CacheEvent) -> None:
        for observer in list(self._observers):
            try:
                observer(resource_cache, event)
            except Exception:
                log.exception("observer of all resources failed; removing it")
                self.unobserve(observer)

    def drop_cluster(self, cluster: str) -> None:
        """Forgets a deleted logical cluster. Its stored objects have been deleted before."""
        for kind in self.resource_caches.values():
            kind.tables.pop(cluster, None)
            kind.tombstones.pop(cluster, None)
        self.usage.forget(cluster)

    def on_definition_deleted(self, group: str, plural: str) -> None:
        self._dropped_resources.add(f"{group}/{plural}")

    def drop_unused(self) -> None:
        """Forgets deleted resources that no cluster has any more, when their last event is forgotten: clients can
        invent any number of them.
        """
        for key in list(self._dropped_resources):
            kind = self.resource_caches.get(key)
            if kind is not None:
                for cluster in [name for name, table in kind.tables.items() if not table.entries]:
                    del kind.tables[cluster]
                if kind.is_unused:
                    del self.resource_caches[key]
                    group, _, plural = key.partition("/")
                    self._by_group_resource.pop((group, plural), None)
            if kind is None or kind.tables or kind.is_unused:
                self._dropped_resources.discard(key)

    def drop_derived(self, cluster: str) -> None:
        for kind in self.resource_caches.values():
            kind.drop_derived(cluster)

    async def wait_for_revision(self, revision: int) -> None:
        """Waits until the cache holds that revision."""
        while self.revision < revision:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter


def store_key(kind: str, cluster: str, namespace: str, name: str) -> str:
    """`group/plural/cluster/namespace/name`: one resource over all clusters is one key range."""
    return f"{kind}/{cluster}/{namespace}/{name}"


def split_key(key: str) -> tuple[str, str, str, str]:
    group, plural, cluster, namespace, name = key.split("/", 4)
    return f"{group}/{plural}", cluster, namespace, name
