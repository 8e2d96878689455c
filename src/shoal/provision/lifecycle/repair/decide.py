"""Finds nodes that are unhealthy for longer than tolerated, and when repair is blocked because too many are. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider import RepairPolicy

Object = dict[str, Any]

UNHEALTHY_SHARE = 0.2
"""Share of a NodePool's nodes, rounded up. Beyond it the cause is assumed to be elsewhere than in the nodes."""


@dataclass(frozen=True, slots=True)
class Illness:
    condition: str
    at: float
    """Time at which the toleration ends."""


def illness(node: Object, policies: Sequence[RepairPolicy]) -> Illness | None:
    """Condition whose toleration ends first; None if the node is healthy."""
    found = []
    for policy in policies:
        said = get_condition(node, policy.condition)
        if said is not None and said.get("status") == policy.status:
            since = parse_time(said.get("lastTransitionTime")) or 0.0
            found.append(Illness(policy.condition, since + policy.toleration_seconds))
    return min(found, key=lambda each: each.at, default=None)


def too_many_ill(nodes: Iterable[Object], policies: Sequence[RepairPolicy]) -> bool:
    """Checked among the nodes of a NodePool, or of the cluster for a NodeClaim without a pool."""
    ill = [illness(node, policies) is not None for node in nodes]
    return sum(ill) > math.ceil(UNHEALTHY_SHARE * len(ill))


def snake_case(name: str) -> str:
    """`MemoryPressure` as `memory_pressure`, for metrics."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")
