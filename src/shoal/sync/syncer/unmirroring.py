"""Deletes mirrored pods from the hub whose cluster is gone or no longer requests mirroring.

The hub's process does this for all clusters, wherever their syncers run: a removed syncer cannot.
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
    """`on_mirrored_cluster` is called for every cluster with mirrored pods at the start."""

    def __init__(self, client: Client, clock: Clock, found: Callable[[str], None]) -> None:
        self._client, self._clock, self._found = client, clock, found
        self._done: set[str] = set()
        """Clusters that do not request mirroring and have no mirrored pods."""
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
        for _ in range(2):  # a pod may have been created after the first list
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
        # On a hub with pods of its own the label proves nothing.
        return shown if shown and await shows_pods(self._client) else []
