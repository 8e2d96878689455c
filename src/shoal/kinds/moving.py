"""Moving a ManagedCluster from one Worker to another: names, and what its status says about it. Pure.

The Worker that has it writes `held` and `backup`, the hub `move`, `restoreFrom` and `formerWorkers`.
"""

from __future__ import annotations

import re
from typing import Any

from shoal.kinds import fleet
from shoal.kinds.fleet import epoch, spec_of, status_of

Object = dict[str, Any]

MOVE = "Move"
"""`spec.onWorkerLost`."""
RESTORED = "Restored"
"""The condition of one that has moved: whether the Worker it moved to has all of it."""
LOG_TYPE = "shoal.dev/cluster-log"
"""The type of the Secrets that hold the log of a hosted cluster, and the label that says of which."""
LOG_KEY = "log"
"""The one key of such a Secret."""
FORMER = 10
"""The most Workers a status remembers."""

_LOG_NAME = re.compile(r"(.+)-log-([0-9]{1,18})-([0-9]{1,18})")


def log_name(cluster: str, epoch: int, number: int) -> str:
    """Of the Secret with that segment of the log."""
    return f"{cluster}-log-{epoch}-{number}"


def segment_of(secret: str) -> tuple[str, int, int] | None:
    """The ManagedCluster, epoch and number of the segment a Secret of that name holds. None: it has another name."""
    found = _LOG_NAME.fullmatch(secret)
    if found is None:
        return None
    cluster, epoch, number = found[1], int(found[2]), int(found[3])
    return (cluster, epoch, number) if log_name(cluster, epoch, number) == secret else None


def is_log_of(secret: Object, cluster: str) -> bool:
    """Whether it was made for the log of a ManagedCluster of that name."""
    return secret.get("type") == LOG_TYPE and fleet.is_kubeconfig_of(secret, cluster)


def moves_when_lost(managed: Object) -> bool:
    return spec_of(managed).get("onWorkerLost") == MOVE


def held(managed: Object) -> Object:
    """Empty: no Worker has said that it writes only while its Lease is fresh."""
    found: Object = status_of(managed).get("held") or {}
    return found


def backup(managed: Object) -> Object:
    found: Object = status_of(managed).get("backup") or {}
    return found


def move(managed: Object) -> Object:
    """What the hub plans. Empty: nothing."""
    found: Object = status_of(managed).get("move") or {}
    return found


def restore_from(managed: Object) -> Object:
    found: Object = status_of(managed).get("restoreFrom") or {}
    return found


def former_workers(managed: Object) -> list[str]:
    return [str(name) for name in status_of(managed).get("formerWorkers") or ()]


def is_final(managed: Object) -> bool:
    """Whether the Worker it is to leave has frozen it and shipped the last of it."""
    said, planned = backup(managed), move(managed)
    ours = said.get("worker") == fleet.assigned_worker(managed) == planned.get("from")
    return ours and said.get("epoch") == epoch(managed) and bool(said.get("complete") and said.get("final"))


def given_to(managed: Object, worker: str) -> Object:
    """The status with which it is another Worker's, to be restored there from what the last one has shipped."""
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
