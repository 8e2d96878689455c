"""Sets the WorkerReady condition of a ManagedCluster when its Worker becomes silent and when it is heard again. Moves
and deletes nothing.

It writes at those changes only: a ManagedCluster whose Worker was never silent has no such condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.health.decide import is_silent, says_silent, standing
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds import fleet, moving
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

AWAITED = 100
"""The most awaited ManagedClusters that are listed in the status of a Worker."""


class Standing:
    """Keys are ManagedClusters."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        workers: Reflector,
        hosting_changed: Callable[[str], None],
        awaited_changed: Callable[[str], None] = lambda worker: None,
    ) -> None:
        self._client, self._clock, self._workers, self._hosting_changed = client, clock, workers, hosting_changed
        self._awaited_changed = awaited_changed
        self._awaited: dict[str, set[Key]] = {}
        """By Worker: ManagedClusters that are being deleted and were on it before."""
        self._formers: dict[Key, tuple[str, ...]] = {}
        self._hosted: dict[str, set[Key]] = {}
        """By Worker."""
        self._where: dict[Key, str] = {}
        self._silent: dict[str, bool] = {}
        self.loop: Loop[Key] = Loop("fleet-standing", clock, self.reconcile)
        self._managed = Reflector(
            client, MANAGED_CLUSTERS, clock, self._managed_changed, listed=self._listed, shared=True
        )
        self.loop.sources.append(self._managed.run)

    def hosted(self, worker: str) -> list[str] | None:
        """Returns the ManagedClusters assigned to a Worker, as namespace/name; None before the list is complete."""
        if not self._managed.synced:
            return None
        return [f"{key[1]}/{key[2]}" for key in self._hosted.get(worker, ())]

    def awaited(self, worker: str) -> list[str]:
        """Returns the first of the ManagedClusters whose cleanup the Worker has to confirm, as namespace/name."""
        return sorted(f"{key[1]}/{key[2]}" for key in self._awaited.get(worker, ()))[:AWAITED]

    @property
    def _informed(self) -> bool:
        return self._managed.synced and self._workers.synced

    def _worker(self, name: str) -> Object | None:
        return self._workers.objects.get(("", fleet.NAMESPACE, name))

    def _listed(self) -> None:
        for worker in self._hosted.keys() | self._silent.keys():
            self._hosting_changed(worker)
        self.sweep()

    def sweep(self) -> None:
        """Enqueues after a list every ManagedCluster whose condition is outdated."""
        if self._informed:
            for key, managed in self._managed.objects.items():
                self._look(key, managed)

    def worker_changed(self, key: Key, obj: Object | None) -> None:
        name, silent = key[2], is_silent(obj)
        if key[1] != fleet.NAMESPACE or self._silent.get(name) == silent:
            return
        self._silent[name] = silent
        for one in self._hosted.get(name, ()):
            self.loop.queue.add(one)

    def _managed_changed(self, key: Key, obj: Object | None) -> None:
        before, now = self._where.get(key, ""), fleet.assigned_worker(obj) if obj is not None else ""
        if before != now:
            self._move(key, before, now)
        self._wait(key, tuple(moving.former_workers(obj)) if obj is not None and fleet.is_deleting(obj) else ())
        if obj is not None and self._informed:
            self._look(key, obj)

    def _wait(self, key: Key, formers: tuple[str, ...]) -> None:
        before = self._formers.get(key, ())
        if before == formers:
            return
        self._formers[key] = formers
        if not formers:
            del self._formers[key]
        for worker in {*before, *formers}:
            keys = self._awaited.setdefault(worker, set())
            (keys.add if worker in formers else keys.discard)(key)
            if not keys:
                del self._awaited[worker]
            self._awaited_changed(worker)

    def _move(self, key: Key, before: str, now: str) -> None:
        if before:
            self._hosted[before].discard(key)
            self._where.pop(key)
            if not self._hosted[before]:
                del self._hosted[before]
        if now:
            self._hosted.setdefault(now, set()).add(key)
            self._where[key] = now
        for worker in (before, now):
            if worker:
                self._hosting_changed(worker)

    def _look(self, key: Key, managed: Object) -> None:
        worker = fleet.assigned_worker(managed)
        if worker and is_silent(self._worker(worker)) != says_silent(managed):
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        managed = self._managed.objects.get(key)
        if managed is None:
            return
        if not self._informed:
            raise Later("not everything has been listed yet")
        status = standing(managed, self._worker(fleet.assigned_worker(managed)), rfc3339(self._clock.now()))
        if status is None:
            return
        try:
            await self._client.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
        except NotFound:
            return
