"""The keys of a LogicalCluster, EmbeddedCluster or ManagedCluster as they are rotated: `spec.keys` and `status.keys`.
Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.objects.conditions import get_condition, remove_condition, set_condition
from shoal.objects.errors import Cause, forbidden_field

Object = dict[str, Any]

KEYS_ROTATED = "KeysRotated"
"""Condition: whether the last rotation is finished. A cluster whose keys were never rotated does not have it."""
ROTATING, FORMER_TRUSTED, FORMER_REFUSED = "Rotating", "FormerKeysTrusted", "FormerKeysRefused"
"""Reasons of the condition."""

GENERATION_ANNOTATION = "core.shoal.dev/keys-generation"
"""Annotation of a Secret with a token: the generation of the keys that signed it, if it is not the first."""


class KeysState(NamedTuple):
    generation: int = 1
    trust_former: bool = True
    """Whether certificates and tokens of the former keys are valid."""


def requested_keys(obj: Object) -> KeysState:
    return _keys_state((obj.get("spec") or {}).get("keys")) or KeysState()


def keys_in_force(obj: Object) -> KeysState:
    return _keys_state((obj.get("status") or {}).get("keys")) or KeysState()


def has_keys_fields(obj: Object) -> bool:
    return "keys" in (obj.get("spec") or {}) or "keys" in (obj.get("status") or {})


def with_keys_status(obj: Object, in_force: KeysState, now: str, observed_generation: int | None = None) -> Object:
    """Returns the object with its status and condition, or the same object if they are current."""
    if "keys" not in (obj.get("status") or {}) or keys_in_force(obj) != in_force:
        obj = {**obj, "status": {**(obj.get("status") or {}), "keys": keys_object(in_force)}}
    requested = requested_keys(obj)
    if requested == in_force and in_force.generation == 1:
        return remove_condition(obj, KEYS_ROTATED)
    status, reason, message = _condition(requested, in_force)
    before = get_condition(obj, KEYS_ROTATED)
    if before is not None and before["status"] == status and before["reason"] != reason:
        # Its time is that of the last step.
        obj = remove_condition(obj, KEYS_ROTATED)
    return set_condition(
        obj, KEYS_ROTATED, status, reason=reason, message=message, observed_generation=observed_generation, now=now
    )


def _condition(requested: KeysState, in_force: KeysState) -> tuple[str, str, str]:
    if requested.generation > in_force.generation:
        return "False", ROTATING, f"keys of generation {requested.generation} are being created"
    if in_force.trust_former:
        return (
            "False",
            FORMER_TRUSTED,
            f"keys of generation {in_force.generation} are in force, and the former keys are still trusted",
        )
    return "True", FORMER_REFUSED, f"only keys of generation {in_force.generation} are trusted"


def rotation_time(obj: Object) -> str:
    """Returns when the rotation began that is under way; empty if there is none."""
    condition = get_condition(obj, KEYS_ROTATED)
    return (
        str(condition["lastTransitionTime"]) if condition is not None and condition["reason"] == FORMER_TRUSTED else ""
    )


def keys_object(state: KeysState) -> Object:
    return {"generation": state.generation, "trustFormer": state.trust_former}


def generation_from_annotation(secret: Object) -> int:
    value = str((secret["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION) or "")
    return int(value) if value.isdecimal() else 1


def validate_keys(obj: Object, old: Object | None) -> list[Cause]:
    if old is None:
        return []
    new, current = requested_keys(obj), requested_keys(old)
    if new.generation < current.generation:
        return [
            forbidden_field(
                "spec.keys.generation", f"it cannot be lowered from {current.generation} to {new.generation}"
            )
        ]
    if new.generation > current.generation > 1 and current.trust_former and new.trust_former:
        return [
            forbidden_field(
                "spec.keys.generation",
                f"finish the rotation to generation {current.generation} first: set trustFormer to false",
            )
        ]
    if new.generation == current.generation > 1 and new.trust_former and not current.trust_former:
        return [forbidden_field("spec.keys.trustFormer", "the former keys are destroyed: raise generation as well")]
    return []


def _keys_state(value: object) -> KeysState | None:
    """None for anything but the object of the schema."""
    if not isinstance(value, dict):
        return None
    generation, trust_former = value.get("generation", 1), value.get("trustFormer", True)
    is_number = isinstance(generation, int) and not isinstance(generation, bool)
    return KeysState(generation, trust_former) if is_number and isinstance(trust_former, bool) else None
