"""One watch in each of many workload Clusters, each started, stopped and retried independently.

No objects are kept. A cluster that does not respond is retried with exponential backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.objects.errors import Expired, Forbidden, NotFound, ShoalError
from shoal.sync.connecting import Reach

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]
Listed = Callable[[str, list[Object]], None]
"""Called with the name of the workload Cluster and all objects; with an empty list if `list_objects` is False."""
Event = Callable[[str, str, Object], None]
"""Called with the name of the workload Cluster, the event type and the object."""

ANSWER_SECONDS = 20.0
WATCH_SECONDS = 300
"""The server ends a watch after this time; a watch that died silently is given up a little later."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
REFUSED_SECONDS = 300.0
"""Retry interval if the kind is not served or not readable."""


class Following:
    def __init__(
        self,
        clock: Clock,
        reach: Reach,
        kind: Kind,
        listed: Listed,
        event: Event,
        *,
        refused: Callable[[str], None] | None = None,
        whole: bool = True,
        fields: str = "",
    ) -> None:
        """`on_refused`: the kind cannot be read in that cluster. `list_objects`: all objects are delivered first."""
        self._clock, self._reach, self._kind, self._whole, self._fields = clock, reach, kind, whole, fields
        self._listed, self._event, self._refused = listed, event, refused
        self._tasks: dict[str, tuple[tuple[str, int], asyncio.Task[None]]] = {}

    def follow(self, cluster: Object) -> None:
        """Watches the cluster as long as its uid and generation stay the same."""
        metadata = cluster["metadata"]
        name, version = metadata["name"], (metadata["uid"], metadata.get("generation", 0))
        known = self._tasks.get(name)
        if known is not None and known[0] == version and not known[1].done():
            return
        self.leave(name)
        task = asyncio.create_task(self._run(cluster), name=f"{self._kind.plural} of {name}")
        self._tasks[name] = version, task

    def leave(self, name: str) -> None:
        known = self._tasks.pop(name, None)
        if known is not None:
            known[1].cancel()

    async def run(self) -> None:
        """A source of a controller: only stops all watches when the controller stops."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [task for _, task in self._tasks.values()]
            self._tasks.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, cluster: Object) -> None:
        name, pause = cluster["metadata"]["name"], FIRST_PAUSE
        while True:
            try:
                await self._once(cluster)
                pause = FIRST_PAUSE
            except Expired:
                pause = FIRST_PAUSE
            except (ShoalError, TimeoutError) as error:
                if isinstance(error, Forbidden) or (isinstance(error, NotFound) and not error.kind):
                    pause = REFUSED_SECONDS
                    if self._refused is not None:
                        self._refused(name)
                log.info("%s of %s: %s; again in %.1f s", self._kind.plural, name, error or "no answer", pause)
            except Exception:
                log.exception("%s of %s", self._kind.plural, name)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _once(self, cluster: Object) -> None:
        name = cluster["metadata"]["name"]
        reached = await self._reach(cluster)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                objects, revision = await self._list(reached.client)
            self._listed(name, objects)
            objects = []
            query = {"resourceVersion": revision, "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
            query["fieldSelector"] = self._fields
            async with asyncio.timeout(WATCH_SECONDS + ANSWER_SECONDS):
                async for event in reached.client.watch(self._kind, query=query):
                    if event["type"] != "BOOKMARK":
                        self._event(name, event["type"], event["object"])
        finally:
            await reached.close()

    async def _list(self, client: Client) -> tuple[list[Object], str]:
        if self._whole:
            return await client.list_all(self._kind, fields=self._fields)
        page = await client.call("GET", client.path(self._kind), {"limit": "1"})
        return [], str(page["metadata"]["resourceVersion"])
