"""Expires Events: one delay queue over all logical clusters."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.delay_queue import DelayQueue
from shoal.runtime.informer import Informer

Object = dict[str, Any]

EVENTS = GroupVersionResource("", "v1", "events")
EVENT_TTL_SECONDS = 3600.0
"""Counted from the last write, as upstream does."""
WORKERS = 64
"""Each worker mostly waits for the store, which commits their writes together."""


class ExpiringEvent(NamedTuple):
    """One version of an Event. A later write makes another of it, with a later deadline."""

    cluster: str
    namespace: str
    name: str
    uid: str
    revision: str


def trim_event(event: Object) -> Object:
    """Keeps what expiry depends on: there may be very many Events."""
    metadata = event["metadata"]
    times = [_timestamp(metadata["creationTimestamp"])]
    times += [_timestamp(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    kept = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    return {"metadata": kept, "lastWrite": max(times)}


def expiry_time(trimmed: Object, now: float) -> float:
    """Returns seconds since the epoch. A last write after `now` is capped to `now`."""
    return min(float(trimmed["lastWrite"]), now) + EVENT_TTL_SECONDS


def _timestamp(time: object) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0


class EventTTLController:
    name = "events"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._controller: Controller[ExpiringEvent] = Controller(self.name, clock, self._delete, WORKERS)
        self._delay_queue = DelayQueue(clock, self._controller.queue.add)
        self._controller.sources.append(self._delay_queue.run)
        self._controller.watch(Informer(client.in_cluster("*"), EVENTS, clock, transform=trim_event), self._on_event)

    async def run(self) -> None:
        await self._controller.run()

    def _on_event(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._delay_queue.schedule(_version_of(key, old), None)
        if new is not None:
            self._delay_queue.schedule(_version_of(key, new), expiry_time(new, self._clock.now()))

    async def _delete(self, event: ExpiringEvent) -> None:
        client = self._client.in_cluster(event.cluster)
        body = {"preconditions": {"uid": event.uid, "resourceVersion": event.revision}}
        try:
            await client.request("DELETE", client.resource_path(EVENTS, event.name, event.namespace), body=body)
        except (NotFound, Conflict):
            return  # deleted, or written since: the update brings a new deadline


def _version_of(key: Key, trimmed: Object) -> ExpiringEvent:
    metadata = trimmed["metadata"]
    return ExpiringEvent(*key, metadata["uid"], metadata["resourceVersion"])
