"""Expires Events: one heap of deadlines over all logical clusters, and a timer only while there are Events."""

from __future__ import annotations

import asyncio
import heapq
import logging
from datetime import datetime
from typing import Any, NamedTuple

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import Conflict, NotFound, StatusError

EVENT_TTL_SECONDS = 3600.0
"""Counted from the last write, as upstream does."""


def expiry_time(event: Object, now: float) -> float:
    """Returns seconds since the epoch. The last write is read from managedFields; times after `now` are capped to
    `now`.
    """
    metadata = event["metadata"]
    times = [_timestamp(metadata["creationTimestamp"])]
    times += [_timestamp(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    return min(max(times), now) + EVENT_TTL_SECONDS


def _timestamp(time: object) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0


log = logging.getLogger("shoal.events")

Object = dict[str, Any]

EVENTS = GroupVersionResource("", "v1", "events")
MAX_SLEEP_SECONDS = 300.0
RETRY_SECONDS = 60.0
"""Retry delay after a failed deletion."""
DELETE_BATCH_SIZE = 64
PLACEHOLDER: Object = {}
"""Replaces Events in the reflector's store: only their existence is needed."""


class ExpiringEvent(NamedTuple):
    deadline: float
    uid: str
    revision: str


class EventTTLController:
    name = "events"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._reflector = Reflector(client.in_cluster("*"), EVENTS, clock, self._on_event)
        self._events: dict[Key, ExpiringEvent] = {}
        self._deadlines: list[tuple[float, Key]] = []
        self._has_deadlines = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            group.create_task(self._expire())

    def _on_event(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._events.pop(key, None)
            return
        self._reflector.objects[key] = PLACEHOLDER
        metadata = obj["metadata"]
        self._schedule(
            key, ExpiringEvent(expiry_time(obj, self._clock.now()), metadata["uid"], metadata["resourceVersion"])
        )

    def _schedule(self, key: Key, event: ExpiringEvent) -> None:
        self._events[key] = event
        heapq.heappush(self._deadlines, (event.deadline, key))
        self._has_deadlines.set()

    async def _expire(self) -> None:
        while True:
            if not self._deadlines:
                self._has_deadlines.clear()
                await self._has_deadlines.wait()
            remaining = self._deadlines[0][0] - self._clock.now()
            if remaining > 0:
                await self._clock.sleep(min(remaining, MAX_SLEEP_SECONDS))
                continue
            due = self._pop_due()
            for start in range(0, len(due), DELETE_BATCH_SIZE):
                await asyncio.gather(*(self._delete(key) for key in due[start : start + DELETE_BATCH_SIZE]))

    def _pop_due(self) -> list[Key]:
        due: dict[Key, None] = {}
        now = self._clock.now()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, key = heapq.heappop(self._deadlines)
            event = self._events.get(key)
            if event is not None and event.deadline == deadline:
                due[key] = None
        return list(due)

    async def _delete(self, key: Key) -> None:
        cluster, namespace, name = key
        event = self._events.get(key)
        if event is None:
            return
        client = self._client.in_cluster(cluster)
        body = {"preconditions": {"uid": event.uid, "resourceVersion": event.revision}}
        try:
            await client.request("DELETE", client.resource_path(EVENTS, name, namespace), body=body)
        except (NotFound, Conflict):
            return  # deleted, or written since: the update brings a new deadline
        except (StatusError, Unreachable) as error:
            log.info("cannot delete expired event %s: %s; retrying in %.0f s", "/".join(key), error, RETRY_SECONDS)
            self._schedule(key, event._replace(deadline=self._clock.now() + RETRY_SECONDS))
