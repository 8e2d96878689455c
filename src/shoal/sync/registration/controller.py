"""Registers a running ManagedCluster, or a Cluster API Cluster with a control plane, as a workload Cluster, and
unregisters it before its deletion. Workload Clusters that others registered are left alone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.cluster_status import update_status
from shoal.sync.conditions import SyncCondition, with_conditions
from shoal.sync.metrics import CLUSTER_STATES, cluster_state_series
from shoal.sync.registration.decide import RegistrationSource, decide
from shoal.sync.resources import CLUSTER_API_CLUSTERS, CLUSTERS, MANAGED_CLUSTERS

Object = dict[str, Any]

POLL_UNTIL_SERVED_SECONDS = 30.0
"""Between polls for Cluster API, if the hub does not serve it."""


def new_registration_controller(client: Client, clock: Clock) -> Controller[RegistrationSource]:
    return RegistrationReconciler(client, clock).controller


class RegistrationReconciler:
    """Keys are ManagedClusters and Cluster API Clusters."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.controller: Controller[RegistrationSource] = Controller("registration", clock, self.reconcile)
        self._managed_clusters = Informer(client, MANAGED_CLUSTERS, clock)
        self._capi_clusters = Informer(client, CLUSTER_API_CLUSTERS, clock, poll_until_served=POLL_UNTIL_SERVED_SECONDS)
        self._clusters = Informer(client, CLUSTERS, clock)
        self._clusters.on_sync(self._enqueue_all)
        self.controller.watch(self._managed_clusters, partial(self._enqueue_origin, True))
        self.controller.watch(self._capi_clusters, partial(self._enqueue_origin, False))
        self.controller.watch(self._clusters, self._on_cluster)
        self.controller.sources.append(self._export_states)

    async def _export_states(self) -> None:
        with CLUSTER_STATES.registration(lambda: cluster_state_series(self._clusters.objects.values())):
            await asyncio.Event().wait()

    def _enqueue_origin(self, managed: bool, key: Key, old: Object | None, new: Object | None) -> None:
        self.controller.queue.add(RegistrationSource(managed, key[1], key[2]))

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Enqueues the sources that own this name or would collide with it."""
        for namespace, name in workloadcluster.candidate_managed_clusters(key[2]):
            self.controller.queue.add(RegistrationSource(True, namespace, name))
            self.controller.queue.add(RegistrationSource(False, namespace, name))

    def _enqueue_all(self) -> None:
        for managed, informer in ((True, self._managed_clusters), (False, self._capi_clusters)):
            for _, namespace, name in informer.objects:
                self.controller.queue.add(RegistrationSource(managed, namespace, name))

    async def reconcile(self, origin: RegistrationSource) -> None:
        if not self._clusters.has_synced:
            return  # all are enqueued after the sync
        informer = self._managed_clusters if origin.managed else self._capi_clusters
        source = informer.get(("", origin.namespace, origin.name))
        cluster = self._clusters.get(("", "", origin.title))
        if source is None and (cluster is None or not await self._is_deleted(origin)):
            return
        decision = decide(origin, source, cluster)
        if decision.create is not None:
            try:
                await self._client.create(CLUSTERS, decision.create)
            except AlreadyExists:
                raise RequeueError("a workload Cluster with this name was created concurrently") from None
        if decision.delete:
            with suppress(NotFound):
                await self._client.delete(CLUSTERS, origin.title, uid=decision.delete)
        if decision.labels and cluster is not None:
            await self._client.merge_patch(CLUSTERS, origin.title, {"metadata": {"labels": decision.labels}})
        if decision.condition is not None and source is not None:
            await self._write_condition(origin, source, decision.condition)

    async def _is_deleted(self, origin: RegistrationSource) -> bool:
        """Absence from a list is not enough: nothing is deleted before a GET by name returned NotFound."""
        gvr = _gvr_of(origin)
        try:
            await self._client.get(gvr, origin.name, origin.namespace)
        except NotFound as error:
            return (error.kind, error.name) == (gvr.resource, origin.name)
        return False

    async def _write_condition(self, origin: RegistrationSource, source: Object, condition: SyncCondition) -> None:
        if not origin.managed:
            await self._annotate(origin, source, condition)
            return
        now = rfc3339(self._clock.now())

        def mutate(obj: Object) -> Object:
            return with_conditions(obj, [condition], now)

        if mutate(source) is not source:
            await update_status(self._client, MANAGED_CLUSTERS, origin.name, origin.namespace, mutate)

    async def _annotate(self, origin: RegistrationSource, source: Object, condition: SyncCondition) -> None:
        """The status of a Cluster API Cluster belongs to others: only errors are reported, in an annotation."""
        error = condition.message if condition.reason in ("NameTaken", "NameTooLong") else ""
        if (source["metadata"].get("annotations") or {}).get(workloadcluster.PROBLEM_ANNOTATION, "") != error:
            patch = {"metadata": {"annotations": {workloadcluster.PROBLEM_ANNOTATION: error or None}}}
            with suppress(NotFound):
                await self._client.merge_patch(CLUSTER_API_CLUSTERS, origin.name, patch, origin.namespace)


def _gvr_of(origin: RegistrationSource) -> GroupVersionResource:
    return MANAGED_CLUSTERS if origin.managed else CLUSTER_API_CLUSTERS
