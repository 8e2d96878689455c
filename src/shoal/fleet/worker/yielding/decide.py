"""Decides whether a worker hands a cluster over, only from who holds it according to the hub. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any

from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, moving
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


LEFT = "shoal.dev/left"
"""Annotation of a copy that is being deleted, with its epoch: the hub has named its holder in a later epoch, whatever
it says afterwards. A copy that is this worker's again in a later epoch is not handed over.
"""


class Verdict(Enum):
    OURS = "ours"
    """It is this worker's, as far as is known."""
    CLOSE = "close"
    """It is another worker's: nothing of it is written here any more."""
    LEAVE = "leave"
    """It is another worker's, which has restored all of it."""


def verdict(managed: Object, copy: Object, worker: str) -> Verdict:
    mark, holder = mark_of(copy), fleet.assigned_worker(managed)
    if managed["metadata"]["uid"] != mark.uid or fleet.epoch(managed) <= mark.epoch or holder in ("", worker):
        return Verdict.OURS
    if not moving.restore_from(managed) or fleet.is_deleting(managed):
        return Verdict.LEAVE  # Nothing of it was ever written here, or it is being deleted.
    return Verdict.LEAVE if condition_is(managed, moving.RESTORED) else Verdict.CLOSE


def has_left(copy: Object) -> bool:
    return bool((copy["metadata"].get("annotations") or {}).get(LEFT) == str(mark_of(copy).epoch))


def without(managed: Object, worker: str, copy: Object | None = None) -> Object | None:
    """Returns the ManagedCluster without that worker in formerWorkers; None if the hub does not wait for it, or not for
    this object.
    """
    former, other = moving.former_workers(managed), copy is not None and mark_of(copy).uid != managed["metadata"]["uid"]
    if worker not in former or other:
        return None
    status = {**fleet.status_of(managed), "formerWorkers": [name for name in former if name != worker]}
    return {**managed, "status": status}
