"""Expires Events: one heap of deadlines over all logical clusters, and a timer only while there are Events."""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import Any, NamedTuple

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.controlplane.events.decide import expires
from shoal.objects.errors import Conflict, NotFound, StatusError

log = logging.getLogger("shoal.events")

Object = dict[str, Any]

EVENTS = Kind("", "v1", "events")
LONGEST_NAP = 300.0
PAUSE = 60.0
"""Retry delay after a failed deletion."""
TOGETHER = 64
TOLD: Object = {}
"""Replaces Events in the reflector's store: only their existence is needed."""


class Seen(NamedTuple):
    deadline: float
    uid: str
    revision: str


class EventExpiry:
    name = "events"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._reflector = Reflector(client.at("*"), EVENTS, clock, self._changed)
        self._seen: dict[Key, Seen] = {}
        self._deadlines: list[tuple[float, Key]] = []
        self._some = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            group.create_task(self._expire())

    def _changed(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._seen.pop(key, None)
            return
        self._reflector.objects[key] = TOLD
        metadata = obj["metadata"]
        self._keep(key, Seen(expires(obj, self._clock.now()), metadata["uid"], metadata["resourceVersion"]))

    def _keep(self, key: Key, seen: Seen) -> None:
        self._seen[key] = seen
        heapq.heappush(self._deadlines, (seen.deadline, key))
        self._some.set()

    async def _expire(self) -> None:
        while True:
            if not self._deadlines:
                self._some.clear()
                await self._some.wait()
            left = self._deadlines[0][0] - self._clock.now()
            if left > 0:
                await self._clock.sleep(min(left, LONGEST_NAP))
                continue
            due = self._due()
            for start in range(0, len(due), TOGETHER):
                await asyncio.gather(*(self._delete(key) for key in due[start : start + TOGETHER]))

    def _due(self) -> list[Key]:
        found: dict[Key, None] = {}
        now = self._clock.now()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, key = heapq.heappop(self._deadlines)
            seen = self._seen.get(key)
            if seen is not None and seen.deadline == deadline:
                found[key] = None
        return list(found)

    async def _delete(self, key: Key) -> None:
        cluster, namespace, name = key
        seen = self._seen.get(key)
        if seen is None:
            return
        client = self._client.at(cluster)
        body = {"preconditions": {"uid": seen.uid, "resourceVersion": seen.revision}}
        try:
            await client.call("DELETE", client.path(EVENTS, name, namespace), body=body)
        except (NotFound, Conflict):
            return  # deleted, or written since: the update brings a new deadline
        except (StatusError, Unreachable) as error:
            log.info("event %s: %s; again in %.0f s", "/".join(key), error, PAUSE)
            self._keep(key, seen._replace(deadline=self._clock.now() + PAUSE))
