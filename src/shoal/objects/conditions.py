"""Reads and writes `status.conditions` of any object without changing the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_condition(obj: Mapping[str, Any], type_: str) -> Mapping[str, Any] | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == type_:
            found: Mapping[str, Any] = condition
            return found
    return None


def condition_is(obj: Mapping[str, Any], type_: str, status: str = "True") -> bool:
    condition = get_condition(obj, type_)
    return condition is not None and condition.get("status") == status


def set_condition(
    obj: dict[str, Any],
    type_: str,
    status: str,
    *,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
    now: str,
) -> dict[str, Any]:
    """Returns the object with this condition, or the same object if nothing changes.

    `now` (RFC 3339) becomes `lastTransitionTime` only if the status is new or different.
    """
    old = get_condition(obj, type_)
    same_status = old is not None and old.get("status") == status and "lastTransitionTime" in old
    condition: dict[str, Any] = dict(old or {})
    condition |= {"type": type_, "status": status, "reason": reason, "message": message}
    if observed_generation is not None:
        condition["observedGeneration"] = observed_generation
    if not same_status:
        condition["lastTransitionTime"] = now
    if condition == old:
        return obj
    conditions = [*((obj.get("status") or {}).get("conditions") or ())]
    for i, existing in enumerate(conditions):
        if existing is old:
            conditions[i] = condition
            break
    else:
        conditions.append(condition)
    return {**obj, "status": {**(obj.get("status") or {}), "conditions": conditions}}


def remove_condition(obj: dict[str, Any], type_: str) -> dict[str, Any]:
    """Returns the object without this condition, or the same object if it has none."""
    if get_condition(obj, type_) is None:
        return obj
    status = obj["status"]
    kept = [condition for condition in status["conditions"] if condition.get("type") != type_]
    return {**obj, "status": {**status, "conditions": kept}}
