"""Statuses of a ManagedCluster that is migrated, and whether one of a lost Worker may be. Pure.

Each status is built from the one that was read and is written by compare-and-swap on its resourceVersion. Together with
`lease_expiry` this keeps a cluster from having two holders (docs/moving.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shoal.fleet.migration.settings import MigrationSettings
from shoal.fleet.scheduler.decide import bound_status
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.conditions import condition_is, get_condition, remove_condition, set_condition


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    version: str
    """Version of the Lease; empty if there is none."""
    since: float
    """When this version was first seen: the renewal was not later."""


def lease_version(lease: Object | None) -> str:
    return f"{lease['metadata']['uid']}/{lease['metadata']['resourceVersion']}" if lease is not None else ""


def observe_lease(previous: LeaseObservation | None, lease: Object | None, now: float) -> LeaseObservation:
    """`now` is when the response arrived, never before the request was sent."""
    version = lease_version(lease)
    return previous if previous is not None and previous.version == version else LeaseObservation(version, now)


def required_silence(lease: Object | None, settings: MigrationSettings) -> float:
    """Seconds of silence after which the worker can no longer hold anything and its grace period is over."""
    lease_seconds = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0
    return max(float(lease_seconds), infrav1.LEASE_GRACE_SECONDS) + settings.skew + settings.grace


def has_expired(
    observation: LeaseObservation | None, lease: Object | None, requested_at: float, settings: MigrationSettings
) -> bool:
    """`requested_at`: when the Lease was requested, so the result was true then or later."""
    if observation is None or observation.version != lease_version(lease):
        return False
    return requested_at - observation.since >= required_silence(lease, settings)


Object = dict[str, Any]

LOST, DRAIN, TAINT, REBALANCE = "WorkerLost", "Drain", "Taint", "Rebalance"
REQUEST, REQUIREMENTS = "Request", "Requirements"
"""Migration reasons. The last: its Worker does not meet `location` or `workerSelector` of its spec."""
MOVABLE_INFRASTRUCTURE = "embedded"
"""Other infrastructures have their control planes on machines that do not move."""


@dataclass(frozen=True, slots=True)
class MigrationObstacle:
    """Why it is not migrated."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """Where its next holder restores the data from."""

    restore_from: Object | None
    """`status.restoreFrom`; None: it never held anything and starts empty."""


def infrastructure_obstacle(managed: Object) -> MigrationObstacle | None:
    infrastructure = infrav1.spec_of(managed).get("infrastructure") or MOVABLE_INFRASTRUCTURE
    if infrastructure != MOVABLE_INFRASTRUCTURE:
        return MigrationObstacle(
            "InfrastructureNotMovable", f"clusters with infrastructure {infrastructure} cannot be moved"
        )
    return None


def restore_source_of(
    managed: Object, lease: Object | None, settings: MigrationSettings
) -> RestoreSource | MigrationObstacle:
    """Returns the restore source of a cluster whose worker is lost. It migrates only if that worker is known to refuse
    writes to it by now.
    """
    obstacle = infrastructure_obstacle(managed)
    if obstacle is not None:
        return obstacle
    worker, epoch = infrav1.assigned_worker(managed), infrav1.epoch(managed)
    held, backup = migration.lease_guard(managed), migration.backup_status(managed)
    if (held.get("worker"), held.get("epoch")) != (worker, epoch):
        if _was_never_writable(managed, lease):
            return RestoreSource(migration.restore_source(managed) or None)
        message = f"worker {worker} has not confirmed that its Lease guards writes, so it may still write"
        return MigrationObstacle("NotHeld", message)
    if (backup.get("worker"), backup.get("epoch")) != (worker, epoch):
        return MigrationObstacle("NoBackup", f"worker {worker} has sent no backup of it")
    if not backup.get("complete"):
        return MigrationObstacle("BackupIncomplete", f"the backup from worker {worker} is incomplete")
    age = _backup_age(backup, lease)
    if age is None or age > settings.backup_age:
        age_text = f"was {age:.0f} seconds old" if age is not None else "is of unknown age"
        limit = f"the limit is {settings.backup_age:.0f} seconds"
        return MigrationObstacle(
            "BackupTooOld", f"the last backup {age_text} at the last heartbeat of worker {worker}; {limit}"
        )
    return RestoreSource({"epoch": epoch, "revision": backup.get("revision")})


def _was_never_writable(managed: Object, lease: Object | None) -> bool:
    """A fencing worker allows no write before it has confirmed the cluster, unless it saw another spec meanwhile."""
    scheduled = get_condition(managed, infrav1.SCHEDULED) or {}
    return supports_fencing(lease) and scheduled.get("observedGeneration") == managed["metadata"].get("generation")


def supports_fencing(lease: Object | None) -> bool:
    """True if the worker says that it refuses writes to clusters it may have lost, and can take over others."""
    annotations = (lease or {"metadata": {}})["metadata"].get("annotations") or {}
    return bool(annotations.get(infrav1.FENCES_ANNOTATION) == "true")


def can_read_log(lease: Object | None, source_lease: Object | None) -> bool:
    """False if the worker is of a release that does not read the logs of the source worker, which are in the namespace
    of logs.
    """
    return infrav1.has_log_namespace(lease) or not infrav1.has_log_namespace(source_lease)


def _backup_age(backup: Object, lease: Object | None) -> float | None:
    """Age of the backup at the last heartbeat; both times are from the worker's clock."""
    try:
        renewed_at = datetime.fromisoformat(str(((lease or {}).get("spec") or {}).get("renewTime")))
        return (renewed_at - datetime.fromisoformat(str(backup.get("time")))).total_seconds()
    except (ValueError, TypeError):
        return None


