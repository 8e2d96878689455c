"""Migrations in progress: each is written, followed to completion or cancelled, by compare-and-swap on the
ManagedCluster.

Other controllers decide what to migrate (`eviction_controller` and the rebalancer). A planned migration waits until the
worker confirms that everything was sent; then the ManagedCluster is reassigned. Own writes are visible here at once,
before the watch delivers them, so that budgets hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.indexers import by_assigned_worker
from shoal.fleet.migration.decide import (
    MigrationObstacle,
    RestoreSource,
    cancelled_status,
    completed_status,
    final_source,
    is_migrating,
    movable_status,
    planned_status,
    reassigned_status,
)
from shoal.fleet.migration.settings import CONFIG_MAP, MigrationSettings, parse_migration_settings
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS
from shoal.fleet.scheduler.controller import FleetScheduler
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import EventHandler, Informer

Object = dict[str, Any]
StillWanted = Callable[[Object], bool]
"""Returns whether a migration in progress is still wanted."""
ANY_WORKER = ""


def by_previous_worker(key: Key, managed: Object) -> tuple[str, ...]:
    """Index of ManagedClusters that were migrated and are not ready yet by their previous Worker, and by ANY_WORKER."""
    if not is_migrating(managed) or infrav1.is_deleting(managed):
        return ()
    return str(infrav1.status_of(managed)["lastMove"].get("from") or ""), ANY_WORKER


def by_migration_worker(key: Key, managed: Object) -> tuple[str, ...]:
    """Index of ManagedClusters that are being migrated by the Worker they are on and by their target."""
    target = infrav1.migration_target(managed)
    return tuple({target, *by_assigned_worker(key, managed)}) if target else ()


INDEXERS = (by_assigned_worker, by_previous_worker, by_migration_worker)


class MigrationReconciler:
    """Keys are ManagedClusters."""

    def __init__(self, client: Client, clock: Clock, scheduler: FleetScheduler) -> None:
        self._client, self._clock, self._scheduler = client, clock, scheduler
        self.reservations = scheduler.reservations
        self.still_wanted: dict[str, StillWanted] = {}
        """By migration reason."""
        self.can_restore: Callable[[str, str], bool] = lambda source, worker: True
        """Returns whether a Worker can take over the clusters of a source Worker."""
        self.can_read_log: Callable[[str, str], bool] = lambda source, worker: True
        """Returns whether a Worker is of a release that reads the logs of a source Worker."""
        self.handlers: list[Callable[[str], None]] = []
        """Called with the names of Workers whose ManagedClusters have changed."""
        self.cluster_handlers: list[EventHandler] = []
        """Called with changes of ManagedClusters, own writes included."""
        self._planned_at: dict[Key, tuple[str, float]] = {}
        """When a planned migration was first seen, on the monotonic clock."""
        self._backoff_until: dict[Key, float] = {}
        """Until when a cluster whose migration took too long is left alone."""
        self.controller: Controller[Key] = Controller("fleet-moves", clock, self.reconcile)
        self._managed = Informer(client, MANAGED_CLUSTERS, clock, indexers=INDEXERS)
        fields = f"metadata.namespace={infrav1.NAMESPACE},metadata.name={CONFIG_MAP}"
        self._settings_informer = Informer(client, CONFIG_MAPS, clock, fields=fields)
        self.settings = MigrationSettings()
        self.controller.watch(self._managed, self._on_managed_cluster)
        self.controller.watch(self._settings_informer, self._on_settings)

    @property
    def has_synced(self) -> bool:
        return self._managed.has_synced and self._settings_informer.has_synced and self._scheduler.has_synced

    def _on_settings(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.settings = parse_migration_settings(new)
        self._notify({worker for each in self._managed.objects.items() for worker in _workers_of(*each)})

    def _notify(self, workers: set[str]) -> None:
        for worker in workers:
            for handler in self.handlers:
                handler(worker)

    def get(self, key: Key) -> Object | None:
        return self._managed.get(key)

    def clusters_of(self, worker: str) -> list[Object]:
        return self._managed.by_index(by_assigned_worker, worker)

    def all_clusters(self) -> list[Object]:
        """Those that are assigned to a Worker, sorted by key."""
        return [each for _, each in sorted(self._managed.objects.items()) if infrav1.assigned_worker(each)]

    def migrated_from(self, worker: str) -> list[Object]:
        """Those that were migrated from that Worker and are not ready yet."""
        return self._managed.by_index(by_previous_worker, worker)

    def all_migrated(self) -> list[Object]:
        return self.migrated_from(ANY_WORKER)

    def enqueue_worker(self, worker: str) -> None:
        """Requeues migrations from and to that Worker: they may no longer be wanted or possible."""
        for managed in self._managed.by_index(by_migration_worker, worker):
            self.controller.queue.add(key_of(managed))

    def _on_managed_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        for on_change in self.cluster_handlers:
            on_change(key, old, new)
        self._notify({worker for obj in (old, new) if obj is not None for worker in _workers_of(key, obj)})
        if new is None:
            self._planned_at.pop(key, None)
            self._backoff_until.pop(key, None)
        elif condition_is(new, infrav1.MOVING):
            self.controller.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        managed = self.get(key)
        if managed is None:
            return None
        if not self.has_synced:
            raise RequeueError("informers have not synced yet")
        try:
            return await self._advance(key, managed)
        except NotFound:
            return None

    async def _advance(self, key: Key, managed: Object) -> float | None:
        """Returns when to reconcile again."""
        if not infrav1.migration_target(managed):
            self._planned_at.pop(key, None)
            completed = completed_status(managed, self._now())
            if completed is not None:
                await self._write(managed, completed)
            return None
        obstacle = self._cancel_reason(key, managed)
        remaining = self._remaining_seconds(key, managed)
        if obstacle is None and migration.is_final_backup_shipped(managed):
            move = migration.planned_migration(managed)
            await self.rebind(managed, move["to"], move["reason"], final_source(managed))
            return None
        if obstacle is None and remaining <= 0:
            obstacle = MigrationObstacle(
                "TookTooLong", f"the transfer did not finish within {self.settings.frozen:.0f} seconds"
            )
            self._backoff_until[key] = self._clock.monotonic() + self.settings.frozen
        if obstacle is not None:
            await self._write(managed, cancelled_status(managed, obstacle, self._now()))
            return None
        return remaining

    def _cancel_reason(self, key: Key, managed: Object) -> MigrationObstacle | None:
        move = migration.planned_migration(managed)
        if infrav1.is_deleting(managed):
            return MigrationObstacle("Deleting", "it is being deleted")
        is_wanted = self.still_wanted.get(move["reason"])
        if move["from"] != infrav1.assigned_worker(managed) or is_wanted is None or not is_wanted(managed):
            return MigrationObstacle("Cancelled", f"the migration from worker {move['from']} is no longer wanted")
        unfit_reason = self.reservations.unfit_reason(key, move["to"])
        if not unfit_reason and not self.can_read_log(move["from"], move["to"]):
            unfit_reason = f"its release does not read the log of worker {move['from']}"
        return (
            MigrationObstacle("TargetUnfit", f"worker {move['to']} cannot host it: {unfit_reason}")
            if unfit_reason
            else None
        )

    def _remaining_seconds(self, key: Key, managed: Object) -> float:
        since, now = str(migration.planned_migration(managed)["since"]), self._clock.monotonic()
        first_seen = self._planned_at.get(key)
        if first_seen is None or first_seen[0] != since:
            first_seen = self._planned_at[key] = since, now
        return first_seen[1] + self.settings.frozen - now

    def backoff_remaining(self, key: Key) -> float:
        """Seconds for which the cluster is left alone."""
        remaining = self._backoff_until.get(key, 0.0) - self._clock.monotonic()
        if remaining <= 0:
            self._backoff_until.pop(key, None)
        return max(0.0, remaining)

    async def plan(self, managed: Object, to: str, reason: str) -> None:
        """Asks its Worker to send the cluster. Capacity on the target `to` is reserved from now on."""
        await self._reserve_and_write(managed, to, planned_status(managed, to, reason, self._now()))

    async def rebind(self, managed: Object, to: str, reason: str, source: RestoreSource) -> None:
        await self._reserve_and_write(managed, to, reassigned_status(managed, to, reason, source, self._now()))

    async def _reserve_and_write(self, managed: Object, to: str, status: Object) -> None:
        key = key_of(managed)
        self.reservations.reserve(key, to)
        try:
            await self._write(managed, status)
        except BaseException:
            self.reservations.release(key)  # If it was written all the same, the watch will report it.
            raise

    async def set_movable(self, managed: Object, obstacle: MigrationObstacle | None) -> None:
        """Sets why the cluster is not migrated; None: it does not have to be."""
        status = movable_status(managed, obstacle, self._now())
        if status is not None:
            await self._write(managed, status)

    async def _write(self, managed: Object, status: Object) -> None:
        updated = await self._client.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
        key = key_of(updated)
        cached = self.get(key)
        if cached is None:
            return  # Deleted meanwhile.
        self._managed.observe_write(updated)
        if _revision(cached) < _revision(updated):
            self._on_managed_cluster(key, cached, updated)
        self.reservations.observe_write(key, updated)

    def _now(self) -> str:
        return rfc3339(self._clock.now())


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _workers_of(key: Key, managed: Object) -> set[str]:
    """The Worker it is on, the previous one while it is not ready yet, and the migration target."""
    return {worker for index in INDEXERS for worker in index(key, managed)} - {ANY_WORKER}
