"""Drops derived state of idle logical clusters. Nothing is written.

Objects and open watches stay. The first request reactivates a cluster: bootstrap objects, registry and authorization
decisions are rebuilt on access. Root is never idle.
"""

from __future__ import annotations

import asyncio

from shoal.apiserver.core import Core
from shoal.apiserver.malloc import give_back
from shoal.apiserver.paths import ROOT
from shoal.kinds.logicalcluster import GROUP, PLURAL
from shoal.kinds.logicalcluster import IDLE_SECONDS as IDLE_SECONDS

TOGETHER = 20
"""Clusters evicted before the event loop gets a turn."""
MANY = 100
"""Evictions from which on returning memory to the kernel is worth the time."""


class Sleep:
    def __init__(self, core: Core, idle: float = IDLE_SECONDS) -> None:
        """A cluster becomes idle when it had no request for `idle_seconds`, or for half as long."""
        self._core, self._idle = core, idle
        self._recent: set[str] = set()
        """Clusters used between the last two runs."""

    async def run(self) -> None:
        while True:
            await self._core.clock.sleep(self._idle / 2)
            await self.look()

    async def look(self) -> None:
        clusters = self._core.clusters
        tired, self._recent = self._recent - clusters.asked - {ROOT}, clusters.asked
        clusters.asked = set()
        for number, name in enumerate(tired, 1):
            if name not in clusters.asked:
                self._let_go(name)
            if not number % TOGETHER:
                await asyncio.sleep(0)
        if len(tired) >= MANY:
            await asyncio.to_thread(give_back)

    def _let_go(self, cluster: str) -> None:
        self._core.clusters.sleep(cluster)
        self._core.cache.sleep(cluster)
        self._core.authorizer.forget(cluster)
        self._core.webhooks.forget(cluster)
        self._core.policies.forget(cluster)

    def awake(self) -> int:
        clusters = self._core.cache.kind(GROUP, PLURAL).table(ROOT).entries
        return sum(f"/{name}" in clusters for name in {ROOT} | self._recent | self._core.clusters.asked)

    def asleep(self) -> int:
        return len(self._core.cache.kind(GROUP, PLURAL).table(ROOT).entries) - self.awake()
