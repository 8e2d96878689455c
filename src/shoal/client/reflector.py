"""A reflector: lists and watches one kind and reports every change to its sink (client-go Reflector).

Broken watches, timeouts and 410s lead to a resumed watch or a new list. The reflector keeps no objects:
`runtime.informer_store` is its sink.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import Expired, NotFound, StatusError

log = logging.getLogger("shoal.client")

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Logical cluster (empty unless the client is the wildcard one), namespace, name."""
Transform = Callable[[Object], Object]
"""Maps each object before it is stored (client-go SetTransform)."""

CLUSTER_ANNOTATION = "shoal.dev/cluster"
BASE_DELAY, MAX_DELAY = 0.2, 30.0


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return (
        (metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION, ""),
        metadata.get("namespace", ""),
        metadata["name"],
    )


def strip_managed_fields(obj: Object) -> Object:
    """Drops `managedFields`. An update without them keeps those on the server."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Sink(Protocol):
    """Receives what a reflector reads. `revision` is complete: every earlier write has been reported."""

    def replace(self, objects: dict[Key, Object], revision: int) -> None:
        """Called with a complete list."""

    def apply(self, key: Key, obj: Object | None, revision: int) -> None:
        """Called with each event. None: the object was deleted."""

    def advance(self, revision: int) -> None:
        """Called with each bookmark."""


class Reflector:
    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        sink: Sink,
        *,
        labels: str = "",
        fields: str = "",
        poll_until_served: float | None = None,
        transform: Transform = strip_managed_fields,
    ) -> None:
        """`poll_until_served`: seconds between silent polls of a kind that the server may serve later."""
        self._client, self._gvr, self._clock, self._sink = client, gvr, clock, sink
        self._labels, self._fields = labels, fields
        self._poll_until_served, self._transform = poll_until_served, transform
        self._revision = ""
        """Where the next watch starts; empty: at a new list."""

    def reset(self) -> None:
        """The next run starts with a list."""
        self._revision = ""

    async def run(self) -> None:
        """Runs until it is cancelled; a later call resumes the watch. An unexpected error, such as a response that
        cannot be decoded, leads to a new list: all consumers of the sink depend on this reflector.
        """
        delay = BASE_DELAY
        while True:
            try:
                if not self._revision:
                    await self._list()
                if await self._watch():
                    delay = BASE_DELAY
                    continue
                log.info("watch of %s ended without an event; retrying in %.1f s", self._gvr.resource, delay)
            except Expired:
                self._revision = ""
                continue
            except (StatusError, Unreachable) as error:
                if self._poll_until_served is not None and isinstance(error, NotFound):
                    self._revision = ""
                    await self._clock.sleep(self._poll_until_served)
                    continue
                log.info("watch of %s: %s; retrying in %.1f s", self._gvr.resource, error, delay)
            except Exception:
                log.exception("watch of %s failed; listing again in %.1f s", self._gvr.resource, delay)
                self._revision = ""
            await self._clock.sleep(delay)
            delay = min(delay * 2, MAX_DELAY)

    async def _list(self) -> None:
        items, revision = await self._client.list_all(self._gvr, labels=self._labels, fields=self._fields)
        objects = {key_of(obj): self._transform(obj) for obj in items}
        self._sink.replace(objects, int(revision or 0))
        self._revision = revision

    async def _watch(self) -> bool:
        """Runs until the watch ends. Returns whether it received any event, so that a server that ends watches at once
        is not hammered.
        """
        received = False
        query = {"resourceVersion": self._revision, "allowWatchBookmarks": "true"}
        query |= {"labelSelector": self._labels, "fieldSelector": self._fields}
        async for event in self._client.watch(self._gvr, query=query):
            received, obj = True, event["object"]
            revision = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK":
                self._sink.advance(int(revision))
            elif event["type"] == "DELETED":
                self._sink.apply(key_of(obj), None, int(revision))
            else:
                self._sink.apply(key_of(obj), self._transform(obj), int(revision))
            self._revision = revision
        return received
