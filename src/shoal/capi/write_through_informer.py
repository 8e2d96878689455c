"""Informers shared by the reconcilers of Cluster API: one watch per kind, indexes, and read-your-writes.

A read after a write through the informer sees that write, so no reconciler acts twice on the same gap. Reconcilers wait
until all informers have synced.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from shoal.capi.status_debouncer import StatusDebouncer
from shoal.client.reflector import CLUSTER_ANNOTATION, Key, Reflector, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.objects.errors import NotFound

Object = dict[str, Any]
EventHandler = Callable[[Object], None]
"""Called with the current object, or with the last known one if it was deleted."""
IndexFunc = Callable[[Object], Iterable[Hashable]]

MAX_TOMBSTONES = 10_000


class WriteThroughInformer:
    """Watches through `client`. With a wildcard client, writes go to the object's own logical cluster."""

    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        *,
        labels: str = "",
        fields: str = "",
        indexers: Mapping[str, IndexFunc] | None = None,
        debouncer: StatusDebouncer | None = None,
    ) -> None:
        """`debouncer` tracks the writes in flight."""
        self._client, self.gvr = client, gvr
        self._debouncer = debouncer or StatusDebouncer()
        self.name = f"capi watch of {gvr.resource}"
        self.objects: dict[Key, Object] = {}
        self._indexers = dict(indexers or {})
        self._indexed: dict[tuple[str, Hashable], dict[Key, Object]] = {}
        self._handlers: list[EventHandler] = []
        self._tombstones: deque[str] = deque(maxlen=MAX_TOMBSTONES)
        self._deleted_uids: set[str] = set()
        self._sync_event = asyncio.Event()
        self._reflector = Reflector(
            client,
            gvr,
            clock,
            self._handle_object,
            labels=labels,
            fields=fields,
            on_sync=self._sync_event.set,
            shared=True,
        )

    async def run(self) -> None:
        await self._reflector.run()

    async def wait_for_sync(self) -> None:
        await self._sync_event.wait()

    def add_event_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    def get(self, namespace: str, name: str, cluster: str = "") -> Object | None:
        return self.objects.get((cluster, namespace, name))

    def by_index(self, index: str, value: Hashable) -> list[Object]:
        """Sorted by key."""
        objects = self._indexed.get((index, value))
        return [objects[key] for key in sorted(objects)] if objects else []

    async def create(self, obj: Object, cluster: str = "") -> Object:
        with self._debouncer.track_write():
            created = await self._client_for(cluster).create(self.gvr, obj, obj["metadata"].get("namespace", ""))
        return self._observe_write(created, cluster)

    async def get_live(self, namespace: str, name: str, cluster: str = "") -> Object:
        """Reads the object from the server. For use when the cache is known to be behind."""
        return self._observe_write(await self._client_for(cluster).get(self.gvr, name, namespace), cluster)

    async def patch(self, obj: Object, patch: Object) -> Object:
        """A merge patch with the resourceVersion of `obj` as precondition."""
        cluster, namespace, name = key_of(obj)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"], **(patch.get("metadata") or {})}
        return await self._write(
            obj, self._client_for(cluster).merge_patch(self.gvr, name, {**patch, "metadata": metadata}, namespace)
        )

    async def update_status(self, obj: Object) -> Object:
        return await self._write(obj, self._client_for(key_of(obj)[0]).update(self.gvr, obj, "status"))

    async def update(self, obj: Object) -> Object:
        return await self._write(obj, self._client_for(key_of(obj)[0]).update(self.gvr, obj))

    async def delete(self, obj: Object) -> None:
        """Deletes with the uid as precondition: an object that was recreated meanwhile is left alone. A missing object
        is no error.
        """
        cluster, namespace, name = key_of(obj)
        uid = obj["metadata"]["uid"]
        try:
            with self._debouncer.track_write():
                response = await self._client_for(cluster).delete(self.gvr, name, namespace, uid=uid)
        except NotFound:
            self._forget(key_of(obj))
            return
        if response.get("metadata", {}).get("deletionTimestamp"):
            self._observe_write(response, cluster)

    def _client_for(self, cluster: str) -> Client:
        return self._client.in_cluster(cluster) if cluster else self._client

    async def _write(self, obj: Object, write: Any) -> Object:
        try:
            with self._debouncer.track_write():
                response = await write
            return self._observe_write(response, key_of(obj)[0])
        except NotFound:
            self._forget(key_of(obj))
            raise

    def _observe_write(self, obj: Object, cluster: str) -> Object:
        """Stores the response of a write, unless the watch is already ahead."""
        obj["metadata"].pop("managedFields", None)
        if cluster:
            obj = _with_cluster_annotation(obj, cluster)
        if obj["metadata"]["uid"] not in self._deleted_uids and _still_exists(obj):
            self._store(key_of(obj), obj)
        return obj

    def _handle_object(self, key: Key, obj: Object | None) -> None:
        last = self.objects.get(key)
        if obj is not None:
            # A logical cluster that was migrated away and returns has the same uids.
            self._deleted_uids.discard(obj["metadata"]["uid"])
            self._store(key, obj)
        elif last is not None:
            self._forget(key)
        current = obj or last
        if current is not None:
            for handler in self._handlers:
                handler(current)

    def _store(self, key: Key, obj: Object) -> None:
        last = self.objects.get(key)
        if last is not None:
            if _revision(last) > _revision(obj):
                return
            self._unindex(key, last)
        self.objects[key] = obj
        for name, index in self._indexers.items():
            for value in index(obj):
                self._indexed.setdefault((name, value), {})[key] = obj

    def _forget(self, key: Key) -> None:
        last = self.objects.pop(key, None)
        if last is None:
            return
        self._unindex(key, last)
        if len(self._tombstones) == MAX_TOMBSTONES:
            self._deleted_uids.discard(self._tombstones[0])
        self._tombstones.append(last["metadata"]["uid"])
        self._deleted_uids.add(last["metadata"]["uid"])

    def _unindex(self, key: Key, obj: Object) -> None:
        for name, index in self._indexers.items():
            for value in index(obj):
                bucket = self._indexed.get((name, value))
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del self._indexed[name, value]


def _with_cluster_annotation(obj: Object, cluster: str) -> Object:
    """Adds the cluster annotation, as in wildcard responses."""
    metadata = obj["metadata"]
    return {
        **obj,
        "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: cluster}},
    }


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _still_exists(obj: Object) -> bool:
    """False for the response of a write that removed the last finalizer of a deleted object."""
    metadata = obj["metadata"]
    return "deletionTimestamp" not in metadata or bool(metadata.get("finalizers"))
