"""The registration loop: a ManagedCluster that runs becomes a workload Cluster, and stops being one before it goes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition, with_conditions
from shoal.sync.registration.decide import decide
from shoal.sync.reporting import update_status
from shoal.sync.resources import CLUSTERS, MANAGED_CLUSTERS

Object = dict[str, Any]


def registration_loop(client: Client, clock: Clock) -> Loop[Key]:
    return Registration(client, clock).loop


class Registration:
    """Keys are ManagedClusters."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[Key] = Loop("registration", clock, self.reconcile)
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, self._managed_changed, shared=True)
        self._clusters = Reflector(client, CLUSTERS, clock, self._cluster_changed, listed=self._look_at_all)
        self.loop.sources += [self._managed.run, self._clusters.run]

    def _managed_changed(self, key: Key, obj: Object | None) -> None:
        self.loop.queue.add(key)

    def _cluster_changed(self, key: Key, obj: Object | None) -> None:
        """It belongs to, or stands in the way of, whoever would give it that name."""
        for namespace, name in workload.managed_by_name(key[2]):
            self.loop.queue.add(("", namespace, name))

    def _look_at_all(self) -> None:
        for key in self._managed.objects:
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        _, namespace, name = key
        if not self._clusters.synced:
            return  # all are looked at once it is
        managed = self._managed.objects.get(key)
        title = workload.name_for(namespace, name)
        cluster = self._clusters.objects.get(("", "", title))
        if managed is None and (cluster is None or not await self._is_gone(namespace, name)):
            return
        decision = decide(namespace, name, managed, cluster)
        if decision.create is not None:
            try:
                await self._client.create(CLUSTERS, decision.create)
            except AlreadyExists:
                raise Later("a workload Cluster of that name has just come") from None
        if decision.delete:
            with suppress(NotFound):
                await self._client.delete(CLUSTERS, title, uid=decision.delete)
        if decision.condition is not None and managed is not None:
            await self._tell(managed, decision.condition)

    async def _is_gone(self, namespace: str, name: str) -> bool:
        """Not being in a list is not enough: nothing is deleted before the API said so by name."""
        try:
            await self._client.get(MANAGED_CLUSTERS, name, namespace)
        except NotFound as error:
            return (error.kind, error.name) == (MANAGED_CLUSTERS.plural, name)
        return False

    async def _tell(self, managed: Object, condition: Condition) -> None:
        now = rfc3339(self._clock.now())

        def changed(obj: Object) -> Object:
            return with_conditions(obj, [condition], now)

        if changed(managed) is not managed:
            metadata = managed["metadata"]
            await update_status(self._client, MANAGED_CLUSTERS, metadata["name"], metadata["namespace"], changed)
