"""Informers shared by the reconcilers of Cluster API: one watch per kind, indexes, and read-your-writes.

A read after a write through the informer sees that write, so no reconciler acts twice on the same gap. Reconcilers wait
until all informers have synced.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from shoal.capi.quiet import Quiet
from shoal.client.reflector import CLUSTER, Key, Reflector, key_of
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.objects.errors import NotFound

Object = dict[str, Any]
Told = Callable[[Object], None]
"""Called with the current object, or with the last known one if it was deleted."""
Index = Callable[[Object], Iterable[Hashable]]

REMEMBERED_GONE = 10_000


class View:
    """Watches through `client`. With a wildcard client, writes go to the object's own logical cluster."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        clock: Clock,
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Index] | None = None,
        quiet: Quiet | None = None,
    ) -> None:
        """`debouncer` tracks the writes in flight."""
        self._client, self.kind = client, kind
        self._quiet = quiet or Quiet()
        self.name = f"capi watch of {kind.plural}"
        self.objects: dict[Key, Object] = {}
        self._indexes = dict(indexes or {})
        self._indexed: dict[tuple[str, Hashable], dict[Key, Object]] = {}
        self._listeners: list[Told] = []
        self._gone: deque[str] = deque(maxlen=REMEMBERED_GONE)
        self._gone_uids: set[str] = set()
        self._listed = asyncio.Event()
        self._reflector = Reflector(
            client, kind, clock, self._changed, labels=labels, fields=fields, listed=self._listed.set, shared=True
        )

    async def run(self) -> None:
        await self._reflector.run()

    async def listed(self) -> None:
        await self._listed.wait()

    def listen(self, told: Told) -> None:
        self._listeners.append(told)

    def get(self, namespace: str, name: str, cluster: str = "") -> Object | None:
        return self.objects.get((cluster, namespace, name))

    def by(self, index: str, value: Hashable) -> list[Object]:
        """Sorted by key."""
        found = self._indexed.get((index, value))
        return [found[key] for key in sorted(found)] if found else []

    async def create(self, obj: Object, cluster: str = "") -> Object:
        with self._quiet.writing():
            made = await self._at(cluster).create(self.kind, obj, obj["metadata"].get("namespace", ""))
        return self._learn(made, cluster)

    async def fetch(self, namespace: str, name: str, cluster: str = "") -> Object:
        """Reads the object from the server. For use when the cache is known to be behind."""
        return self._learn(await self._at(cluster).get(self.kind, name, namespace), cluster)

    async def patch(self, obj: Object, patch: Object) -> Object:
        """A merge patch with the resourceVersion of `obj` as precondition."""
        cluster, namespace, name = key_of(obj)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"], **(patch.get("metadata") or {})}
        return await self._written(
            obj, self._at(cluster).merge(self.kind, name, {**patch, "metadata": metadata}, namespace)
        )

    async def update_status(self, obj: Object) -> Object:
        return await self._written(obj, self._at(key_of(obj)[0]).update(self.kind, obj, "status"))

    async def update(self, obj: Object) -> Object:
        return await self._written(obj, self._at(key_of(obj)[0]).update(self.kind, obj))

    async def delete(self, obj: Object) -> None:
        """Deletes with the uid as precondition: an object that was recreated meanwhile is left alone. A missing object
        is no error.
        """
        cluster, namespace, name = key_of(obj)
        uid = obj["metadata"]["uid"]
        try:
            with self._quiet.writing():
                answer = await self._at(cluster).delete(self.kind, name, namespace, uid=uid)
        except NotFound:
            self._forget(key_of(obj))
            return
        if answer.get("metadata", {}).get("deletionTimestamp"):
            self._learn(answer, cluster)

    def _at(self, cluster: str) -> Client:
        return self._client.at(cluster) if cluster else self._client

    async def _written(self, obj: Object, write: Any) -> Object:
        try:
            with self._quiet.writing():
                answer = await write
            return self._learn(answer, key_of(obj)[0])
        except NotFound:
            self._forget(key_of(obj))
            raise

    def _learn(self, obj: Object, cluster: str) -> Object:
        """Stores the response of a write, unless the watch is already ahead."""
        obj["metadata"].pop("managedFields", None)
        if cluster:
            obj = _seen_from_afar(obj, cluster)
        if obj["metadata"]["uid"] not in self._gone_uids and _is_kept(obj):
            self._put(key_of(obj), obj)
        return obj

    def _changed(self, key: Key, obj: Object | None) -> None:
        last = self.objects.get(key)
        if obj is not None:
            # A logical cluster that was migrated away and returns has the same uids.
            self._gone_uids.discard(obj["metadata"]["uid"])
            self._put(key, obj)
        elif last is not None:
            self._forget(key)
        shown = obj or last
        if shown is not None:
            for told in self._listeners:
                told(shown)

    def _put(self, key: Key, obj: Object) -> None:
        last = self.objects.get(key)
        if last is not None:
            if _revision(last) > _revision(obj):
                return
            self._unindex(key, last)
        self.objects[key] = obj
        for name, index in self._indexes.items():
            for value in index(obj):
                self._indexed.setdefault((name, value), {})[key] = obj

    def _forget(self, key: Key) -> None:
        last = self.objects.pop(key, None)
        if last is None:
            return
        self._unindex(key, last)
        if len(self._gone) == REMEMBERED_GONE:
            self._gone_uids.discard(self._gone[0])
        self._gone.append(last["metadata"]["uid"])
        self._gone_uids.add(last["metadata"]["uid"])

    def _unindex(self, key: Key, obj: Object) -> None:
        for name, index in self._indexes.items():
            for value in index(obj):
                found = self._indexed.get((name, value))
                if found is not None:
                    found.pop(key, None)
                    if not found:
                        del self._indexed[name, value]


def _seen_from_afar(obj: Object, cluster: str) -> Object:
    """Adds the cluster annotation, as in wildcard responses."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), CLUSTER: cluster}}}


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _is_kept(obj: Object) -> bool:
    """False for the response of a write that removed the last finalizer of a deleted object."""
    metadata = obj["metadata"]
    return "deletionTimestamp" not in metadata or bool(metadata.get("finalizers"))
