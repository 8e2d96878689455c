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

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import Expired, NotFound, StatusError

log = logging.getLogger("shoal.client")

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Logical cluster (empty unless the client is the wildcard one), namespace, name."""
Changed = Callable[[Key, Object | None], None]
"""Called for every change. None: the object was deleted."""
Keep = Callable[[Object], Object]

CLUSTER = "shoal.dev/cluster"
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return (metadata.get("annotations") or {}).get(CLUSTER, ""), metadata.get("namespace", ""), metadata["name"]


class Reflector:
    """One controller's reflector of a kind: its handlers and its sync state."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        clock: Clock,
        changed: Changed,
        *,
        labels: str = "",
        fields: str = "",
        unserved: float | None = None,
        listed: Callable[[], None] | None = None,
        shared: bool = False,
        keep: Keep | None = None,
    ) -> None:
        """`on_sync` is called after each complete list. `poll_until_served`: seconds between silent polls of a kind
        that the server may serve later. `shared`: uses the client's shared store for the same list, if the client
        has shared stores; only for controllers that never modify the objects they receive. `transform`: maps each
        object before it is stored and delivered; only without `shared`.
        """
        self.changed, self.listed = changed, listed
        self.synced = False
        """A complete list has been delivered to the handler."""
        self._copy = _Copy(client, kind, clock, labels, fields, unserved, keep)
        if shared and client.copies is not None:
            made = _SharedCopy(client, kind, clock, labels, fields, unserved)
            self._copy = client.copies.setdefault((client.path(kind), labels, fields, unserved), made)

    @property
    def objects(self) -> dict[Key, Object]:
        return self._copy.objects

    @property
    def revision(self) -> int:
        """Every write up to this revision has been seen; 0 before the first sync."""
        return int(self._copy.revision or 0) if self.synced else 0

    async def run(self) -> None:
        await self._copy.follow(self)


class _Copy:
    def __init__(
        self,
        client: Client,
        kind: Kind,
        clock: Clock,
        labels: str,
        fields: str,
        unserved: float | None,
        keep: Keep | None = None,
    ) -> None:
        self._client, self._kind, self._clock = client, kind, clock
        self._labels, self._fields, self._unserved, self._keep = labels, fields, unserved, keep
        self._followers: list[Reflector] = []
        self._turn = asyncio.Lock()
        self._listed = False
        self.objects: dict[Key, Object] = {}
        self.revision = ""

    async def follow(self, reflector: Reflector) -> None:
        """The first reflector lists and watches for all. When it stops, the next continues at the same revision."""
        self._followers.append(reflector)
        try:
            if self._listed and not reflector.synced:
                self._tell_all(reflector, ())
            async with self._turn:
                await self._run()
        finally:
            self._followers.remove(reflector)

    def _tell_all(self, reflector: Reflector, gone: tuple[Key, ...]) -> None:
        reflector.synced = True
        for key, obj in self.objects.items():
            reflector.changed(key, obj)
        for key in gone:
            reflector.changed(key, None)
        if reflector.listed is not None:
            reflector.listed()

    def _tell(self, key: Key, obj: Object | None) -> None:
        for reflector in self._followers:
            reflector.changed(key, obj)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if not self.revision:
                    await self._list()
                if await self._watch():
                    pause = FIRST_PAUSE
                    continue
                log.info("watch of %s ended without an event; again in %.1f s", self._kind.plural, pause)
            except Expired:
                self.revision = ""
                continue
            except (StatusError, Unreachable) as error:
                if self._unserved is not None and isinstance(error, NotFound):
                    self.revision = ""
                    await self._clock.sleep(self._unserved)
                    continue
                log.info("watch of %s: %s; again in %.1f s", self._kind.plural, error, pause)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _list(self) -> None:
        found, revision = await self._client.list_all(self._kind, labels=self._labels, fields=self._fields)
        fresh = {key_of(obj): self._kept(obj) for obj in found}
        gone = tuple(key for key in self.objects if key not in fresh)
        self.objects = fresh
        self._listed = True
        self.revision = revision
        for reflector in self._followers:
            self._tell_all(reflector, gone)

    async def _watch(self) -> bool:
        """Runs until the watch ends. Returns whether it received any event, so that a server that ends watches at once
        is not hammered.
        """
        told = False
        query = {"resourceVersion": self.revision, "allowWatchBookmarks": "true"}
        query |= {"labelSelector": self._labels, "fieldSelector": self._fields}
        async for event in self._client.watch(self._kind, query=query):
            told, obj = True, event["object"]
            self.revision = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK":
                continue
            key = key_of(obj)
            if event["type"] == "DELETED":
                self.objects.pop(key, None)
                self._tell(key, None)
            else:
                obj = self.objects[key] = self._kept(obj)
                self._tell(key, obj)
        return told

    def _kept(self, obj: Object) -> Object:
        return self._keep(obj) if self._keep is not None else obj


class _SharedCopy(_Copy):
    def _kept(self, obj: Object) -> Object:
        obj["metadata"].pop("managedFields", None)
        return obj
