"""Decides whether a worker hands a cluster over, only from who holds it according to the hub. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any

from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


HANDED_OVER_ANNOTATION = "shoal.dev/left"
"""Annotation of a copy that is being deleted, with its epoch: the hub has named its holder in a later epoch, whatever
it says afterwards. A copy that is this worker's again in a later epoch is not handed over.
"""


class HandoverAction(Enum):
    KEEP = "ours"
    """It is this worker's, as far as is known."""
    CLOSE = "close"
    """It is another worker's: nothing of it is written here any more."""
    LEAVE = "leave"
    """It is another worker's, which has restored all of it."""


def decide_handover(managed: Object, copy: Object, worker: str) -> HandoverAction:
    version, holder = version_of(copy), infrav1.assigned_worker(managed)
    if managed["metadata"]["uid"] != version.uid or infrav1.epoch(managed) <= version.epoch or holder in ("", worker):
        return HandoverAction.KEEP
    if not migration.restore_source(managed) or infrav1.is_deleting(managed):
        return HandoverAction.LEAVE  # Nothing of it was ever written here, or it is being deleted.
    return HandoverAction.LEAVE if condition_is(managed, migration.RESTORED) else HandoverAction.CLOSE


def is_handed_over(copy: Object) -> bool:
    return bool((copy["metadata"].get("annotations") or {}).get(HANDED_OVER_ANNOTATION) == str(version_of(copy).epoch))


def without_former_worker(managed: Object, worker: str, copy: Object | None = None) -> Object | None:
    """Returns the ManagedCluster without that worker in formerWorkers; None if the hub does not wait for it, or not for
    this object.
    """
    former_workers, is_other = (
        migration.former_workers(managed),
        copy is not None and version_of(copy).uid != managed["metadata"]["uid"],
    )
    if worker not in former_workers or is_other:
        return None
    status = {**infrav1.status_of(managed), "formerWorkers": [name for name in former_workers if name != worker]}
    return {**managed, "status": status}
