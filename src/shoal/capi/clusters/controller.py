"""Reconciles Clusters: takes a snapshot of the Cluster and its descendants and applies what `decide` returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.clusters.decide import Decision, Snapshot, decide
from shoal.capi.resources import Name, Resources, name_of
from shoal.clock import Clock, rfc3339
from shoal.kinds.capi import cluster_name
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class ClusterLoop:
    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-clusters", clock, self.reconcile)
        resources.follow(resources.clusters, self.loop.queue)
        resources.listen_to_provided(self._provided)
        resources.foreign.listen(self._provided)
        for view in (resources.deployments, resources.sets, resources.machines):
            view.listen(self._descendant)

    def _provided(self, obj: Object) -> None:
        namespace, name = name_of(obj)
        for cluster in self._resources.clusters.by("reference", (obj["kind"], namespace, name)):
            self.loop.queue.add(name_of(cluster))

    def _descendant(self, obj: Object) -> None:
        self._resources.quiet.add(self.loop.queue, (obj["metadata"]["namespace"], cluster_name(obj)))

    async def reconcile(self, key: Name) -> None:
        await self._resources.listed()
        cluster = self._resources.clusters.get(*key)
        if cluster is None:
            return
        seen = self._look(cluster)
        decision = decide(seen, self._now())
        if decision.patch is not None:
            cluster = await self._resources.clusters.patch(cluster, decision.patch)
            decision = decide(replace(seen, cluster=cluster), self._now())
        await self._act(seen, decision)

    def _look(self, cluster: Object) -> Snapshot:
        resources, spec = self._resources, cluster.get("spec") or {}
        key = name_of(cluster)
        infrastructure, control_plane = spec.get("infrastructureRef"), spec.get("controlPlaneRef")
        for reference in (infrastructure, control_plane):
            if reference is not None and not resources.knows(reference):
                raise Later(f"nobody knows yet whether there is {reference['kind']} {reference['name']}")
        return Snapshot(
            cluster=cluster,
            infrastructure=resources.referenced_anywhere(key[0], infrastructure),
            control_plane=(
                resources.referenced_anywhere(key[0], control_plane) if control_plane != infrastructure else None
            ),
            deployments=resources.deployments.by("cluster", key),
            sets=resources.sets.by("cluster", key),
            machines=resources.machines.by("cluster", key),
            is_reached=resources.is_reached(cluster),
        )

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources = self._resources
        for obj, patch in (
            (seen.infrastructure, decision.infrastructure),
            (seen.control_plane, decision.control_plane),
        ):
            if obj is not None and patch is not None:
                await resources.of(obj).patch(obj, patch)
        if decision.status is not None and not resources.can_wait(self.loop.queue, seen.cluster, decision.status):
            await resources.clusters.update_status(decision.status)
        for obj in decision.delete:
            await resources.of(obj).delete(obj)

    def _now(self) -> str:
        return rfc3339(self._clock.now())
