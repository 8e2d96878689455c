"""A local copy of a kind, kept true by list and watch, whatever breaks in between.

Cuts, timeouts and 410s lead to a resumed watch or a fresh list; what vanished meanwhile is told as a deletion
only after a complete list said so.
"""

from __future__ import annotations

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
"""Logical cluster (empty unless the view is the wildcard one), namespace, name."""
Changed = Callable[[Key, Object | None], None]
"""Told for every change; None: it is gone."""

CLUSTER = "shoal.dev/cluster"
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return (metadata.get("annotations") or {}).get(CLUSTER, ""), metadata.get("namespace", ""), metadata["name"]


class Reflector:
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
    ) -> None:
        """`listed` is told after each complete list. `unserved`: seconds between looks, without a word, at a kind
        the server may come to serve later."""
        self._client, self._kind, self._clock, self._changed = client, kind, clock, changed
        self._labels, self._fields, self._unserved, self._listed = labels, fields, unserved, listed
        self.objects: dict[Key, Object] = {}
        self.synced = False
        """A complete list has been seen."""
        self._revision = ""

    @property
    def revision(self) -> int:
        """Everything written up to here has been seen; 0 while nothing is certain."""
        return int(self._revision or 0)

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._revision:
                    await self._list()
                if await self._watch():
                    pause = FIRST_PAUSE
                    continue
                log.info("watch of %s ended without an event; again in %.1f s", self._kind.plural, pause)
            except Expired:
                self._revision = ""
                continue
            except (StatusError, Unreachable) as error:
                if self._unserved is not None and isinstance(error, NotFound):
                    self._revision = ""
                    await self._clock.sleep(self._unserved)
                    continue
                log.info("watch of %s: %s; again in %.1f s", self._kind.plural, error, pause)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _list(self) -> None:
        found, revision = await self._client.list_all(self._kind, labels=self._labels, fields=self._fields)
        fresh = {key_of(obj): obj for obj in found}
        gone = [key for key in self.objects if key not in fresh]
        self.objects = fresh
        self.synced = True
        self._revision = revision
        for key, obj in fresh.items():
            self._changed(key, obj)
        for key in gone:
            self._changed(key, None)
        if self._listed is not None:
            self._listed()

    async def _watch(self) -> bool:
        """Until the watch ends; tells whether it brought anything, so that a server that ends it at once is spared."""
        told = False
        query = {"resourceVersion": self._revision, "allowWatchBookmarks": "true"}
        query |= {"labelSelector": self._labels, "fieldSelector": self._fields}
        async for event in self._client.watch(self._kind, query=query):
            told, obj = True, event["object"]
            self._revision = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK":
                continue
            key = key_of(obj)
            if event["type"] == "DELETED":
                self.objects.pop(key, None)
                self._changed(key, None)
            else:
                self.objects[key] = obj
                self._changed(key, obj)
        return told
