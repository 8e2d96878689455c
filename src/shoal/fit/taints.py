"""Taints keep pods away from nodes, tolerations let them. Both are wire dicts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

Taint = dict[str, Any]
Toleration = dict[str, Any]

NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE = "NoSchedule", "NoExecute", "PreferNoSchedule"
HARD = (NO_SCHEDULE, NO_EXECUTE)
"""The effects that a new pod does not get past."""

UNSCHEDULABLE: Taint = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}
"""What `spec.unschedulable` of a node amounts to, whether or not the taint is there yet."""

_decimal = re.compile(r"0|-?[1-9][0-9]{0,18}").fullmatch


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect means all effects, an empty key (with Exists) all keys."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    mine, its = toleration.get("value") or "", taint.get("value") or ""
    if operator == "Equal":
        return bool(mine == its)
    if operator in ("Lt", "Gt") and _decimal(mine) and _decimal(its):
        return int(its) < int(mine) if operator == "Lt" else int(its) > int(mine)
    return False


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str] = HARD
) -> Taint | None:
    """The first taint of one of these effects that nothing tolerates; None: they are no obstacle."""
    for taint in taints:
        if taint.get("effect") in effects and not tolerated(taint, tolerations):
            return taint
    return None


def intolerances(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> int:
    """How many PreferNoSchedule taints nothing tolerates: the fewer the better."""
    return sum(taint.get("effect") == PREFER_NO_SCHEDULE and not tolerated(taint, tolerations) for taint in taints)


def same(one: Taint, other: Taint) -> bool:
    """A node has one taint per key and effect, whatever its value."""
    return one.get("key") == other.get("key") and one.get("effect") == other.get("effect")
