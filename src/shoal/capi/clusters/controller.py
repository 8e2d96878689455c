"""Reconciles Clusters: takes a snapshot of the Cluster and its descendants and applies what `decide` returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.clusters.decide import ClusterDecision, ClusterSnapshot, decide
from shoal.capi.informers import (
    CAPIInformers,
    NamespacedName,
    by_cluster_name,
    by_reference,
    namespaced_name,
    versions,
)
from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi.capi import cluster_name
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]


class ClusterReconciler:
    def __init__(self, informers: CAPIInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[NamespacedName] = Controller("capi-clusters", clock, self.reconcile)
        informers.enqueue_on_change(informers.clusters, self.controller.queue)
        informers.add_provider_handler(self._on_provider_object)
        informers.external.add_event_handler(self._on_provider_object)
        for informer in (informers.machine_deployments, informers.machine_sets, informers.machines):
            informer.add_event_handler(self._on_descendant)

    def _on_provider_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in versions(old, new):
            for cluster in self._informers.clusters.by_index(by_reference, (obj["kind"], *key[1:])):
                self.controller.queue.add(namespaced_name(cluster))

    def _on_descendant(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in versions(old, new):
            self._informers.debouncer.add(self.controller.queue, (key[1], cluster_name(obj)))

    async def reconcile(self, key: NamespacedName) -> None:
        await self._informers.wait_for_sync()
        cluster = self._informers.clusters.get(("", *key))
        if cluster is None:
            return
        snapshot = self._snapshot(cluster)
        decision = decide(snapshot, self._now())
        if decision.patch is not None:
            cluster = await self._informers.writer.patch(self._informers.clusters, cluster, decision.patch)
            decision = decide(replace(snapshot, cluster=cluster), self._now())
        await self._apply(snapshot, decision)

    def _snapshot(self, cluster: Object) -> ClusterSnapshot:
        informers, spec = self._informers, cluster.get("spec") or {}
        key = namespaced_name(cluster)
        infrastructure, control_plane = spec.get("infrastructureRef"), spec.get("controlPlaneRef")
        for reference in (infrastructure, control_plane):
            if reference is not None and not informers.can_resolve(reference):
                raise RequeueError(
                    f"cannot resolve {reference['kind']} {reference['name']} yet: its informer has not synced"
                )
        return ClusterSnapshot(
            cluster=cluster,
            infrastructure=informers.resolve_any_reference(key[0], infrastructure),
            control_plane=(
                informers.resolve_any_reference(key[0], control_plane) if control_plane != infrastructure else None
            ),
            deployments=informers.machine_deployments.by_index(by_cluster_name, key),
            machine_sets=informers.machine_sets.by_index(by_cluster_name, key),
            machines=informers.machines.by_index(by_cluster_name, key),
            is_reachable=informers.is_reachable(cluster),
        )

    async def _apply(self, snapshot: ClusterSnapshot, decision: ClusterDecision) -> None:
        informers = self._informers
        for obj, patch in (
            (snapshot.infrastructure, decision.patch_infrastructure),
            (snapshot.control_plane, decision.patch_control_plane),
        ):
            if obj is not None and patch is not None:
                await informers.writer.patch(informers.informer_of(obj), obj, patch)
        if decision.status is not None and not informers.defer_status(
            self.controller.queue, snapshot.cluster, decision.status
        ):
            await informers.writer.update_status(informers.clusters, decision.status)
        for obj in decision.delete:
            await informers.writer.delete(informers.informer_of(obj), obj)

    def _now(self) -> str:
        return rfc3339(self._clock.now())
