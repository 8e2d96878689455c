"""Decides the next step in the rotation of a LogicalCluster's keys, and its status. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds.fleet.keys import KeysState, has_keys_fields, requested_keys, with_keys_status

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeyRotationSnapshot:
    logical_cluster: Object
    generation: int
    """The generation that all its keys have reached; 0 if it has none yet."""
    has_former: bool
    """Whether former keys are still trusted."""


@dataclass(frozen=True, slots=True)
class KeyRotationDecision:
    rotate_to: int = 0
    """The generation to which older keys are replaced; 0: none is. The rest is decided again after it."""
    drop_former: bool = False
    """Whether the former keys are dropped. The rest is decided again after it."""
    status: Object | None = None
    """The LogicalCluster with its new status; None if it is current."""


def is_rotated(logical_cluster: Object) -> bool:
    """True if its keys are rotated or were rotated before."""
    return has_keys_fields(logical_cluster) and "deletionTimestamp" not in logical_cluster["metadata"]


def decide(snapshot: KeyRotationSnapshot, now: str) -> KeyRotationDecision:
    obj = snapshot.logical_cluster
    if not is_rotated(obj):
        return KeyRotationDecision()
    requested = requested_keys(obj)
    # A cluster without keys creates them on first use, with the requested generation.
    if snapshot.generation and snapshot.generation < requested.generation:
        return KeyRotationDecision(rotate_to=requested.generation)
    if snapshot.has_former and not requested.trust_former:
        return KeyRotationDecision(drop_former=True)
    generation = max(requested.generation, snapshot.generation)
    updated = with_keys_status(obj, KeysState(generation, requested.trust_former), now)
    return KeyRotationDecision(status=None if updated is obj else updated)
