"""Takes pods from the hub that it showed of a cluster, where that is gone or does not ask for it any more.

The hub's process does this for all clusters, wherever their syncers run: one that is gone cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import NotFound, StatusError
from shoal.sync.discovery import shows_pods
from shoal.sync.resources import PODS

Object = dict[str, Any]

AGAIN_SECONDS = 5.0


class Unmirroring:
    """`found` hears of every cluster whose pods are shown when this starts."""

    def __init__(self, client: Client, clock: Clock, found: Callable[[str], None]) -> None:
        self._client, self._clock, self._found = client, clock, found
        self._done: set[str] = set()
        """Clusters that do not ask, and of which nothing is shown."""
        self.clusters_known = asyncio.Event()

    async def run(self) -> None:
        await self.clusters_known.wait()
        while True:
            try:
                shown = await self._list(workload.MIRRORED)
                break
            except (StatusError, Unreachable):
                await self._clock.sleep(AGAIN_SECONDS)
        for cluster in {workload.mirrored_from(pod) for pod in shown}:
            self._found(cluster)

    async def mind(self, name: str, cluster: Object | None) -> None:
        """None: there is no workload Cluster of that name."""
        if cluster is not None and workload.mirrors(cluster, "pods"):
            self._done.discard(name)
            return
        if name in self._done:
            return
        for _ in range(2):  # one may have been on its way when the first were listed
            for pod in await self._list(f"{workload.MIRRORED}={name}"):
                metadata = pod["metadata"]
                with suppress(NotFound):
                    await self._client.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        if cluster is not None:
            self._done.add(name)
        else:
            self._done.discard(name)

    async def _list(self, labels: str) -> list[Object]:
        try:
            shown, _ = await self._client.list_all(PODS, labels=labels)
        except NotFound:
            return []
        # Of a hub that has pods of its own, a label says nothing.
        return shown if shown and await shows_pods(self._client) else []
