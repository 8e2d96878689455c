"""Migration of a ManagedCluster between Workers: names, and the parts of its status. Pure.

The assigned Worker writes `held` and `backup`, the hub writes `move`, `restoreFrom` and `formerWorkers`.
"""

from __future__ import annotations

import re
from typing import Any

from shoal.kinds import fleet
from shoal.kinds.fleet import epoch, spec_of, status_of

Object = dict[str, Any]

MOVE = "Move"
"""Value of `spec.onWorkerLost`."""
RESTORED = "Restored"
"""Condition after a migration: whether the new Worker has all of the cluster's data."""
LOG_TYPE = "shoal.dev/cluster-log"
"""The type of Secrets that hold the log of a hosted cluster, and the label with the cluster's name."""
LOG_KEY = "log"
"""The only key of such a Secret."""
FORMER = 10
"""The maximum number of `status.formerWorkers`."""

_LOG_NAME = re.compile(r"(.+)-log-([0-9]{1,18})-([0-9]{1,18})")


def log_name(cluster: str, epoch: int, number: int) -> str:
    """Returns the name of the Secret of a log segment."""
    return f"{cluster}-log-{epoch}-{number}"


def segment_of(secret: str) -> tuple[str, int, int] | None:
    """Returns ManagedCluster, epoch and segment number of a log Secret's name. None: it is not such a name."""
    found = _LOG_NAME.fullmatch(secret)
    if found is None:
        return None
    cluster, epoch, number = found[1], int(found[2]), int(found[3])
    return (cluster, epoch, number) if log_name(cluster, epoch, number) == secret else None


def is_log_of(secret: Object, cluster: str) -> bool:
    """Reports whether the Secret holds a log segment of a ManagedCluster of that name."""
    return secret.get("type") == LOG_TYPE and fleet.is_kubeconfig_of(secret, cluster)


def moves_when_lost(managed: Object) -> bool:
    return spec_of(managed).get("onWorkerLost") == MOVE


def held(managed: Object) -> Object:
    """Returns `status.held`. Empty: no Worker guarantees that it writes only while its Lease is fresh."""
    found: Object = status_of(managed).get("held") or {}
    return found


def backup(managed: Object) -> Object:
    found: Object = status_of(managed).get("backup") or {}
    return found


def move(managed: Object) -> Object:
    """Returns the migration the hub plans. Empty: none."""
    found: Object = status_of(managed).get("move") or {}
    return found


def restore_from(managed: Object) -> Object:
    found: Object = status_of(managed).get("restoreFrom") or {}
    return found


def former_workers(managed: Object) -> list[str]:
    return [str(name) for name in status_of(managed).get("formerWorkers") or ()]


def is_final(managed: Object) -> bool:
    """Reports whether the Worker it migrates from has frozen the cluster and shipped the last of its log."""
    said, planned = backup(managed), move(managed)
    ours = said.get("worker") == fleet.assigned_worker(managed) == planned.get("from")
    return ours and said.get("epoch") == epoch(managed) and bool(said.get("complete") and said.get("final"))


def given_to(managed: Object, worker: str) -> Object:
    """Returns the status that assigns the cluster to another Worker, which restores it from the last shipped backup."""
    status, said, before = status_of(managed), backup(managed), fleet.assigned_worker(managed)
    former = [name for name in former_workers(managed) if name not in (before, worker)]
    given = {
        **status,
        "assignedWorker": worker,
        "lastWorker": worker,
        "epoch": epoch(managed) + 1,
        "restoreFrom": {"epoch": int(said.get("epoch") or 0), "revision": int(said.get("revision") or 0)},
        "formerWorkers": [*former, before][-FORMER:],
    }
    given.pop("move", None)
    return given
