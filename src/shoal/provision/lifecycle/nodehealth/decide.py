"""Finds nodes that are unhealthy for longer than tolerated, and when repair is blocked because too many are. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider.types import RepairPolicy

Object = dict[str, Any]

MAX_UNHEALTHY_SHARE = 0.2
"""Share of a NodePool's nodes, rounded up. Beyond it the cause is assumed to be elsewhere than in the nodes."""


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    condition: str
    repair_at: float
    """Time at which the toleration ends."""


def unhealthy_condition(node: Object, policies: Sequence[RepairPolicy]) -> UnhealthyCondition | None:
    """Condition whose toleration ends first; None if the node is healthy."""
    conditions = []
    for policy in policies:
        condition = get_condition(node, policy.condition)
        if condition is not None and condition.get("status") == policy.status:
            since = parse_time(condition.get("lastTransitionTime")) or 0.0
            conditions.append(UnhealthyCondition(policy.condition, since + policy.toleration_seconds))
    return min(conditions, key=lambda each: each.repair_at, default=None)


def is_repair_blocked(nodes: Iterable[Object], policies: Sequence[RepairPolicy]) -> bool:
    """Checked among the nodes of a NodePool, or of the cluster for a NodeClaim without a pool."""
    unhealthy = [unhealthy_condition(node, policies) is not None for node in nodes]
    return sum(unhealthy) > math.ceil(MAX_UNHEALTHY_SHARE * len(unhealthy))


def snake_case(name: str) -> str:
    """`MemoryPressure` as `memory_pressure`, for metrics."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")
