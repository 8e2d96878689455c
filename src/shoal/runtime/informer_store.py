"""The store behind shared informers: the objects of one kind, their indexes, and own writes that the watch has not
delivered yet.

The store runs its reflector while it has consumers. Without any it is empty, and the next consumer causes a new list.
A store with a resumable informer keeps its objects instead, and its watch resumes where it was interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from shoal.client.reflector import CLUSTER_ANNOTATION, Key, Reflector, Transform, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.objects.ownership import controller_of

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
IndexFunc = Callable[[Key, Object], Iterable[Hashable]]
"""Returns the values under which an object is found. The function names its index, so it must be module-level."""
_Index = dict[Hashable, dict[Key, Object]]

INFORMER_ACCOUNT = "shared-informers"
"""The account that lists and watches for all controllers of a process, as in kube-controller-manager."""
UNTIL_EVENT = 2**63
"""As the revision of a write: it is shown until the next event of its key."""


def by_cluster(key: Key, obj: Object) -> tuple[str]:
    """Index by logical cluster."""
    return (key[0],)


def by_namespace(key: Key, obj: Object) -> tuple[tuple[str, str]]:
    """Index by logical cluster and namespace."""
    return (key[:2],)


def by_controller(key: Key, obj: Object) -> tuple[tuple[str, str, str]]:
    """Index by logical cluster, namespace and uid of the controller; the uid of an orphan is empty. Owner and object
    are always in one logical cluster and one namespace, so an ownerReference with the uid of an object elsewhere
    matches nothing.
    """
    reference = controller_of(obj)
    return ((key[0], key[1], str(reference.get("uid") or "?") if reference is not None else ""),)


class Consumer(Protocol):
    def deliver(self, key: Key, old: Object | None, new: Object | None) -> None: ...

    def deliver_list(self, old: dict[Key, Object]) -> None:
        """Called after a complete list, with the objects as they were delivered before it."""


class InformerStore:
    """The sink of one reflector."""

    @classmethod
    def for_client(
        cls,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        *,
        labels: str,
        fields: str,
        poll_until_served: float | None,
        transform: Transform,
    ) -> InformerStore:
        """The store of the client's informers for this list; a new one if the client does not share stores."""

        key = (client.resource_path(gvr), labels, fields, poll_until_served, transform)
        store: InformerStore | None = client.informers.get(key) if client.informers is not None else None
        if store is None:
            store = cls(transform)
            store._reflector = Reflector(
                client.as_controller(INFORMER_ACCOUNT) if client.informers is not None else client,
                gvr,
                clock,
                store,
                labels=labels,
                fields=fields,
                poll_until_served=poll_until_served,
                transform=transform,
            )
            if client.informers is not None:
                client.informers[key] = store
        return store

    _reflector: Reflector

    def __init__(self, transform: Transform) -> None:
        self._transform = transform
        self.objects: dict[Key, Object] = {}
        """Objects as readers see them: with own writes."""
        self.revision = 0
        """The reflector has delivered every write up to this revision."""
        self._indexes: dict[IndexFunc, _Index] = {}
        self._ahead: dict[Key, tuple[int, Object | None]] = {}
        """Keys whose own write is ahead of the watch: the revision of the write, and the object as it was delivered."""
        self._consumers: list[Consumer] = []
        self._has_listed = False
        self.is_resumable = False
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def attach(self, consumer: Consumer) -> AsyncIterator[None]:
        """Delivers to the consumer while the context is open."""
        self._consumers.append(consumer)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._reflector.run())
        try:
            if self._has_listed:
                consumer.deliver_list({})
            yield
        finally:
            self._consumers.remove(consumer)
            if not self._consumers:
                task, self._task = self._task, None
                if not self.is_resumable:
                    self._clear()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _clear(self) -> None:
        self._reflector.reset()
        self.objects, self._ahead, self._has_listed, self.revision = {}, {}, False, 0
        self._indexes = {function: {} for function in self._indexes}

    # --- indexes ---

    def add_indexers(self, functions: Iterable[IndexFunc]) -> None:
        for function in functions:
            if function not in self._indexes:
                index = self._indexes[function] = {}
                for key, obj in self.objects.items():
                    _insert(index, function, key, obj)

    def by_index(self, function: IndexFunc, value: Hashable) -> list[Object]:
        objects = self._indexes[function].get(value)
        return [objects[key] for key in sorted(objects)] if objects else []

    # --- what the reflector reads ---

    def replace(self, objects: dict[Key, Object], revision: int) -> None:
        old = self.delivered_objects()
        still_ahead = {
            key: (written, self.objects.get(key))
            for key, (written, _) in self._ahead.items()
            if revision < written != UNTIL_EVENT
        }
        self.objects, self.revision, self._has_listed, self._ahead = objects, revision, True, {}
        functions, self._indexes = tuple(self._indexes), {}
        self.add_indexers(functions)
        for key, (written, obj) in still_ahead.items():
            self._show(key, obj, written)
        for consumer in tuple(self._consumers):
            consumer.deliver_list(old)

    def apply(self, key: Key, obj: Object | None, revision: int) -> None:
        self.revision = revision
        if key not in self._ahead:
            old = self.objects.get(key)
            self._set(key, obj)
        else:
            written, old = self._ahead[key]
            if revision < written != UNTIL_EVENT:
                self._ahead[key] = written, obj
            else:
                del self._ahead[key]
                self._set(key, obj)
        self._drop_reached()
        for consumer in tuple(self._consumers):
            consumer.deliver(key, old, obj)

    def advance(self, revision: int) -> None:
        self.revision = revision
        self._drop_reached()

    def delivered_objects(self) -> dict[Key, Object]:
        """The objects without own writes, as consumers got them."""
        if not self._ahead:
            return self.objects
        objects = dict(self.objects)
        for key, (_, obj) in self._ahead.items():
            if obj is None:
                objects.pop(key, None)
            else:
                objects[key] = obj
        return objects

    # --- own writes ---

    def observe_write(self, obj: Object, cluster: str) -> Object:
        """Returns the object as it is shown from now on."""
        if cluster:
            obj = _with_cluster_annotation(obj, cluster)
        obj = self._transform(obj)
        key, written = key_of(obj), int(obj["metadata"]["resourceVersion"])
        current = self.objects.get(key)
        is_newer = current is None or written > int(current["metadata"]["resourceVersion"])
        if self._consumers and written > self.revision and is_newer:
            self._show(key, obj if _still_exists(obj) else None, written)
        return obj

    def observe_missing(self, obj: Object) -> None:
        key = key_of(obj)
        current = self.objects.get(key)
        if current is not None and current["metadata"]["uid"] == obj["metadata"]["uid"]:
            self._show(key, None, UNTIL_EVENT)

    def _show(self, key: Key, obj: Object | None, written: int) -> None:
        delivered = self._ahead[key][1] if key in self._ahead else self.objects.get(key)
        self._ahead[key] = written, delivered
        self._set(key, obj)

    def _drop_reached(self) -> None:
        """Ends the display of own writes that the reflector has passed without an event, because the object does not
        match the selectors any more.
        """
        for key in [key for key, (written, _) in self._ahead.items() if written <= self.revision]:
            self._set(key, self._ahead.pop(key)[1])

    def _set(self, key: Key, obj: Object | None) -> None:
        old = self.objects.get(key)
        for function, index in self._indexes.items():
            if old is not None:
                _remove(index, function, key, old)
            if obj is not None:
                _insert(index, function, key, obj)
        if obj is not None:
            self.objects[key] = obj
        elif old is not None:
            del self.objects[key]


def _index_values(function: IndexFunc, key: Key, obj: Object) -> Iterable[Hashable]:
    """An object that the function cannot handle is not in its index. Other objects and indexes are not affected."""
    try:
        return tuple(function(key, obj))
    except Exception:
        log.exception("index function %s failed for %s", function.__name__, "/".join(key))
        return ()


def _insert(index: _Index, function: IndexFunc, key: Key, obj: Object) -> None:
    for value in _index_values(function, key, obj):
        index.setdefault(value, {})[key] = obj


def _remove(index: _Index, function: IndexFunc, key: Key, obj: Object) -> None:
    for value in _index_values(function, key, obj):
        bucket = index.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del index[value]


def _with_cluster_annotation(obj: Object, cluster: str) -> Object:
    """Adds the cluster annotation, as in wildcard responses."""
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: cluster}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def _still_exists(obj: Object) -> bool:
    """False for the response of a write that removed the last finalizer of a deleted object. In its grace period the
    object exists without finalizers as well.
    """
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" not in metadata
        or bool(metadata.get("finalizers"))
        or bool(metadata.get("deletionGracePeriodSeconds"))
    )
