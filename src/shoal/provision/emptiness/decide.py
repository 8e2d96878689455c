"""Which nodes are bought for nothing, and how many of them may go now. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from shoal.kinds.karpenter import DO_NOT_DISRUPT, INITIALIZED, READY, annotation, is_going, seconds
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.provision.pods import is_of_the_node

Object = dict[str, Any]

EMPTY = "Empty"
DEFAULT_BUDGETS: list[Object] = [{"nodes": "10%"}]


def consolidate_after(pool: Object) -> float | None:
    """Seconds without a change before a node may go; None: it never does."""
    disruption = (pool.get("spec") or {}).get("disruption") or {}
    return seconds(disruption.get("consolidateAfter", "0s"))


def occupants(pods: Iterable[Object]) -> list[Object]:
    """Pods for whose sake the node is there."""
    return [
        pod
        for pod in pods
        if not is_going(pod)
        and not is_of_the_node(pod)
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]


def may_be_disrupted(claim: Object, node: Object) -> bool:
    kept = any(annotation(each, DO_NOT_DISRUPT) == "true" for each in (claim, node))
    return condition_is(claim, INITIALIZED) and not is_going(claim) and not is_going(node) and not kept


def initialized_at(claim: Object) -> float:
    return parse_time((get_condition(claim, INITIALIZED) or {}).get("lastTransitionTime")) or 0.0


def allowed(pool: Object, claims: Iterable[Object], nodes_not_ready: int) -> int:
    """How many more nodes of the pool may go for being empty: the tightest budget holds.

    A budget with a schedule holds at all times here: it may keep a node for longer, never let one go too early.
    """
    mine = [claim for claim in claims if condition_is(claim, INITIALIZED)]
    going = sum(is_going(claim) for claim in mine) + nodes_not_ready
    disruption = (pool.get("spec") or {}).get("disruption") or {}
    found = [
        _number(str(budget.get("nodes", "")), len(mine))
        for budget in disruption.get("budgets", DEFAULT_BUDGETS)
        if not budget.get("reasons") or EMPTY in budget["reasons"]
    ]
    return max(0, min(found, default=len(mine)) - going)


def is_ready(node: Object) -> bool:
    return condition_is(node, READY)


def _number(text: str, total: int) -> int:
    """What cannot be read allows nothing."""
    share = text.removesuffix("%")
    if not (share.isascii() and share.isdecimal()):
        return 0
    return math.ceil(int(share) * total / 100) if text.endswith("%") else int(share)
