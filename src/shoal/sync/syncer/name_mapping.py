"""Maps hub names to downstream names where they differ, by an index of the downstream objects' annotations.

A downstream object keeps the name it was created with. An object whose desired name is used by another object waits
until that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.client.reflector import Key
from shoal.runtime.controller import RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.syncer.decide import is_from_hub, source_of
from shoal.sync.syncer.hub_informers import SyncedResource, SyncKey
from shoal.sync.syncer.transform import downstream_name, hub_name

Object = dict[str, Any]
DownstreamKey = tuple[SyncedResource, str, str]
"""Resource, namespace and name in the cluster."""


def by_source(key: Key, copy: Object) -> tuple[tuple[str, str, str]]:
    """Index by the hub of a downstream object, its downstream namespace, and its name on the hub."""
    return ((source_of(copy)[0], key[1], hub_name(copy)),)


class NameMapping:
    """Of one cluster. SyncKeys have hub namespaces, DownstreamKeys the cluster's."""

    def __init__(self, hub: str, downstream: Mapping[SyncedResource, Informer]) -> None:
        """The informers are indexed `by_source`."""
        self._hub, self._downstream = hub, downstream
        self._waiters: dict[DownstreamKey, set[SyncKey]] = {}
        self._reserved: set[DownstreamKey] = set()

    def hub_name_of(self, key: Key, copy: Object | None) -> str:
        """The hub name of a downstream object, as it was last seen."""
        return hub_name(copy) if copy is not None and is_from_hub(copy, self._hub) else key[2]

    def name_for(self, sync_key: SyncKey, namespace: str, obj: Object | None) -> str:
        """The current or desired downstream name of an object in that namespace."""
        desired = downstream_name(obj) if obj is not None else sync_key.name
        informer = self._downstream.get(sync_key.resource)
        copies = informer.by_index(by_source, (self._hub, namespace, sync_key.name)) if informer is not None else ()
        existing = {copy["metadata"]["name"] for copy in copies}
        return desired if not existing or desired in existing else min(existing)

    def wait_for_name(self, sync_key: SyncKey, namespace: str, name: str) -> None:
        self._waiters.setdefault((sync_key.resource, namespace, name), set()).add(sync_key)

    def pop_waiters(self, resource: SyncedResource, key: Key) -> set[SyncKey]:
        """Removes and returns the keys that wait for the name."""
        return self._waiters.pop((resource, key[1], key[2]), set())

    @contextmanager
    def reserve(self, sync_key: SyncKey, namespace: str, name: str) -> Iterator[None]:
        """Serialises objects that want the same name, so that the second sees the first's downstream object."""
        downstream_key = (sync_key.resource, namespace, name)
        if downstream_key in self._reserved:
            raise RequeueError(f"another object with the downstream name {name} is being synced")
        self._reserved.add(downstream_key)
        try:
            yield
        finally:
            self._reserved.discard(downstream_key)
