"""Reconciles EmbeddedClusters of a management cluster without a hosting server: sets a condition that says so, and
nothing else.

An EmbeddedCluster that was hosted before stays until a hosting server can delete its logical cluster: its finalizer is
not removed here.
"""

from __future__ import annotations

from typing import Any

from shoal.capi.loops import Runnable
from shoal.capi.providers.embedded.clusters.decide import unhosted
from shoal.capi.providers.embedded.resources import EMBEDDED_CLUSTERS, EMBEDDED_MACHINES, EMBEDDED_TEMPLATES
from shoal.capi.resources import Changes, Name, Resources, name_of
from shoal.clock import Clock, rfc3339
from shoal.kinds import capi, embedded
from shoal.runtime.loop import Loop

Object = dict[str, Any]


def unhosted_provider(core: Resources, clock: Clock) -> list[Runnable]:
    core.provide(EMBEDDED_MACHINES, embedded.MACHINE)
    core.provide(EMBEDDED_TEMPLATES, embedded.MACHINE_TEMPLATE)
    return [UnhostedLoop(core, clock).loop]


class UnhostedLoop:
    def __init__(self, core: Resources, clock: Clock) -> None:
        self._core, self._clock = core, clock
        self._view = core.provide(EMBEDDED_CLUSTERS, embedded.CLUSTER)
        self._changes = Changes(lambda cluster: (cluster["metadata"]["uid"], capi.is_paused(cluster, cluster)))
        self.loop: Loop[Name] = Loop("capi-unhosted", clock, self.reconcile)
        self._view.listen(lambda obj: self.loop.queue.add(name_of(obj)))
        core.clusters.listen(self._cluster)

    def _cluster(self, cluster: Object) -> None:
        reference = (cluster.get("spec") or {}).get("infrastructureRef") or {}
        if reference.get("kind") == embedded.CLUSTER and self._changes.matter(cluster):
            self.loop.queue.add((cluster["metadata"]["namespace"], reference["name"]))

    async def reconcile(self, key: Name) -> None:
        await self._core.listed()
        obj = self._view.get(*key)
        if obj is None:
            return
        cluster = self._core.clusters.get(key[0], capi.owner_of(obj, capi.CLUSTER))
        new = unhosted(obj, cluster, rfc3339(self._clock.now()))
        if new is not None:
            await self._view.update_status(new)
