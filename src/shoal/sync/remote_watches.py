"""One watch in each of many workload Clusters, each started, stopped and retried independently.

No objects are kept. A cluster that does not respond is retried with exponential backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.objects.errors import Expired, Forbidden, NotFound, ShoalError
from shoal.sync.remote_cluster import ConnectFunc

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]
ListHandler = Callable[[str, list[Object]], None]
"""Called with the name of the workload Cluster and all objects; with an empty list if `list_objects` is False."""
RemoteEventHandler = Callable[[str, str, Object], None]
"""Called with the name of the workload Cluster, the event type and the object."""

RESPONSE_TIMEOUT = 20.0
WATCH_TIMEOUT = 300
"""The server ends a watch after this time; a watch that died silently is given up a little later."""
BASE_DELAY, MAX_DELAY = 0.5, 30.0
REFUSED_RETRY_SECONDS = 300.0
"""Retry interval if the kind is not served or not readable."""


class RemoteWatches:
    def __init__(
        self,
        clock: Clock,
        connect: ConnectFunc,
        gvr: GroupVersionResource,
        on_list: ListHandler,
        on_event: RemoteEventHandler,
        *,
        on_refused: Callable[[str], None] | None = None,
        list_objects: bool = True,
        fields: str = "",
    ) -> None:
        """`on_refused`: the kind cannot be read in that cluster. `list_objects`: all objects are delivered first."""
        self._clock, self._connect, self._gvr, self._list_objects, self._fields = (
            clock,
            connect,
            gvr,
            list_objects,
            fields,
        )
        self._on_list, self._on_event, self._on_refused = on_list, on_event, on_refused
        self._tasks: dict[str, tuple[tuple[str, int], asyncio.Task[None]]] = {}

    def start(self, cluster: Object) -> None:
        """Watches the cluster as long as its uid and generation stay the same."""
        metadata = cluster["metadata"]
        name, version = metadata["name"], (metadata["uid"], metadata.get("generation", 0))
        current = self._tasks.get(name)
        if current is not None and current[0] == version and not current[1].done():
            return
        self.stop(name)
        task = asyncio.create_task(self._watch_cluster(cluster), name=f"{self._gvr.resource} of {name}")
        self._tasks[name] = version, task

    def stop(self, name: str) -> None:
        current = self._tasks.pop(name, None)
        if current is not None:
            current[1].cancel()

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

    async def _watch_cluster(self, cluster: Object) -> None:
        name, delay = cluster["metadata"]["name"], BASE_DELAY
        while True:
            try:
                await self._list_and_watch(cluster)
                delay = BASE_DELAY
            except Expired:
                delay = BASE_DELAY
            except (ShoalError, TimeoutError) as error:
                if isinstance(error, Forbidden) or (isinstance(error, NotFound) and not error.kind):
                    delay = REFUSED_RETRY_SECONDS
                    if self._on_refused is not None:
                        self._on_refused(name)
                log.info(
                    "watch of %s in workload Cluster %s failed: %s; retrying in %.1f s",
                    self._gvr.resource,
                    name,
                    error or "no answer",
                    delay,
                )
            except Exception:
                log.exception("watch of %s in workload Cluster %s failed", self._gvr.resource, name)
            await self._clock.sleep(delay)
            delay = min(delay * 2, MAX_DELAY)

    async def _list_and_watch(self, cluster: Object) -> None:
        name = cluster["metadata"]["name"]
        remote = await self._connect(cluster)
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                objects, revision = await self._list(remote.client)
            self._on_list(name, objects)
            objects = []
            query = {"resourceVersion": revision, "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_TIMEOUT)}
            query["fieldSelector"] = self._fields
            async with asyncio.timeout(WATCH_TIMEOUT + RESPONSE_TIMEOUT):
                async for event in remote.client.watch(self._gvr, query=query):
                    if event["type"] != "BOOKMARK":
                        self._on_event(name, event["type"], event["object"])
        finally:
            await remote.close()

    async def _list(self, client: Client) -> tuple[list[Object], str]:
        if self._list_objects:
            return await client.list_all(self._gvr, fields=self._fields)
        page = await client.request("GET", client.resource_path(self._gvr), {"limit": "1"})
        return [], str(page["metadata"]["resourceVersion"])
