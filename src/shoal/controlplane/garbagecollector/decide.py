"""Decides what happens to an object from the states of its owners. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from shoal.controlplane.garbagecollector.graph import FOREGROUND, ORPHAN, GraphNode

Object = dict[str, Any]


class OwnerState(Enum):
    """State of one owner, from its live object."""

    SOLID = "exists"
    WAITING_FOR_DEPENDENTS = "exists, and waits for its dependents to be deleted first"
    ABSENT = "absent: no object of that name and uid"
    FOREIGN = "invalid: in another logical cluster, or a namespaced owner of a cluster-scoped object"
    UNKNOWN = "unknown: its kind is not served"


@dataclass(frozen=True, slots=True)
class GarbageDecision:
    owner_references: list[Object] | None = None
    """The new owner references."""
    policy: str = ""
    """Propagation policy of the deletion that follows; empty for none."""
    requeue: bool = False
    """Reconcile again later."""


NOTHING = GarbageDecision()


def decide(
    metadata: Object, owners: Sequence[tuple[Object, OwnerState]], dependents: Sequence[GraphNode]
) -> GarbageDecision:
    """`owners` are the object's references with their states, `dependents` those of the object itself."""
    states = {state for _, state in owners}
    if not owners or OwnerState.FOREIGN in states:
        return NOTHING
    if OwnerState.UNKNOWN in states:
        return GarbageDecision(requeue=True)
    if OwnerState.SOLID in states:
        kept = [reference for reference, state in owners if state is OwnerState.SOLID]
        # This object stays, so a reference to an owner that waits for its dependents would block that owner for ever.
        return GarbageDecision(owner_references=kept) if len(kept) < len(owners) else NOTHING
    if OwnerState.WAITING_FOR_DEPENDENTS in states and dependents:
        references = [reference for reference, _ in owners]
        is_cycle = any(dependent.deletes_dependents for dependent in dependents)
        return GarbageDecision(
            owner_references=unblock_references(references) if is_cycle else None, policy="Foreground"
        )
    finalizers = metadata.get("finalizers") or ()
    return GarbageDecision(
        policy="Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
    )


def unblock_references(references: Sequence[Object]) -> list[Object] | None:
    """Returns the references without blockOwnerDeletion; None if none blocks."""
    if not any(reference.get("blockOwnerDeletion") for reference in references):
        return None
    return [{**reference, "blockOwnerDeletion": False} for reference in references]


def owner_state(owner: Object | None, uid: str) -> OwnerState:
    """`owner` is the live object of the referenced name; None if there is none."""
    if owner is None or owner["metadata"]["uid"] != uid:
        return OwnerState.ABSENT
    metadata = owner["metadata"]
    is_waiting = "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())
    return OwnerState.WAITING_FOR_DEPENDENTS if is_waiting else OwnerState.SOLID


def blockers(owner: GraphNode, dependents: Sequence[GraphNode]) -> list[GraphNode]:
    """Returns the dependents that block the owner's deletion. An object that owns itself does not block itself."""
    return [
        dependent
        for dependent in dependents
        if dependent.uid != owner.uid
        and any(reference.blocks_deletion and reference.owner.uid == owner.uid for reference in dependent.references)
    ]


def without_owner(references: Sequence[Object], uid: str) -> list[Object]:
    return [reference for reference in references if reference.get("uid") != uid]


def without_finalizer(metadata: Object, finalizer: str) -> list[str]:
    return [kept for kept in metadata.get("finalizers") or () if kept != finalizer]
