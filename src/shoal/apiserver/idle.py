"""Drops derived state of idle logical clusters. Nothing is written.

Objects and open watches stay. The first request reactivates a cluster: bootstrap objects, registry and authorization
decisions are rebuilt on access. Root is never idle.
"""

from __future__ import annotations

import asyncio

from shoal.apiserver.malloc import trim
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import ServerComponents
from shoal.kinds.fleet.logicalcluster import DEFAULT_IDLE_SECONDS as DEFAULT_IDLE_SECONDS
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL

BATCH_SIZE = 20
"""Clusters evicted before the event loop gets a turn."""
TRIM_THRESHOLD = 100
"""Evictions from which on returning memory to the kernel is worth the time."""


class IdleClusterEvictor:
    def __init__(self, server: ServerComponents, idle_seconds: float = DEFAULT_IDLE_SECONDS) -> None:
        """A cluster becomes idle when it had no request for `idle_seconds`, or for half as long."""
        self._server, self._idle_seconds = server, idle_seconds
        self._recently_used: set[str] = set()
        """Clusters used between the last two runs."""

    async def run(self) -> None:
        while True:
            await self._server.clock.sleep(self._idle_seconds / 2)
            await self.evict_idle()

    async def evict_idle(self) -> None:
        clusters = self._server.clusters
        idle_clusters, self._recently_used = (
            self._recently_used - clusters.recently_used - {ROOT},
            clusters.recently_used,
        )
        clusters.recently_used = set()
        for number, name in enumerate(idle_clusters, 1):
            if name not in clusters.recently_used:
                self._evict(name)
            if not number % BATCH_SIZE:
                await asyncio.sleep(0)
        if len(idle_clusters) >= TRIM_THRESHOLD:
            await asyncio.to_thread(trim)

    def _evict(self, cluster: str) -> None:
        self._server.clusters.drop_derived(cluster)
        self._server.cache.drop_derived(cluster)
        self._server.authorizer.forget(cluster)
        self._server.webhooks.forget(cluster)
        self._server.policies.forget(cluster)

    def active(self) -> int:
        clusters = self._server.cache.resource_cache(GROUP, PLURAL).table(ROOT).entries
        return sum(
            f"/{name}" in clusters for name in {ROOT} | self._recently_used | self._server.clusters.recently_used
        )

    def idle(self) -> int:
        return len(self._server.cache.resource_cache(GROUP, PLURAL).table(ROOT).entries) - self.active()
