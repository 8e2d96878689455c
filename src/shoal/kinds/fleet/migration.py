"""Migration of a ManagedCluster between Workers: names, and the parts of its status. Pure.

The assigned Worker writes `held` and `backup`, the hub writes `move`, `restoreFrom` and `formerWorkers`.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.infrav1 import epoch, spec_of, status_of

Object = dict[str, Any]

ON_LOST_MOVE = "Move"
"""Value of `spec.onWorkerLost`."""
RESTORED = "Restored"
"""Condition after a migration: whether the new Worker has all of the cluster's data."""
MAX_FORMER_WORKERS = 10
"""The maximum number of `status.formerWorkers`."""


def migrates_on_worker_loss(managed: Object) -> bool:
    return spec_of(managed).get("onWorkerLost") == ON_LOST_MOVE


def lease_guard(managed: Object) -> Object:
    """Returns `status.held`. Empty: no Worker guarantees that it writes only while its Lease is fresh."""
    guard: Object = status_of(managed).get("held") or {}
    return guard


def backup_status(managed: Object) -> Object:
    status: Object = status_of(managed).get("backup") or {}
    return status


def planned_migration(managed: Object) -> Object:
    """Returns the migration the hub plans. Empty: none."""
    plan: Object = status_of(managed).get("move") or {}
    return plan


def restore_source(managed: Object) -> Object:
    source: Object = status_of(managed).get("restoreFrom") or {}
    return source


def former_workers(managed: Object) -> list[str]:
    return [str(name) for name in status_of(managed).get("formerWorkers") or ()]


def is_final_backup_shipped(managed: Object) -> bool:
    """Reports whether the Worker it migrates from has frozen the cluster and shipped the last of its log."""
    shipped, planned = backup_status(managed), planned_migration(managed)
    from_current_worker = shipped.get("worker") == infrav1.assigned_worker(managed) == planned.get("from")
    return (
        from_current_worker
        and shipped.get("epoch") == epoch(managed)
        and bool(shipped.get("complete") and shipped.get("final"))
    )


def reassigned_status(managed: Object, worker: str) -> Object:
    """Returns the status that assigns the cluster to another Worker, which restores it from the last shipped backup."""
    status, shipped, before = status_of(managed), backup_status(managed), infrav1.assigned_worker(managed)
    former = [name for name in former_workers(managed) if name not in (before, worker)]
    new_status = {
        **status,
        "assignedWorker": worker,
        "lastWorker": worker,
        "epoch": epoch(managed) + 1,
        "restoreFrom": {"epoch": int(shipped.get("epoch") or 0), "revision": int(shipped.get("revision") or 0)},
        "formerWorkers": [*former, before][-MAX_FORMER_WORKERS:],
    }
    new_status.pop("move", None)
    return new_status
