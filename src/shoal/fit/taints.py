"""Taints and tolerations, as wire dicts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

Taint = dict[str, Any]
Toleration = dict[str, Any]

NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE = "NoSchedule", "NoExecute", "PreferNoSchedule"
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep new pods off a node."""

UNSCHEDULABLE: Taint = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}
"""Equivalent of a node's `spec.unschedulable`, whether or not the taint exists yet."""

_decimal = re.compile(r"0|-?[1-9][0-9]{0,18}").fullmatch


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect means all effects, an empty key (with Exists) all keys."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    toleration_value, taint_value = toleration.get("value") or "", taint.get("value") or ""
    if operator == "Equal":
        return bool(toleration_value == taint_value)
    if operator in ("Lt", "Gt") and _decimal(toleration_value) and _decimal(taint_value):
        return (
            int(taint_value) < int(toleration_value) if operator == "Lt" else int(taint_value) > int(toleration_value)
        )
    return False


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str] = HARD_EFFECTS
) -> Taint | None:
    """Returns the first taint of one of these effects that nothing tolerates; None if there is none."""
    for taint in taints:
        if taint.get("effect") in effects and not is_tolerated(taint, tolerations):
            return taint
    return None


def count_untolerated_preferred(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> int:
    """Returns the number of PreferNoSchedule taints that nothing tolerates: fewer is better."""
    return sum(taint.get("effect") == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints)


def is_same_taint(one: Taint, other: Taint) -> bool:
    """Returns whether key and effect are equal. A node has one taint per key and effect."""
    return one.get("key") == other.get("key") and one.get("effect") == other.get("effect")
