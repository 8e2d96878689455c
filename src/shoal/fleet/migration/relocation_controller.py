"""Moves single ManagedClusters: those whose Worker no longer meets their requirements, and those that somebody asks to
move.

Keys are ManagedClusters, one at a time, so that budgets see each other. What a drain, a taint or the loss of the Worker
decides comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.migration import eviction, relocation
from shoal.fleet.migration.controller import MigrationReconciler
from shoal.fleet.migration.decide import REQUEST, REQUIREMENTS, MigrationObstacle, infrastructure_obstacle
from shoal.fleet.migration.relocation import Relocation, relocation_inputs
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.move_request import cleared_annotations, move_request
from shoal.objects.conditions import condition_is, get_condition
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]

BUDGET_SECONDS, RETRY_SECONDS = 1.0, 5.0
"""Between attempts while others of the Worker move, and while no other Worker can host the cluster."""


class RelocationReconciler:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        migrations: MigrationReconciler,
        is_evicted: Callable[[Object, Object], bool],
    ) -> None:
        """`is_evicted` tells whether a drain, a taint or a loss decides about a ManagedCluster of a Worker."""
        self._client, self._clock, self._migrations, self._is_evicted = client, clock, migrations, is_evicted
        migrations.still_wanted |= {REQUEST: self._is_wanted, REQUIREMENTS: self._is_wanted}
        self.controller: Controller[Key] = Controller("fleet-relocations", clock, self.reconcile, workers=1)
        self._workers = Informer(client, WORKERS, clock)
        migrations.cluster_handlers.append(self._on_managed_cluster)
        self.controller.watch(self._workers, self._on_worker)

    def _on_managed_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or not infrav1.assigned_worker(new):
            return
        if old is None or relocation_inputs(old) != relocation_inputs(new):
            self.controller.queue.add(key)
            if infrav1.migration_target(new):
                self._migrations.controller.queue.add(key)  # It may not be wanted any more.

    def _on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _offer(old) != _offer(new):
            for managed in self._migrations.clusters_of(key[2]):
                self.controller.queue.add(key_of(managed))

    def _is_wanted(self, managed: Object) -> bool:
        if not self._workers.has_synced:
            raise RequeueError("informer of Workers has not synced yet")
        worker = self._worker_of(managed)
        return worker is not None and relocation.is_still_wanted(managed, worker)

    def _worker_of(self, managed: Object) -> Object | None:
        return self._workers.get(("", infrav1.NAMESPACE, infrav1.assigned_worker(managed)))

    async def reconcile(self, key: Key) -> float | None:
        if not (self._migrations.has_synced and self._workers.has_synced):
            raise RequeueError("informers have not synced yet")
        managed = self._migrations.get(key)
        worker = self._worker_of(managed) if managed is not None else None
        if managed is None or worker is None or infrav1.migration_target(managed):
            return None
        wanted = relocation.relocation_of(managed, worker)
        if self._is_evicted(managed, worker):
            return RETRY_SECONDS if wanted.reason else None
        if not wanted.reason:
            await self._settle(managed)
            return None
        return await self._move(key, managed, worker, wanted)

    async def _settle(self, managed: Object) -> None:
        """Nothing has to be moved: neither the request nor the condition is needed any more."""
        if get_condition(managed, infrav1.MOVABLE) is not None:
            await self._migrations.set_movable(managed, None)
        elif move_request(managed).is_made:
            metadata = managed["metadata"]
            patch = {"metadata": {"uid": metadata["uid"], "annotations": cleared_annotations()}}
            await self._client.merge_patch(MANAGED_CLUSTERS, metadata["name"], patch, metadata["namespace"])

    async def _move(self, key: Key, managed: Object, worker: Object, wanted: Relocation) -> float | None:
        if self._is_worker_busy(worker):
            return BUDGET_SECONDS
        target = self._target(key, managed, worker, wanted.to)
        if isinstance(target, MigrationObstacle):
            message = f"{wanted.mismatch}; {target.message}" if wanted.mismatch else target.message
            await self._migrations.set_movable(managed, MigrationObstacle(target.reason, message))
            return RETRY_SECONDS
        await self._migrations.plan(managed, target, wanted.reason)
        return None

    def _is_worker_busy(self, worker: Object) -> bool:
        name = worker["metadata"]["name"]
        sending = sum(bool(infrav1.migration_target(each)) for each in self._migrations.clusters_of(name))
        return sending + len(self._migrations.migrated_from(name)) >= eviction.drain_budget(worker)

    def _target(self, key: Key, managed: Object, worker: Object, to: str) -> str | MigrationObstacle:
        """Returns the Worker to move to, or why it stays."""
        obstacle = infrastructure_obstacle(managed)
        if obstacle is not None:
            return obstacle
        name = worker["metadata"]["name"]
        if not condition_is(worker, infrav1.READY):
            return MigrationObstacle(
                "WorkerSilent", f"no heartbeat from worker {name}, and only it can transfer the cluster"
            )
        if self._migrations.backoff_remaining(key):
            return MigrationObstacle("TookTooLong", "the last migration timed out; it is retried later")
        if to:
            return self._requested_target(key, name, to)
        found = self._migrations.reservations.find_other_worker(key, partial(self._migrations.can_restore, name))
        return found if isinstance(found, str) else MigrationObstacle(found.reason, found.message)

    def _requested_target(self, key: Key, source: str, to: str) -> str | MigrationObstacle:
        reservations = self._migrations.reservations
        unfit = reservations.unfit_reason(key, to)
        if unfit:
            return MigrationObstacle("TargetUnfit", f"worker {to} cannot host it: {unfit}")
        if not reservations.has_room(key, to):
            return MigrationObstacle("TargetUnfit", f"worker {to} cannot host it: it has no room")
        if not self._migrations.can_restore(source, to):
            return MigrationObstacle("WorkersCannotRestore", f"worker {to} does not support taking over a cluster")
        return to


def _offer(worker: Object) -> tuple[object, ...]:
    return worker["metadata"].get("labels"), infrav1.spec_of(worker).get("location")
