"""Implements the worker's cluster storage (`fleet.worker`) on the server's store and cache, below its API, to move
hosted clusters.

It also feeds the fence, so that the write guard knows every copy at the moment it is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.apiserver.cache import REMOVED, Change, split_key
from shoal.apiserver.encoding import stored
from shoal.apiserver.paths import ROOT
from shoal.apiserver.verbs.watch import end_watches
from shoal.assemble.server import ApiServer
from shoal.fleet.worker.contents import COPIES, hosted_of, in_order
from shoal.fleet.worker.data import Changed, Contents, Told
from shoal.fleet.worker.fence.fence import Fence
from shoal.kinds import embedded, fleet
from shoal.store.interface import Event, Store, Write

NOT_SQLITE = (
    "the store is etcd: it cannot take in a cluster as one write, and one that was refused an answer may still be done"
)


_COPIES = f"{COPIES}/{ROOT}/"


class HostedData:
    def __init__(self, server: ApiServer, store: Store, fence: Fence) -> None:
        """`store` is the one below the write guard."""
        self._server, self._store, self._fence = server, store, fence
        self._cache = server.core.cache
        self._told: Told | None = None
        self._roots: dict[str, str] = {}
        """Maps keys of objects of root that define hosted clusters, and of their copies, to the hosted cluster."""
        for kind in self._cache.kinds.values():
            table = kind.tables.get(ROOT)
            for each in table.entries.values() if table is not None else ():
                if not each.virtual:
                    self._note(f"{kind.key}/{ROOT}/{each.key}", each.data)
        store.watch(store.revision, self._deliver)
        fence.fences = not self.refuses
        fence.owner = lambda key: self._roots.get(key, "") if not key.startswith(_COPIES) else ""
        copies = self._cache.kind(fleet.GROUP, "managedclusters")
        for entry in copies.table(ROOT).entries.values():
            fence.copy_changed(embedded.hosted_name(entry.namespace, entry.name), entry.object())
        copies.listen(ROOT, self._copy_changed)
        fence.begin()

    def _copy_changed(self, change: Change) -> None:
        last = change.last
        copy = change.new.object() if change.new is not None else None
        self._fence.copy_changed(embedded.hosted_name(last.namespace, last.name), copy)

    @property
    def refuses(self) -> str:
        return "" if self._store.takes_together else NOT_SQLITE

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def token_key(self) -> str:
        return self._server.core.tokens.public_key

    def has(self, key: str) -> bool:
        return key in self._roots

    def contents(self, hosted: str) -> Contents:
        values = {key: value for key, (value, _) in self._stored(hosted).items()}
        return Contents(self._cache.revision, values)

    def follow(self, told: Told) -> None:
        self._told = told

    async def settled(self) -> None:
        await self._store.settled()

    async def heard(self) -> None:
        await self._server.heard()

    async def replace(self, hosted: str, entries: Mapping[str, bytes], above: int = 0) -> int:
        await self._store.settled()
        if not entries:
            end_watches(self._server.core, hosted)
        there = self._stored(hosted)
        gone = [key for key in there if key not in entries]
        # The objects that define the cluster are deleted last, as they are created first.
        writes = [Write(key, None, there[key][1]) for key in reversed(in_order(gone))]
        writes += [Write(key, entries[key], there.get(key, (b"", 0))[1]) for key in in_order(entries)]
        return await self._store.together(writes, above) if writes else self._store.revision

    def _stored(self, hosted: str) -> dict[str, tuple[bytes, int]]:
        """Returns values and revisions as the store has them."""
        found: dict[str, tuple[bytes, int]] = {}
        for kind in self._cache.kinds.values():
            table = kind.tables.get(hosted)
            for entry in table.entries.values() if table is not None else ():
                if not entry.virtual:
                    found[f"{kind.key}/{hosted}/{entry.key}"] = stored(entry.data), entry.revision
            for key, revision in kind.removed.get(hosted, {}).items():
                found[f"{kind.key}/{hosted}/{key}"] = REMOVED, revision
        for key, owner in self._roots.items():
            if owner == hosted:
                kind_key, _, namespace, name = split_key(key)
                entry = self._cache.stored(kind_key).table(ROOT).entries[f"{namespace}/{name}"]
                found[key] = stored(entry.data), entry.revision
        return found

    def _deliver(self, events: Sequence[Event]) -> None:
        changes = []
        for revision, key, value in events:
            hosted = self._note(key, value)
            # Other workers need only the immutable fields of a copy.
            if hosted and not key.startswith(_COPIES):
                changes.append(Changed(hosted, key, value, revision))
        if changes and self._told is not None:
            self._told(changes)

    def _note(self, key: str, value: bytes | None) -> str:
        """Returns the hosted cluster that owns the key, or owned it."""
        _, cluster, namespace, name = split_key(key)
        if cluster != ROOT:
            return cluster
        if key.startswith(_COPIES):
            owner = embedded.hosted_name(namespace, name)
        else:
            owner = hosted_of(key, value) or self._roots.get(key, "")
        if owner and value is not None:
            self._roots[key] = owner
        elif owner:
            self._roots.pop(key, None)
        return owner
