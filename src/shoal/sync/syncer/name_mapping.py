"""Maps hub names to downstream names where they differ, from the annotations of the downstream objects.

A downstream object keeps the name it was created with. An object whose desired name is used by another object waits
until that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.runtime.controller import RequeueError
from shoal.sync.syncer.decide import is_from_hub
from shoal.sync.syncer.hub_informers import SyncedResource, SyncKey
from shoal.sync.syncer.transform import downstream_name, hub_name

Object = dict[str, Any]
DownstreamKey = tuple[SyncedResource, str, str]
"""Resource, namespace and name in the cluster."""


class NameMapping:
    """Of one cluster. SyncKeys have hub namespaces, DownstreamKeys the cluster's."""

    def __init__(self, hub: str, downstream: Mapping[SyncedResource, Reflector]) -> None:
        self._hub, self._downstream = hub, downstream
        self._hub_names: dict[DownstreamKey, str] = {}
        """Hub names of downstream objects with another name."""
        self._downstream_names: dict[DownstreamKey, set[str]] = {}
        """The reverse, by downstream namespace and hub name."""
        self._waiters: dict[DownstreamKey, set[SyncKey]] = {}
        self._reserved: set[DownstreamKey] = set()

    def observe(self, resource: SyncedResource, key: Key, copy: Object | None) -> str:
        """Records a downstream object and returns its hub name, also when it was just deleted."""
        downstream_key = (resource, key[1], key[2])
        previous = self._hub_names.pop(downstream_key, "")
        if previous:
            self._downstream_names[resource, key[1], previous].discard(key[2])
            if not self._downstream_names[resource, key[1], previous]:
                del self._downstream_names[resource, key[1], previous]
        if copy is None:
            return previous or key[2]
        name = hub_name(copy) if is_from_hub(copy, self._hub) else key[2]
        if name != key[2]:
            self._hub_names[downstream_key] = name
            self._downstream_names.setdefault((resource, key[1], name), set()).add(key[2])
        return name

    def name_for(self, sync_key: SyncKey, namespace: str, obj: Object | None) -> str:
        """The current or desired downstream name of an object in that namespace."""
        desired = downstream_name(obj) if obj is not None else sync_key.name
        existing = self._downstream_names.get((sync_key.resource, namespace, sync_key.name), set())
        reflector = self._downstream.get(sync_key.resource)
        same_name = reflector.objects.get(("", namespace, sync_key.name)) if reflector is not None else None
        if same_name is not None and is_from_hub(same_name, self._hub) and hub_name(same_name) == sync_key.name:
            existing = {*existing, sync_key.name}
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
