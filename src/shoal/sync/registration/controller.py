"""Registers a running ManagedCluster, or a Cluster API Cluster with a control plane, as a workload Cluster, and
unregisters it before its deletion. Workload Clusters that others registered are left alone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition, with_conditions
from shoal.sync.metrics import CLUSTER_STATES, states
from shoal.sync.registration.decide import Origin, decide
from shoal.sync.reporting import update_status
from shoal.sync.resources import CLUSTER_API_CLUSTERS, CLUSTERS, MANAGED_CLUSTERS

Object = dict[str, Any]

UNSERVED_SECONDS = 30.0
"""Between polls for Cluster API, if the hub does not serve it."""


def registration_loop(client: Client, clock: Clock) -> Loop[Origin]:
    return Registration(client, clock).loop


class Registration:
    """Keys are ManagedClusters and Cluster API Clusters."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[Origin] = Loop("registration", clock, self.reconcile)
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, partial(self._changed, True), shared=True)
        self._capi = Reflector(
            client, CLUSTER_API_CLUSTERS, clock, partial(self._changed, False), unserved=UNSERVED_SECONDS
        )
        self._clusters = Reflector(client, CLUSTERS, clock, self._cluster_changed, listed=self._look_at_all)
        self.loop.sources += [self._managed.run, self._capi.run, self._clusters.run, self._tell_states]

    async def _tell_states(self) -> None:
        with CLUSTER_STATES.read_by(lambda: states(self._clusters.objects.values())):
            await asyncio.Event().wait()

    def _changed(self, managed: bool, key: Key, obj: Object | None) -> None:
        self.loop.queue.add(Origin(managed, key[1], key[2]))

    def _cluster_changed(self, key: Key, obj: Object | None) -> None:
        """Enqueues the sources that own this name or would collide with it."""
        for namespace, name in workload.managed_by_name(key[2]):
            self.loop.queue.add(Origin(True, namespace, name))
            self.loop.queue.add(Origin(False, namespace, name))

    def _look_at_all(self) -> None:
        for managed, reflector in ((True, self._managed), (False, self._capi)):
            for key in reflector.objects:
                self._changed(managed, key, None)

    async def reconcile(self, origin: Origin) -> None:
        if not self._clusters.synced:
            return  # all are enqueued after the sync
        reflector = self._managed if origin.managed else self._capi
        found = reflector.objects.get(("", origin.namespace, origin.name))
        cluster = self._clusters.objects.get(("", "", origin.title))
        if found is None and (cluster is None or not await self._is_gone(origin)):
            return
        decision = decide(origin, found, cluster)
        if decision.create is not None:
            try:
                await self._client.create(CLUSTERS, decision.create)
            except AlreadyExists:
                raise Later("a workload Cluster of that name has just come") from None
        if decision.delete:
            with suppress(NotFound):
                await self._client.delete(CLUSTERS, origin.title, uid=decision.delete)
        if decision.labels and cluster is not None:
            await self._client.merge(CLUSTERS, origin.title, {"metadata": {"labels": decision.labels}})
        if decision.condition is not None and found is not None:
            await self._tell(origin, found, decision.condition)

    async def _is_gone(self, origin: Origin) -> bool:
        """Absence from a list is not enough: nothing is deleted before a GET by name returned NotFound."""
        kind = _kind(origin)
        try:
            await self._client.get(kind, origin.name, origin.namespace)
        except NotFound as error:
            return (error.kind, error.name) == (kind.plural, origin.name)
        return False

    async def _tell(self, origin: Origin, found: Object, condition: Condition) -> None:
        if not origin.managed:
            await self._annotate(origin, found, condition)
            return
        now = rfc3339(self._clock.now())

        def changed(obj: Object) -> Object:
            return with_conditions(obj, [condition], now)

        if changed(found) is not found:
            await update_status(self._client, MANAGED_CLUSTERS, origin.name, origin.namespace, changed)

    async def _annotate(self, origin: Origin, found: Object, condition: Condition) -> None:
        """The status of a Cluster API Cluster belongs to others: only errors are reported, in an annotation."""
        wrong = condition.message if condition.reason in ("NameTaken", "NameTooLong") else ""
        if (found["metadata"].get("annotations") or {}).get(workload.PROBLEM, "") != wrong:
            patch = {"metadata": {"annotations": {workload.PROBLEM: wrong or None}}}
            with suppress(NotFound):
                await self._client.merge(CLUSTER_API_CLUSTERS, origin.name, patch, origin.namespace)


def _kind(origin: Origin) -> Kind:
    return MANAGED_CLUSTERS if origin.managed else CLUSTER_API_CLUSTERS
