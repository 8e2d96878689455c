"""A reflector: keeps a local store of one kind up to date by list and watch.

Broken watches, timeouts and 410s lead to a resumed watch or a new list. Objects that vanished meanwhile are reported as
deleted only after a complete list. A store may be shared by several reflectors: it is then listed, watched and held in
memory once. Objects of a shared store must not be modified and have no `managedFields` (an update without them keeps
those on the server).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import Expired, NotFound, StatusError

log = logging.getLogger("shoal.client")

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Logical cluster (empty unless the client is the wildcard one), namespace, name."""
ObjectHandler = Callable[[Key, Object | None], None]
"""Called for every change. None: the object was deleted."""
Transform = Callable[[Object], Object]

CLUSTER_ANNOTATION = "shoal.dev/cluster"
BASE_DELAY, MAX_DELAY = 0.2, 30.0


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return (
        (metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION, ""),
        metadata.get("namespace", ""),
        metadata["name"],
    )


class Reflector:
    """One controller's reflector of a kind: its handlers and its sync state."""

    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        handler: ObjectHandler,
        *,
        labels: str = "",
        fields: str = "",
        poll_until_served: float | None = None,
        on_sync: Callable[[], None] | None = None,
        shared: bool = False,
        transform: Transform | None = None,
    ) -> None:
        """`on_sync` is called after each complete list. `poll_until_served`: seconds between silent polls of a kind
        that the server may serve later. `shared`: uses the client's shared store for the same list, if the client
        has shared stores; only for controllers that never modify the objects they receive. `transform`: maps each
        object before it is stored and delivered; only without `shared`.
        """
        self.handler, self.on_sync = handler, on_sync
        self.has_synced = False
        """A complete list has been delivered to the handler."""
        self._store = _ReflectorStore(client, gvr, clock, labels, fields, poll_until_served, transform)
        if shared and client.informers is not None:
            shared_store = _SharedReflectorStore(client, gvr, clock, labels, fields, poll_until_served)
            self._store = client.informers.setdefault(
                (client.resource_path(gvr), labels, fields, poll_until_served), shared_store
            )

    @property
    def objects(self) -> dict[Key, Object]:
        return self._store.objects

    @property
    def revision(self) -> int:
        """Every write up to this revision has been seen; 0 before the first sync."""
        return int(self._store.revision or 0) if self.has_synced else 0

    async def run(self) -> None:
        await self._store.attach(self)


class _ReflectorStore:
    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        labels: str,
        fields: str,
        poll_until_served: float | None,
        transform: Transform | None = None,
    ) -> None:
        self._client, self._gvr, self._clock = client, gvr, clock
        self._labels, self._fields, self._poll_until_served, self._transform = (
            labels,
            fields,
            poll_until_served,
            transform,
        )
        self._reflectors: list[Reflector] = []
        self._run_lock = asyncio.Lock()
        self._has_listed = False
        self.objects: dict[Key, Object] = {}
        self.revision = ""

    async def attach(self, reflector: Reflector) -> None:
        """The first reflector lists and watches for all. When it stops, the next continues at the same revision."""
        self._reflectors.append(reflector)
        try:
            if self._has_listed and not reflector.has_synced:
                self._deliver_list(reflector, ())
            async with self._run_lock:
                await self._run()
        finally:
            self._reflectors.remove(reflector)

    def _deliver_list(self, reflector: Reflector, deleted: tuple[Key, ...]) -> None:
        reflector.has_synced = True
        for key, obj in self.objects.items():
            reflector.handler(key, obj)
        for key in deleted:
            reflector.handler(key, None)
        if reflector.on_sync is not None:
            reflector.on_sync()

    def _deliver(self, key: Key, obj: Object | None) -> None:
        for reflector in self._reflectors:
            reflector.handler(key, obj)

    async def _run(self) -> None:
        delay = BASE_DELAY
        while True:
            try:
                if not self.revision:
                    await self._list()
                if await self._watch():
                    delay = BASE_DELAY
                    continue
                log.info("watch of %s ended without an event; retrying in %.1f s", self._gvr.resource, delay)
            except Expired:
                self.revision = ""
                continue
            except (StatusError, Unreachable) as error:
                if self._poll_until_served is not None and isinstance(error, NotFound):
                    self.revision = ""
                    await self._clock.sleep(self._poll_until_served)
                    continue
                log.info("watch of %s failed: %s; retrying in %.1f s", self._gvr.resource, error, delay)
            await self._clock.sleep(delay)
            delay = min(delay * 2, MAX_DELAY)

    async def _list(self) -> None:
        items, revision = await self._client.list_all(self._gvr, labels=self._labels, fields=self._fields)
        fresh = {key_of(obj): self._transform_object(obj) for obj in items}
        deleted = tuple(key for key in self.objects if key not in fresh)
        self.objects = fresh
        self._has_listed = True
        self.revision = revision
        for reflector in self._reflectors:
            self._deliver_list(reflector, deleted)

    async def _watch(self) -> bool:
        """Runs until the watch ends. Returns whether it received any event, so that a server that ends watches at once
        is not hammered.
        """
        received = False
        query = {"resourceVersion": self.revision, "allowWatchBookmarks": "true"}
        query |= {"labelSelector": self._labels, "fieldSelector": self._fields}
        async for event in self._client.watch(self._gvr, query=query):
            received, obj = True, event["object"]
            self.revision = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK":
                continue
            key = key_of(obj)
            if event["type"] == "DELETED":
                self.objects.pop(key, None)
                self._deliver(key, None)
            else:
                obj = self.objects[key] = self._transform_object(obj)
                self._deliver(key, obj)
        return received

    def _transform_object(self, obj: Object) -> Object:
        return self._transform(obj) if self._transform is not None else obj


class _SharedReflectorStore(_ReflectorStore):
    def _transform_object(self, obj: Object) -> Object:
        obj["metadata"].pop("managedFields", None)
        return obj
