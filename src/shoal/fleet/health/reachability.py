"""Sets the WorkerReady condition of a ManagedCluster when its Worker becomes silent and when it is heard again. Moves
and deletes nothing.

It writes at those changes only: a ManagedCluster whose Worker was never silent has no such condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.health.decide import is_silent, reachability_status, reports_silent
from shoal.fleet.indexers import by_assigned_worker
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]

MAX_AWAITED = 100
"""The most awaited ManagedClusters that are listed in the status of a Worker."""


def by_awaited_worker(key: Key, managed: Object) -> tuple[str, ...]:
    """Index of ManagedClusters that are being deleted by the Workers they were on before."""
    return tuple(migration.former_workers(managed)) if infrav1.is_deleting(managed) else ()


class WorkerReachability:
    """Keys are ManagedClusters."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        workers: Informer,
        on_hosting: Callable[[str], None],
        on_awaited: Callable[[str], None] = lambda worker: None,
    ) -> None:
        self._client, self._clock, self._workers, self._on_hosting = client, clock, workers, on_hosting
        self._on_awaited = on_awaited
        self.controller: Controller[Key] = Controller("fleet-standing", clock, self.reconcile)
        self._managed = Informer(client, MANAGED_CLUSTERS, clock, indexers=(by_assigned_worker, by_awaited_worker))
        self._managed.on_sync(self._on_sync)
        self.controller.watch(self._managed, self._on_managed_cluster)

    def clusters_of(self, worker: str) -> list[str] | None:
        """Returns the ManagedClusters assigned to a Worker, as namespace/name; None before the list is complete."""
        if not self._managed.has_synced:
            return None
        return _namespaced_names(self._managed.by_index(by_assigned_worker, worker))

    def awaited_of(self, worker: str) -> list[str]:
        """Returns the first of the ManagedClusters whose cleanup the Worker has to confirm, as namespace/name."""
        return sorted(_namespaced_names(self._managed.by_index(by_awaited_worker, worker)))[:MAX_AWAITED]

    @property
    def _has_synced(self) -> bool:
        return self._managed.has_synced and self._workers.has_synced

    def _worker(self, name: str) -> Object | None:
        return self._workers.get(("", infrav1.NAMESPACE, name))

    def _on_sync(self) -> None:
        for _, namespace, worker in list(self._workers.objects):
            if namespace == infrav1.NAMESPACE:
                self._on_hosting(worker)
        self.enqueue_stale()

    def enqueue_stale(self) -> None:
        """Enqueues after a list every ManagedCluster whose condition is outdated."""
        if self._has_synced:
            for key, managed in self._managed.objects.items():
                self._enqueue_if_stale(key, managed)

    def on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        if key[1] != infrav1.NAMESPACE or (old is not None and is_silent(old) == is_silent(new)):
            return
        for managed in self._managed.by_index(by_assigned_worker, key[2]):
            self.controller.queue.add(key_of(managed))

    def _on_managed_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        hosting, awaited = (
            [set(index(key, obj)) if obj is not None else set() for obj in (old, new)]
            for index in (by_assigned_worker, by_awaited_worker)
        )
        for worker in hosting[0] ^ hosting[1]:
            self._on_hosting(worker)
        for worker in awaited[0] ^ awaited[1]:
            self._on_awaited(worker)
        if new is not None and self._has_synced:
            self._enqueue_if_stale(key, new)

    def _enqueue_if_stale(self, key: Key, managed: Object) -> None:
        worker = infrav1.assigned_worker(managed)
        if worker and is_silent(self._worker(worker)) != reports_silent(managed):
            self.controller.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        managed = self._managed.get(key)
        if managed is None:
            return
        if not self._has_synced:
            raise RequeueError("informers have not synced yet")
        status = reachability_status(
            managed, self._worker(infrav1.assigned_worker(managed)), rfc3339(self._clock.now())
        )
        if status is None:
            return
        try:
            await self._client.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
        except NotFound:
            return


def _namespaced_names(objects: list[Object]) -> list[str]:
    return [f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}" for obj in objects]
