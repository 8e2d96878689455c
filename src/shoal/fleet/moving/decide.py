"""Statuses of a ManagedCluster that is migrated, and whether one of a lost Worker may be. Pure.

Each status is built from the one that was read and is written by compare-and-swap on its resourceVersion. Together with
`lease_expiry` this keeps a cluster from having two holders (docs/moving.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shoal.fleet.moving.settings import Settings
from shoal.fleet.scheduler.decide import bound
from shoal.kinds import fleet, moving
from shoal.objects.conditions import condition_is, get_condition, remove_condition, set_condition

Object = dict[str, Any]

LOST, DRAIN, TAINT, REBALANCE = "WorkerLost", "Drain", "Taint", "Rebalance"
"""Migration reasons."""
MOVABLE_INFRASTRUCTURE = "embedded"
"""Other infrastructures have their control planes on machines that do not move."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why it is not migrated."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where its next holder restores the data from."""

    restore: Object | None
    """`status.restoreFrom`; None: it never held anything and starts empty."""


def fixed(managed: Object) -> Obstacle | None:
    infrastructure = fleet.spec_of(managed).get("infrastructure") or MOVABLE_INFRASTRUCTURE
    if infrastructure != MOVABLE_INFRASTRUCTURE:
        return Obstacle("InfrastructureNotMovable", f"clusters of infrastructure {infrastructure} are not moved")
    return None


def source(managed: Object, lease: Object | None, settings: Settings) -> Source | Obstacle:
    """Returns the restore source of a cluster whose worker is lost. It migrates only if that worker is known to refuse
    writes to it by now.
    """
    obstacle = fixed(managed)
    if obstacle is not None:
        return obstacle
    worker, epoch = fleet.assigned_worker(managed), fleet.epoch(managed)
    held, backup = moving.held(managed), moving.backup(managed)
    if (held.get("worker"), held.get("epoch")) != (worker, epoch):
        if _never_writable(managed, lease):
            return Source(moving.restore_from(managed) or None)
        said = f"worker {worker} has not said that it holds it, so it may be changing it still"
        return Obstacle("NotHeld", said)
    if (backup.get("worker"), backup.get("epoch")) != (worker, epoch):
        return Obstacle("NoBackup", f"worker {worker} has sent no backup of it")
    if not backup.get("complete"):
        return Obstacle("BackupIncomplete", f"the backup worker {worker} was sending is not complete")
    age = _age(backup, lease)
    if age is None or age > settings.backup_age:
        told = f"was {age:.0f} seconds old" if age is not None else "is of unknown age"
        limit = f"the limit is {settings.backup_age:.0f} seconds"
        return Obstacle("BackupTooOld", f"the last backup {told} when worker {worker} was last heard; {limit}")
    return Source({"epoch": epoch, "revision": backup.get("revision")})


def _never_writable(managed: Object, lease: Object | None) -> bool:
    """A fencing worker allows no write before it has confirmed the cluster, unless it saw another spec meanwhile."""
    given = get_condition(managed, fleet.SCHEDULED) or {}
    return fences(lease) and given.get("observedGeneration") == managed["metadata"].get("generation")


def fences(lease: Object | None) -> bool:
    """True if the worker says that it refuses writes to clusters it may have lost, and can take over others."""
    annotations = (lease or {"metadata": {}})["metadata"].get("annotations") or {}
    return bool(annotations.get(fleet.FENCES) == "true")


def _age(backup: Object, lease: Object | None) -> float | None:
    """Age of the backup at the last heartbeat; both times are from the worker's clock."""
    try:
        heard = datetime.fromisoformat(str(((lease or {}).get("spec") or {}).get("renewTime")))
        return (heard - datetime.fromisoformat(str(backup.get("time")))).total_seconds()
    except (ValueError, TypeError):
        return None


def rebound(managed: Object, to: str, reason: str, found: Source, now: str) -> Object:
    """Returns the status that reassigns it to another Worker."""
    before, status = fleet.assigned_worker(managed), bound(managed, to, now)
    status = _without_final({key: value for key, value in status.items() if key not in ("move", "restoreFrom")})
    if found.restore is not None:
        status["restoreFrom"] = found.restore
    status["formerWorkers"] = moving.given_to(managed, to)["formerWorkers"]
    status["lastMove"] = {"from": before, "to": to, "reason": reason, "epoch": status["epoch"], "time": now}
    return _moving({**managed, "status": status}, "True", "Restoring", f"from worker {before} to {to} ({reason})", now)


def planned(managed: Object, to: str, reason: str, now: str) -> Object:
    """Returns the status that asks its Worker to send it."""
    here = fleet.assigned_worker(managed)
    move = {"from": here, "to": to, "reason": reason, "since": now}
    status = {**_without_final(fleet.status_of(managed)), "move": move}
    said = f"worker {here} sends it on to {to} ({reason}); it is not to be changed meanwhile"
    asked = remove_condition({**managed, "status": status}, fleet.MOVABLE)
    return _moving(asked, "True", "Sending", said, now)


def taken_back(managed: Object, because: Obstacle, now: str) -> Object:
    """Returns the status that leaves it where it is."""
    status = {key: value for key, value in _without_final(fleet.status_of(managed)).items() if key != "move"}
    return _moving({**managed, "status": status}, "False", because.reason, because.message, now)


def arrived(managed: Object, now: str) -> Object | None:
    """Returns the status of a cluster that is ready on its new Worker; None if it is not, or if the status says so
    already.
    """
    if not (
        condition_is(managed, fleet.MOVING) and not fleet.moving_to(managed) and condition_is(managed, fleet.READY)
    ):
        return None
    last = fleet.status_of(managed).get("lastMove") or {}
    return _moving(managed, "False", "Moved", f"from worker {last.get('from')} to {last.get('to')}", now)


def sent_source(managed: Object) -> Source:
    """Restore source of a cluster that its Worker has frozen and sent completely (`migration.is_final`)."""
    return Source({"epoch": fleet.epoch(managed), "revision": moving.backup(managed).get("revision")})


def is_on_its_way(managed: Object) -> bool:
    """True if it was migrated and is not ready yet."""
    last = fleet.status_of(managed).get("lastMove") or {}
    return bool(last) and last.get("epoch") == fleet.epoch(managed) and not condition_is(managed, fleet.READY)


def not_movable(managed: Object, because: Obstacle | None, now: str) -> Object | None:
    """Returns the status that says why a cluster of a lost Worker is not migrated; None if it says so already."""
    if because is None:
        told = remove_condition(managed, fleet.MOVABLE)
    else:
        told = _told(managed, fleet.MOVABLE, "False", because.reason, because.message, now)
    return None if told is managed else fleet.status_of(told)


def _moving(managed: Object, status: str, reason: str, message: str, now: str) -> Object:
    return fleet.status_of(_told(managed, fleet.MOVING, status, reason, message, now))


def _told(managed: Object, type_: str, status: str, reason: str, message: str, now: str) -> Object:
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