def reassigned_status(managed: Object, to: str, reason: str, restore_source: RestoreSource, now: str) -> Object:
    """Returns the status that reassigns it to another Worker."""
    previous_worker, status = infrav1.assigned_worker(managed), bound_status(managed, to, now)
    status = _without_final({key: value for key, value in status.items() if key not in ("move", "restoreFrom")})
    if restore_source.restore_from is not None:
        status["restoreFrom"] = restore_source.restore_from
    status["formerWorkers"] = migration.reassigned_status(managed, to)["formerWorkers"]
    status["lastMove"] = {"from": previous_worker, "to": to, "reason": reason, "epoch": status["epoch"], "time": now}
    return _with_moving_condition(
        {**managed, "status": status}, "True", "Restoring", f"from worker {previous_worker} to {to} ({reason})", now
    )


def planned_status(managed: Object, to: str, reason: str, now: str) -> Object:
    """Returns the status that asks its Worker to send it."""
    current_worker = infrav1.assigned_worker(managed)
    move = {"from": current_worker, "to": to, "reason": reason, "since": now}
    status = {**_without_final(infrav1.status_of(managed)), "move": move}
    message = f"worker {current_worker} transfers it to {to} ({reason}); it is read-only meanwhile"
    without_movable = remove_condition({**managed, "status": status}, infrav1.MOVABLE)
    return _with_moving_condition(without_movable, "True", "Sending", message, now)


def cancelled_status(managed: Object, obstacle: MigrationObstacle, now: str) -> Object:
    """Returns the status that leaves it where it is."""
    status = {key: value for key, value in _without_final(infrav1.status_of(managed)).items() if key != "move"}
    return _with_moving_condition({**managed, "status": status}, "False", obstacle.reason, obstacle.message, now)


def completed_status(managed: Object, now: str) -> Object | None:
    """Returns the status of a cluster that is ready on its new Worker; None if it is not, or if the status says so
    already.
    """
    if not (
        condition_is(managed, infrav1.MOVING)
        and not infrav1.migration_target(managed)
        and condition_is(managed, infrav1.READY)
    ):
        return None
    last_move = infrav1.status_of(managed).get("lastMove") or {}
    return _with_moving_condition(
        managed, "False", infrav1.MOVED, f"from worker {last_move.get('from')} to {last_move.get('to')}", now
    )


def final_source(managed: Object) -> RestoreSource:
    """Restore source of a cluster that its Worker froze and sent whole (`migration.is_final_backup_shipped`)."""
    return RestoreSource(
        {"epoch": infrav1.epoch(managed), "revision": migration.backup_status(managed).get("revision")}
    )


def is_migrating(managed: Object) -> bool:
    """True if it was migrated and is not ready yet."""
    last_move = infrav1.status_of(managed).get("lastMove") or {}
    return (
        bool(last_move)
        and last_move.get("epoch") == infrav1.epoch(managed)
        and not condition_is(managed, infrav1.READY)
    )


def movable_status(managed: Object, obstacle: MigrationObstacle | None, now: str) -> Object | None:
    """Returns the status that says why a cluster of a lost Worker is not migrated; None if it says so already."""
    if obstacle is None:
        updated = remove_condition(managed, infrav1.MOVABLE)
    else:
        updated = _with_condition(managed, infrav1.MOVABLE, "False", obstacle.reason, obstacle.message, now)
    return None if updated is managed else infrav1.status_of(updated)


def _with_moving_condition(managed: Object, status: str, reason: str, message: str, now: str) -> Object:
    return infrav1.status_of(_with_condition(managed, infrav1.MOVING, status, reason, message, now))


def _with_condition(managed: Object, type_: str, status: str, reason: str, message: str, now: str) -> Object:
    generation = managed["metadata"].get("generation")
    return set_condition(
        managed, type_, status, reason=reason, message=message, observed_generation=generation, now=now
    )


def _without_final(status: Object) -> Object:
    """Drops `final`: it is only valid for one migration."""
    backup = status.get("backup")
    if not backup or "final" not in backup:
        return status
    return {**status, "backup": {key: value for key, value in backup.items() if key != "final"}}
