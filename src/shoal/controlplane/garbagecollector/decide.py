"""What becomes of an object, given how its owners are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from shoal.controlplane.garbagecollector.graph import FOREGROUND, ORPHAN, Node

Object = dict[str, Any]


class State(Enum):
    """How one owner is, as a look at the live object said."""

    SOLID = "there"
    WAITING = "there, and waits for its dependents to go first"
    ABSENT = "gone: no object of that name and uid"
    FOREIGN = "no owner it may have: of another logical cluster, or of a namespace for an object of none"
    UNKNOWN = "not known: its kind is not served now"


@dataclass(frozen=True, slots=True)
class Decision:
    references: list[Object] | None = None
    """The owner references it should have from now on."""
    policy: str = ""
    """With which propagation policy it is to be deleted, after that."""
    wait: bool = False
    """Look again later."""


NOTHING = Decision()


def decide(metadata: Object, owners: Sequence[tuple[Object, State]], dependents: Sequence[Node]) -> Decision:
    """`owners` are the object's references with their states, `dependents` those of the object itself."""
    states = {state for _, state in owners}
    if not owners or State.FOREIGN in states:
        return NOTHING
    if State.UNKNOWN in states:
        return Decision(wait=True)
    if State.SOLID in states:
        kept = [reference for reference, state in owners if state is State.SOLID]
        # A reference to one that waits would hold it for ever: this object stays, so it lets go.
        return Decision(references=kept) if len(kept) < len(owners) else NOTHING
    if State.WAITING in states and dependents:
        references = [reference for reference, _ in owners]
        circle = any(dependent.deletes_dependents for dependent in dependents)
        return Decision(references=unblocked(references) if circle else None, policy="Foreground")
    finalizers = metadata.get("finalizers") or ()
    return Decision(
        policy="Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
    )


def unblocked(references: Sequence[Object]) -> list[Object] | None:
    """References that hold no owner back; None if they do so already."""
    if not any(reference.get("blockOwnerDeletion") for reference in references):
        return None
    return [{**reference, "blockOwnerDeletion": False} for reference in references]


def owner_state(owner: Object | None, uid: str) -> State:
    """`owner` is the live object of the name a reference has, None when there is none."""
    if owner is None or owner["metadata"]["uid"] != uid:
        return State.ABSENT
    metadata = owner["metadata"]
    waiting = "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())
    return State.WAITING if waiting else State.SOLID


def blockers(owner: Node, dependents: Sequence[Node]) -> list[Node]:
    """Dependents that must be gone before their owner goes. One that owns itself does not wait for itself."""
    return [
        dependent
        for dependent in dependents
        if dependent.uid != owner.uid
        and any(reference.blocks and reference.owner.uid == owner.uid for reference in dependent.references)
    ]


def without_owner(references: Sequence[Object], uid: str) -> list[Object]:
    return [reference for reference in references if reference.get("uid") != uid]


def without_finalizer(metadata: Object, finalizer: str) -> list[str]:
    return [kept for kept in metadata.get("finalizers") or () if kept != finalizer]
