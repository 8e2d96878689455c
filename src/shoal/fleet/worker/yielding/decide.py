"""Whether a worker has to give way: only by what the hub says about who has the cluster now. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any

from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, moving
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


LEFT = "shoal.dev/left"
"""Annotation of a copy that goes, with its epoch: the hub has said who has it in a later one, whatever it says
afterwards. A copy that is this worker's in a later epoch again has not left."""


class Verdict(Enum):
    OURS = "ours"
    """As far as is known."""
    CLOSE = "close"
    """It is another's: nothing of it is changed here any more."""
    LEAVE = "leave"
    """And that one has all of it."""


def verdict(managed: Object, copy: Object, worker: str) -> Verdict:
    mark, holder = mark_of(copy), fleet.assigned_worker(managed)
    if managed["metadata"]["uid"] != mark.uid or fleet.epoch(managed) <= mark.epoch or holder in ("", worker):
        return Verdict.OURS
    if not moving.restore_from(managed) or fleet.is_deleting(managed):
        return Verdict.LEAVE  # nothing of it was ever changed here, or nobody needs it any more
    return Verdict.LEAVE if condition_is(managed, moving.RESTORED) else Verdict.CLOSE


def has_left(copy: Object) -> bool:
    return bool((copy["metadata"].get("annotations") or {}).get(LEFT) == str(mark_of(copy).epoch))


def without(managed: Object, worker: str, copy: Object | None = None) -> Object | None:
    """The ManagedCluster once nothing of it is at that worker; None: it does not wait for that, or not for this."""
    former, other = moving.former_workers(managed), copy is not None and mark_of(copy).uid != managed["metadata"]["uid"]
    if worker not in former or other:
        return None
    status = {**fleet.status_of(managed), "formerWorkers": [name for name in former if name != worker]}
    return {**managed, "status": status}
