"""Conditions as the decisions of this package return them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.objects.conditions import remove_condition, set_condition

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SyncCondition:
    type: str
    status: str
    reason: str
    """Empty: the condition is removed."""
    message: str = ""


def with_conditions(obj: Object, conditions: Sequence[SyncCondition], now: str) -> Object:
    """The identical object if nothing changes."""
    for c in conditions:
        if not c.reason:
            obj = remove_condition(obj, c.type)
            continue
        generation = obj["metadata"].get("generation")
        obj = set_condition(
            obj, c.type, c.status, reason=c.reason, message=c.message, observed_generation=generation, now=now
        )
    return obj
