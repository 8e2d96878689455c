"""Evicts ManagedClusters from Workers: one by one from a Worker that is drained or tainted, and all that may move from
a lost one.

Keys are names of Workers. One Worker is reconciled at a time, so that budgets and target choices see each other. The
safety rules are in `lease_expiry` and `decide`; `controller` writes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.migration import eviction
from shoal.fleet.migration.controller import MigrationReconciler
from shoal.fleet.migration.decide import (
    DRAIN,
    LOST,
    TAINT,
    LeaseObservation,
    MigrationObstacle,
    RestoreSource,
    can_read_log,
    has_expired,
    infrastructure_obstacle,
    observe_lease,
    required_silence,
    restore_source_of,
    supports_fencing,
)
from shoal.fleet.migration.eviction import EvictionProgress
from shoal.fleet.resources import LEASES, WORKERS
from shoal.fleet.scheduler.controller import FleetScheduler
from shoal.fleet.scheduler.decide import Unschedulable
from shoal.fleet.scheduler.requirements import ClusterRequirements
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

MANY_LOST, RECOUNT_SECONDS = 10, 10.0
"""With more lost Workers than that, the counts in their messages are not updated at once."""
RETRY_SECONDS = 1.0
"""How soon clusters without a target are tried again."""


class EvictionReconciler:
    def __init__(self, client: Client, clock: Clock, scheduler: FleetScheduler) -> None:
        self._client, self._clock = client, clock
        self.migrations = MigrationReconciler(client, clock, scheduler)
        self.migrations.still_wanted |= {DRAIN: self._is_wanted, TAINT: self._is_wanted}
        self.migrations.can_restore, self.migrations.can_read_log = self._can_restore, self._can_read_log
        self.migrations.handlers.append(self._on_hosting)
        self._lease_observations: dict[str, LeaseObservation] = {}
        """Leases by Worker: since when each has its current state."""
        self._tainted_since: dict[str, dict[str, float]] = {}
        """By Worker: when each NoExecute taint was first seen."""
        self._active: set[str] = set()
        """Workers that are being drained or evacuated, or whose conditions still say so."""
        self._lost: set[str] = set()
        self._ready: set[str] = set()
        self._too_many_lost = False
        """So many Workers are lost that nothing is migrated."""
        self._waits_for_capacity = False
        """A cluster of the Worker that is being reconciled could move as soon as another Worker has capacity."""
        self.controller: Controller[str] = Controller("fleet-departures", clock, self.reconcile, workers=1)
        self._workers = Informer(client, WORKERS, clock)
        self._leases = Informer(client, LEASES, clock, fields=f"metadata.namespace={infrav1.NAMESPACE}")
        self.controller.watch(self._workers, self._on_worker)
        self.controller.watch(self._leases, self._on_lease)

    def worker(self, name: str) -> Object | None:
        return self._workers.get(("", infrav1.NAMESPACE, name))

    def _on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        if key[1] != infrav1.NAMESPACE:
            return
        name = key[2]
        self.controller.queue.add(name)
        ready = new is not None and condition_is(new, infrav1.READY)
        (self._ready.add if ready else self._ready.discard)(name)
        if (new is None or eviction.is_lost(new)) != (name in self._lost):
            (self._lost.discard if name in self._lost else self._lost.add)(name)
            self._update_lost()
        self.migrations.enqueue_worker(name)

    def _update_lost(self) -> None:
        """Requeues all lost Workers at once if the limit of lost Workers is crossed. Otherwise only the counts in their
        messages change, so in a fleet that goes silent Worker by Worker they are not all reconciled for each one.
        """
        lost_count = self._count_lost()
        was_too_many, self._too_many_lost = (
            self._too_many_lost,
            lost_count > self.migrations.settings.lost_share * (lost_count + len(self._ready)),
        )
        for name in self._lost:
            if was_too_many != self._too_many_lost or len(self._lost) <= MANY_LOST:
                self.controller.queue.add(name)
            else:
                self.controller.queue.add_after(name, RECOUNT_SECONDS)

    def _count_lost(self) -> int:
        """Counts lost Workers, without those that are being deleted and empty."""
        lost_workers = (self.worker(name) for name in self._lost)
        return sum(worker is not None and not self._is_deleted_and_empty(worker) for worker in lost_workers)

    def _on_lease(self, key: Key, old: Object | None, new: Object | None) -> None:
        name = infrav1.worker_of_lease(key[2])
        if name:
            self._lease_observations[name] = observe_lease(
                self._lease_observations.get(name), new, self._clock.monotonic()
            )

    def _on_hosting(self, worker: str) -> None:
        if worker in self._active or worker in self._lost or self.worker(worker) is None:
            self.controller.queue.add(worker)

    def _lease(self, worker: str) -> Object | None:
        return self._leases.get(("", infrav1.NAMESPACE, infrav1.lease_name(worker)))

    def _can_restore(self, source: str, worker: str) -> bool:
        """True if the worker can take over a cluster of the source worker, as their Leases say."""
        return supports_fencing(self._lease(worker)) and self._can_read_log(source, worker)

    def _can_read_log(self, source: str, worker: str) -> bool:
        if not self._leases.has_synced:
            raise RequeueError("informer of Leases has not synced yet")
        return can_read_log(self._lease(worker), self._lease(source))

    def _is_wanted(self, managed: Object) -> bool:
        """A planned migration continues even though a hub that starts counts toleration seconds anew."""
        if not self._workers.has_synced:
            raise RequeueError("informer of Workers has not synced yet")
        worker = self.worker(infrav1.assigned_worker(managed))
        return worker is not None and self._eviction_due(managed, worker) != eviction.EvictionDue()

    def is_evicted(self, managed: Object, worker: Object) -> bool:
        """Reports whether the ManagedCluster has to leave because of its Worker: a drain, a taint, or its loss."""
        return eviction.is_lost(worker) or bool(self._eviction_due(managed, worker).reason)

    def _eviction_due(self, managed: Object, worker: Object) -> eviction.EvictionDue:
        since = self._tainted_since.get(worker["metadata"]["name"], {})
        return eviction.eviction_due(managed, worker, since, self._clock.monotonic())

    async def reconcile(self, name: str) -> float | None:
        if not (self.migrations.has_synced and self._workers.has_synced and self._leases.has_synced):
            raise RequeueError("informers have not synced yet")
        worker, self._waits_for_capacity = self.worker(name), False
        if worker is None:
            return await self._evacuate_missing_worker(name)
        self._observe_taints(name, worker)
        drain_progress, drain_requeue = await self._drain(name, worker)
        evacuation_progress, block, evacuation_requeue = await self._evacuate(name, worker)
        await self._clear_movable_conditions(worker)
        await self._report(worker, drain_progress, evacuation_progress, block)
        delays = [
            each
            for each in (drain_requeue, evacuation_requeue, RETRY_SECONDS if self._waits_for_capacity else None)
            if each is not None
        ]
        return min(delays) if delays else None

    async def _evacuate_missing_worker(self, name: str) -> float | None:
        """The Worker object was removed by force: its ManagedClusters are migrated as from a lost one."""
        self._active.discard(name)
        self._tainted_since.pop(name, None)
        if not self.migrations.clusters_of(name):
            self._lost.discard(name)
            self._lease_observations.pop(name, None)
            return None
        _, _, requeue_after = await self._evacuate(name, eviction.missing_worker(name))
        return RETRY_SECONDS if self._waits_for_capacity else requeue_after

    def _observe_taints(self, name: str, worker: Object) -> None:
        now, first_seen = self._clock.monotonic(), self._tainted_since.get(name, {})
        tainted_since = {text: first_seen.get(text, now) for text in eviction.no_execute_taints(worker)}
        if tainted_since:
            self._tainted_since[name] = tainted_since
        else:
            self._tainted_since.pop(name, None)

    async def _report(
        self,
        worker: Object,
        drain_progress: EvictionProgress | None,
        evacuation_progress: EvictionProgress | None,
        block: MigrationObstacle | None,
    ) -> None:
        """Writes the Worker's conditions. It stays active as long as it has any of them."""
        now, updated, name = rfc3339(self._clock.now()), worker, worker["metadata"]["name"]
        status = eviction.drained_status(updated, drain_progress, now)
        updated = {**updated, "status": status} if status is not None else updated
        status = eviction.evacuated_status(updated, evacuation_progress, block, now)
        updated = {**updated, "status": status} if status is not None else updated
        (self._active.add if _has_eviction_condition(updated) else self._active.discard)(name)
        try:
            if updated is not worker:
                worker = await self._client.update(WORKERS, updated, "status")
            if eviction.is_evacuation_approved(worker) and condition_is(worker, infrav1.READY):
                # The approval was for this one loss.
                patch = {"metadata": {"annotations": {eviction.EVACUATION_APPROVED: None}}}
                await self._client.merge_patch(WORKERS, name, patch, infrav1.NAMESPACE)
        except NotFound:
            return

    async def _clear_movable_conditions(self, worker: Object) -> None:
        """Removes the Movable condition from clusters that no longer have to be moved."""
        if eviction.is_lost(worker) or not _has_eviction_condition(worker):
            return
        for managed in self.migrations.clusters_of(worker["metadata"]["name"]):
            if get_condition(managed, infrav1.MOVABLE) is not None and not self._eviction_due(managed, worker).reason:
                await self.migrations.set_movable(managed, None)

    async def _drain(self, name: str, worker: Object) -> tuple[EvictionProgress | None, float | None]:
        """Returns the progress, and when the next cluster will have to leave."""
        if not (infrav1.spec_of(worker).get("drain") or eviction.no_execute_taints(worker)):
            return None, None
        dues = [(managed, self._eviction_due(managed, worker)) for managed in self.migrations.clusters_of(name)]
        requeue_after = min((due.requeue_after for _, due in dues if due.requeue_after is not None), default=None)
        reasons = {key_of(managed): due.reason for managed, due in dues if due.reason}
        migrated = [each for each in self.migrations.migrated_from(name) if _last_move_reason(each) in (DRAIN, TAINT)]
        candidates = [
            managed for managed, _ in dues if key_of(managed) in reasons and not infrav1.migration_target(managed)
        ]
        progress = EvictionProgress(
            remaining=len(reasons), sending=len(reasons) - len(candidates), restoring=len(migrated)
        )
        unschedulable_by_requirements: dict[ClusterRequirements, Unschedulable] = {}
        for managed in eviction.sort_by_name(candidates):
            key = key_of(managed)
            if progress.sending + progress.restoring >= eviction.drain_budget(worker):
                break
            target = self._drain_target(key, managed, worker, unschedulable_by_requirements)
            if isinstance(target, MigrationObstacle):
                progress.obstacles[_namespaced_name(managed)] = target
                if not (eviction.is_lost(worker) and _moves_when_lost(managed)):  # See _evacuate.
                    await self.migrations.set_movable(managed, target)
            else:
                await self.migrations.plan(managed, target, reasons[key])
                progress.sending += 1
        return progress, requeue_after

    def _drain_target(
        self,
        key: Key,
        managed: Object,
        worker: Object,
        unschedulable_by_requirements: dict[ClusterRequirements, Unschedulable],
    ) -> str | MigrationObstacle:
        name = worker["metadata"]["name"]
        if not condition_is(worker, infrav1.READY):
            return MigrationObstacle(
                "WorkerSilent", f"no heartbeat from worker {name}, and only it can transfer the cluster"
            )
        if self.migrations.backoff_remaining(key):
            self._waits_for_capacity = True
            return MigrationObstacle("TookTooLong", "the last migration timed out; it is retried later")
        return infrastructure_obstacle(managed) or self._find_target(name, key, unschedulable_by_requirements)

    def _find_target(
        self, source: str, key: Key, unschedulable_by_requirements: dict[ClusterRequirements, Unschedulable]
    ) -> str | MigrationObstacle:
        """`unschedulable_by_requirements` caches failures of equal requirements. A migration uses capacity and frees
        none.
        """
        requirements = self.migrations.reservations.requirements_of(key)
        cached = unschedulable_by_requirements.get(requirements) if requirements is not None else None
        can_restore = partial(self.migrations.can_restore, source)
        result = cached or self.migrations.reservations.find_other_worker(key, can_restore)
        if isinstance(result, str):
            return result
        if requirements is not None:
            unschedulable_by_requirements[requirements] = result
        self._waits_for_capacity = True
        return MigrationObstacle(result.reason, result.message)

    def _reserved_target(self, managed: Object) -> str:
        """Returns the Worker on which capacity is reserved for it already; empty if there is none."""
        to = infrav1.migration_target(managed)
        if self.migrations.reservations.unfit_reason(key_of(managed), to):
            return ""
        return to if self._can_read_log(infrav1.assigned_worker(managed), to) else ""

    async def _evacuate(
        self, name: str, worker: Object
    ) -> tuple[EvictionProgress | None, MigrationObstacle | None, float | None]:
        """Returns the progress, what blocks the whole evacuation, and when to reconcile again."""
        if not eviction.is_lost(worker):
            return None, None, None
        to_move = [each for each in self.migrations.clusters_of(name) if _moves_when_lost(each)]
        migrated = [each for each in self.migrations.migrated_from(name) if _last_move_reason(each) == LOST]
        if not (to_move or migrated or get_condition(worker, eviction.EVACUATED)):
            return None, None, None
        progress = EvictionProgress(remaining=len(to_move), restoring=len(migrated))
        lease = self._lease(name)
        observation = self._lease_observations[name] = observe_lease(
            self._lease_observations.get(name), lease, self._clock.monotonic()
        )
        silence_needed = required_silence(lease, self.migrations.settings)
        remaining = observation.since + silence_needed - self._clock.monotonic()
        block = self._evacuation_block(worker) if to_move else None
        if block is not None:
            for managed in to_move:
                await self.migrations.set_movable(managed, eviction.without_counts(block))
            return progress, block, None
        if to_move and remaining > 0:
            message = f"ManagedClusters are moved after {silence_needed:.0f} seconds without a heartbeat"
            return progress, MigrationObstacle("Waiting", message), remaining
        await self._migrate_lost(name, to_move, lease, progress)
        return progress, None, None

    def _evacuation_block(self, worker: Object) -> MigrationObstacle | None:
        settings = self.migrations.settings
        if settings.settings_error:
            return MigrationObstacle("InvalidSettings", settings.settings_error)
        lost_count = self._count_lost() + (self.worker(worker["metadata"]["name"]) is None)
        return eviction.too_many_lost(worker, lost_count, lost_count + len(self._ready), settings.lost_share)

    def _is_deleted_and_empty(self, worker: Object) -> bool:
        """It is empty and being deleted, so it no longer counts."""
        return infrav1.is_deleting(worker) and not self.migrations.clusters_of(worker["metadata"]["name"])

    async def _migrate_lost(
        self, name: str, to_move: list[Object], lease: Object | None, progress: EvictionProgress
    ) -> None:
        lost = [each for each in self.migrations.all_migrated() if _last_move_reason(each) == LOST]
        under_way = [each for each in lost if infrav1.status_of(each).get("phase") != infrav1.FAILED]
        available = self.migrations.settings.at_once - len(under_way)
        unschedulable_by_requirements: dict[ClusterRequirements, Unschedulable] = {}
        for managed in eviction.sort_by_name(to_move):
            if migration.is_final_backup_shipped(managed):
                continue  # Its planned migration completes to its target.
            restore_source = restore_source_of(managed, lease, self.migrations.settings)
            if not isinstance(restore_source, MigrationObstacle) and available > 0:
                key = key_of(managed)
                target = self._reserved_target(managed) or self._find_target(name, key, unschedulable_by_requirements)
                if isinstance(target, str):
                    if not await self._migrate(name, managed, target):
                        return
                    available, progress.remaining, progress.restoring = (
                        available - 1,
                        progress.remaining - 1,
                        progress.restoring + 1,
                    )
                    continue
                restore_source = target
            if isinstance(restore_source, MigrationObstacle):
                progress.obstacles[_namespaced_name(managed)] = restore_source
                await self.migrations.set_movable(managed, restore_source)
            else:
                self._waits_for_capacity = True
                await self.migrations.set_movable(managed, None)

    async def _migrate(self, name: str, managed: Object, to: str) -> bool:
        """The three steps: `managed` was read before, and its revision is what the write replaces; the Lease is read
        from the API now; then the cluster is reassigned. Returns False if the worker was heard, or if nothing is
        certain.
        """
        requested_at = self._clock.monotonic()
        try:
            lease: Object | None = await self._client.get(LEASES, infrav1.lease_name(name), infrav1.NAMESPACE)
        except NotFound:
            lease = None
        observation = self._lease_observations[name] = observe_lease(
            self._lease_observations.get(name), lease, self._clock.monotonic()
        )
        restore_source = restore_source_of(managed, lease, self.migrations.settings)
        if not has_expired(observation, lease, requested_at, self.migrations.settings) or not isinstance(
            restore_source, RestoreSource
        ):
            self._waits_for_capacity = True
            return False
        await self.migrations.rebind(managed, to, LOST, restore_source)
        log.info("worker %s is lost: moved %s to worker %s", name, _namespaced_name(managed), to)
        return True


def _has_eviction_condition(worker: Object) -> bool:
    return any(get_condition(worker, type_) for type_ in (eviction.DRAINED, eviction.EVACUATED))


def _moves_when_lost(managed: Object) -> bool:
    return migration.migrates_on_worker_loss(managed) and not infrav1.is_deleting(managed)


def _last_move_reason(managed: Object) -> str:
    return str((infrav1.status_of(managed).get("lastMove") or {}).get("reason") or "")


def _namespaced_name(managed: Object) -> str:
    return f"{managed['metadata'].get('namespace', '')}/{managed['metadata']['name']}"
