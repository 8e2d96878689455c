"""Decides what a message of the hub does to the copy in the worker's own root. Pure.

The copy carries the version of the message it was built from, so that a restarted worker still recognises an old
message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import Mark, Message
from shoal.kinds import fleet, moving
from shoal.objects import mergepatch

Object = dict[str, Any]

HUB, UID = "shoal.dev/hub", "shoal.dev/hub-uid"
GENERATION, EPOCH, REVISION = "shoal.dev/hub-generation", "shoal.dev/epoch", "shoal.dev/hub-revision"
"""Annotations of the copy: the id of its hub, and the version of the message."""


class Step(Enum):
    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class Decision:
    step: Step
    copy: Object | None = None
    """The object to create, or the patch to update with."""


def decide(message: Message, copy: Object | None, hub: str) -> Decision:
    """`hub_id` is the id of the hub that sent it."""
    if is_to_be_restored(message, copy):
        return Decision(Step.NOTHING)  # Everything is restored at once, including the copy.
    if copy is None:
        # The worker's own store is the truth about what it hosts: without a copy it hosts nothing.
        return Decision(Step.ACKNOWLEDGE) if message.deleting else Decision(Step.CREATE, copy_of(message, hub))
    known = mark_of(copy)
    if fleet.is_deleting(copy):
        return Decision(Step.NOTHING)  # Its deletion triggers another reconcile.
    if hub_of(copy) == hub and is_stale(known, message.mark):
        return Decision(Step.NOTHING)  # Revisions of two hubs cannot be compared.
    if message.deleting or known.uid != message.mark.uid:
        return Decision(Step.DELETE)  # Another uid: the hub has a new object of that name.
    if known.epoch == message.mark.epoch and fleet.spec_of(copy) == fleet.spec_of(message.managed):
        return Decision(Step.NOTHING)
    patch = {
        "metadata": {
            "annotations": annotations_of(message.mark, hub),
            "resourceVersion": copy["metadata"]["resourceVersion"],
        },
        "spec": mergepatch.create(fleet.spec_of(copy), fleet.spec_of(message.managed)),
    }
    return Decision(Step.UPDATE, patch)


def is_to_be_restored(message: Message, copy: Object | None) -> bool:
    """True if the hub wants the state that another worker had and it is not here yet; also if it is to be deleted and
    the copy is from before that.
    """
    if not moving.restore_from(message.managed) or (message.deleting and copy is None):
        return False
    mark = mark_of(copy) if copy is not None else None
    return mark is None or (mark.uid == message.mark.uid and mark.epoch < message.mark.epoch)


def copy_of(message: Message, hub: str) -> Object:
    namespace, name = message.name
    return {
        "apiVersion": fleet.API_VERSION,
        "kind": fleet.MANAGED_CLUSTER,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": annotations_of(message.mark, hub),
            "finalizers": [fleet.FINALIZER],
        },
        "spec": fleet.spec_of(message.managed),
    }


def mark_of(copy: Object) -> Mark:
    found = copy["metadata"].get("annotations") or {}
    numbers = (int(found.get(key) or 0) for key in (GENERATION, EPOCH, REVISION))
    return Mark(str(found.get(UID) or ""), *numbers)


def hub_of(copy: Object) -> str:
    return str((copy["metadata"].get("annotations") or {}).get(HUB) or "")


def annotations_of(mark: Mark, hub: str) -> dict[str, str]:
    return {
        HUB: hub,
        UID: mark.uid,
        GENERATION: str(mark.generation),
        EPOCH: str(mark.epoch),
        REVISION: str(mark.revision),
    }
