"""Implements the worker's cluster storage (`fleet.worker`) on the server's store and cache, below its API, to move
hosted clusters.

It also feeds the fence, so that the write guard knows every copy at the moment it is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.apiserver.cache.cacher import TOMBSTONE, CacheEvent, split_key
from shoal.apiserver.cache.storage_form import strip_revision
from shoal.apiserver.pki.cluster_keys import is_key_entry
from shoal.apiserver.pki.former_ca import former_token_keys
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.verbs.watch import terminate_watches
from shoal.assemble.server.api_server import ApiServer
from shoal.fleet.worker.cluster_keys import (
    COPY_RESOURCE,
    TEMPLATES_PREFIX,
    hosted_cluster_of,
    is_shared_template,
    write_order,
)
from shoal.fleet.worker.cluster_storage import ChangeHandler, ClusterContents, StoreChange
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1
from shoal.store.interface import Store, StoreEvent, WriteOp

ETCD_UNSUPPORTED = (
    "an etcd store is not supported: it cannot import a cluster atomically, "
    "and a write that timed out may still succeed"
)


_COPIES_PREFIX = f"{COPY_RESOURCE}/{ROOT}/"
_SHARED = ""
"""Instead of a hosted cluster: all hosted clusters of the namespace."""


class HostedClusterStorage:
    def __init__(self, server: ApiServer, store: Store, fence: WriteFence) -> None:
        """`store` is the one below the write guard."""
        self._server, self._store, self._fence = server, store, fence
        self._cache = server.core.cache
        self._handler: ChangeHandler | None = None
        self._owner_by_root_key: dict[str, str] = {}
        """Maps keys of objects of root that define hosted clusters, and of their copies, to the hosted cluster. Keys of
        shared machine templates map to `_SHARED`.
        """
        for kind in self._cache.resource_caches.values():
            table = kind.tables.get(ROOT)
            for each in table.entries.values() if table is not None else ():
                if not each.virtual:
                    self._track_owner(f"{kind.key}/{ROOT}/{each.key}", each.data)
        store.watch(store.revision, self._on_events)
        fence.supports_fencing = not self.unsupported_reason
        fence.owner_of_key = lambda key: (
            self._owner_by_root_key.get(key, "") if not key.startswith(_COPIES_PREFIX) else ""
        )
        copies = self._cache.resource_cache(infrav1.GROUP, "managedclusters")
        for entry in copies.table(ROOT).entries.values():
            fence.on_copy(embedded.logical_cluster_name(entry.namespace, entry.name), entry.object())
        copies.add_event_handler(ROOT, self._on_copy_event)
        fence.mark_synced()

    def _on_copy_event(self, change: CacheEvent) -> None:
        last = change.latest
        copy = change.new.object() if change.new is not None else None
        self._fence.on_copy(embedded.logical_cluster_name(last.namespace, last.name), copy)

    @property
    def unsupported_reason(self) -> str:
        return "" if self._store.supports_transactions else ETCD_UNSUPPORTED

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def token_keys(self) -> tuple[str, ...]:
        return former_token_keys(self._server.settings.directory)

    def has(self, key: str) -> bool:
        return key in self._owner_by_root_key

    def contents(self, hosted: str) -> ClusterContents:
        values = {key: self._export_value(key, value) for key, (value, _) in self._stored_entries(hosted).items()}
        prefix = f"{TEMPLATES_PREFIX}{embedded.owner_of_logical_cluster(hosted)[0]}/"
        shared = (key for key, owner in self._owner_by_root_key.items() if owner == _SHARED and key.startswith(prefix))
        return ClusterContents(self._cache.revision, values, {key: self._stored_entry(key)[0] for key in shared})

    def set_change_handler(self, handler: ChangeHandler) -> None:
        self._handler = handler

    async def flush(self) -> None:
        await self._store.flush()

    async def wait_for_informers(self) -> None:
        await self._server.wait_in_process_watches()

    async def replace(
        self, hosted: str, entries: Mapping[str, bytes], min_revision: int = 0, templates: Mapping[str, bytes] = {}
    ) -> int:
        await self._store.flush()
        if not entries:
            terminate_watches(self._server.core, hosted)
        current = self._stored_entries(hosted)
        deleted_keys = [key for key in current if key not in entries]
        # The objects that define the cluster are deleted last, as they are created first.
        operations = [WriteOp(key, None, current[key][1]) for key in reversed(write_order(deleted_keys))]
        operations += [WriteOp(key, value, 0) for key, value in templates.items() if not self._exists(key)]
        operations += [
            WriteOp(key, self._import_value(key, entries[key]), current.get(key, (b"", 0))[1])
            for key in write_order(entries)
        ]
        return await self._store.transaction(operations, min_revision) if operations else self._store.revision

    def _stored_entries(self, hosted: str) -> dict[str, tuple[bytes, int]]:
        """Returns values and revisions as the store has them."""
        entries: dict[str, tuple[bytes, int]] = {}
        for kind in self._cache.resource_caches.values():
            table = kind.tables.get(hosted)
            for entry in table.entries.values() if table is not None else ():
                if not entry.virtual:
                    entries[f"{kind.key}/{hosted}/{entry.key}"] = strip_revision(entry.data), entry.revision
            for key, revision in kind.tombstones.get(hosted, {}).items():
                entries[f"{kind.key}/{hosted}/{key}"] = TOMBSTONE, revision
        for key, owner in self._owner_by_root_key.items():
            if owner == hosted:
                entries[key] = self._stored_entry(key)
        return entries

    def _stored_entry(self, key: str) -> tuple[bytes, int]:
        """Returns value and revision of an object of root."""
        kind_key, _, namespace, name = split_key(key)
        entry = self._cache.resource_cache_by_key(kind_key).table(ROOT).entries[f"{namespace}/{name}"]
        return strip_revision(entry.data), entry.revision

    def _exists(self, key: str) -> bool:
        kind_key, _, namespace, name = split_key(key)
        return f"{namespace}/{name}" in self._cache.resource_cache_by_key(kind_key).table(ROOT).entries

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        changes = []
        for revision, key, value in events:
            former = self._owner_by_root_key.get(key)
            owner = self._track_owner(key, value)
            if key.startswith(_COPIES_PREFIX):
                continue  # Other workers need only the immutable fields of a copy.
            if owner is not None:
                changes.append(StoreChange(owner, key, value and self._export_value(key, value), revision))
            if former is not None and former != owner:
                changes.append(StoreChange(former, key, None, revision))
        if changes and self._handler is not None:
            self._handler(changes)

    def _export_value(self, key: str, value: bytes) -> bytes:
        """Keys of clusters are encrypted with a key of this server, which the next one does not have."""
        return self._server.core.keys.export_value(key, value) if is_key_entry(key) else value

    def _import_value(self, key: str, value: bytes) -> bytes:
        return self._server.core.keys.import_value(key, value) if is_key_entry(key) else value

    def _track_owner(self, key: str, value: bytes | None) -> str | None:
        """Returns the hosted cluster that the key belongs to, or `_SHARED`; None: nobody."""
        _, cluster, namespace, name = split_key(key)
        if cluster != ROOT:
            return cluster
        owner = None
        if value is not None and key.startswith(_COPIES_PREFIX):
            owner = embedded.logical_cluster_name(namespace, name)
        elif value is not None:
            owner = hosted_cluster_of(key, value) or (_SHARED if is_shared_template(key, value) else None)
        if owner is None:
            self._owner_by_root_key.pop(key, None)
        else:
            self._owner_by_root_key[key] = owner
        return owner
