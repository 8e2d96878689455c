"""Sets the WorkerReady condition of a ManagedCluster when its Worker becomes silent and when it is heard again. Moves
and deletes nothing.

It writes at those changes only: a ManagedCluster whose Worker was never silent has no such condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.health.decide import is_silent, reachability_status, reports_silent
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]

MAX_AWAITED = 100
"""The most awaited ManagedClusters that are listed in the status of a Worker."""


class WorkerReachability:
    """Keys are ManagedClusters."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        workers: Reflector,
        on_hosting: Callable[[str], None],
        on_awaited: Callable[[str], None] = lambda worker: None,
    ) -> None:
        self._client, self._clock, self._workers, self._on_hosting = client, clock, workers, on_hosting
        self._on_awaited = on_awaited
        self._awaited_by_worker: dict[str, set[Key]] = {}
        """By Worker: ManagedClusters that are being deleted and were on it before."""
        self._former_workers: dict[Key, tuple[str, ...]] = {}
        self._clusters_by_worker: dict[str, set[Key]] = {}
        """By Worker."""
        self._worker_by_key: dict[Key, str] = {}
        self._is_silent: dict[str, bool] = {}
        self.controller: Controller[Key] = Controller("fleet-standing", clock, self.reconcile)
        self._managed = Reflector(
            client, MANAGED_CLUSTERS, clock, self._on_managed_cluster, on_sync=self._on_sync, shared=True
        )
        self.controller.sources.append(self._managed.run)

    def clusters_of(self, worker: str) -> list[str] | None:
        """Returns the ManagedClusters assigned to a Worker, as namespace/name; None before the list is complete."""
        if not self._managed.has_synced:
            return None
        return [f"{key[1]}/{key[2]}" for key in self._clusters_by_worker.get(worker, ())]

    def awaited_of(self, worker: str) -> list[str]:
        """Returns the first of the ManagedClusters whose cleanup the Worker has to confirm, as namespace/name."""
        return sorted(f"{key[1]}/{key[2]}" for key in self._awaited_by_worker.get(worker, ()))[:MAX_AWAITED]

    @property
    def _has_synced(self) -> bool:
        return self._managed.has_synced and self._workers.has_synced

    def _worker(self, name: str) -> Object | None:
        return self._workers.objects.get(("", infrav1.NAMESPACE, name))

    def _on_sync(self) -> None:
        for worker in self._clusters_by_worker.keys() | self._is_silent.keys():
            self._on_hosting(worker)
        self.enqueue_stale()

    def enqueue_stale(self) -> None:
        """Enqueues after a list every ManagedCluster whose condition is outdated."""
        if self._has_synced:
            for key, managed in self._managed.objects.items():
                self._enqueue_if_stale(key, managed)

    def on_worker(self, key: Key, obj: Object | None) -> None:
        name, silent = key[2], is_silent(obj)
        if key[1] != infrav1.NAMESPACE or self._is_silent.get(name) == silent:
            return
        self._is_silent[name] = silent
        for cluster_key in self._clusters_by_worker.get(name, ()):
            self.controller.queue.add(cluster_key)

    def _on_managed_cluster(self, key: Key, obj: Object | None) -> None:
        previous, current = self._worker_by_key.get(key, ""), infrav1.assigned_worker(obj) if obj is not None else ""
        if previous != current:
            self._update_worker(key, previous, current)
        self._update_former_workers(
            key, tuple(migration.former_workers(obj)) if obj is not None and infrav1.is_deleting(obj) else ()
        )
        if obj is not None and self._has_synced:
            self._enqueue_if_stale(key, obj)

    def _update_former_workers(self, key: Key, former_workers: tuple[str, ...]) -> None:
        before = self._former_workers.get(key, ())
        if before == former_workers:
            return
        self._former_workers[key] = former_workers
        if not former_workers:
            del self._former_workers[key]
        for worker in {*before, *former_workers}:
            keys = self._awaited_by_worker.setdefault(worker, set())
            (keys.add if worker in former_workers else keys.discard)(key)
            if not keys:
                del self._awaited_by_worker[worker]
            self._on_awaited(worker)

    def _update_worker(self, key: Key, previous: str, current: str) -> None:
        if previous:
            self._clusters_by_worker[previous].discard(key)
            self._worker_by_key.pop(key)
            if not self._clusters_by_worker[previous]:
                del self._clusters_by_worker[previous]
        if current:
            self._clusters_by_worker.setdefault(current, set()).add(key)
            self._worker_by_key[key] = current
        for worker in (previous, current):
            if worker:
                self._on_hosting(worker)

    def _enqueue_if_stale(self, key: Key, managed: Object) -> None:
        worker = infrav1.assigned_worker(managed)
        if worker and is_silent(self._worker(worker)) != reports_silent(managed):
            self.controller.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        managed = self._managed.objects.get(key)
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
