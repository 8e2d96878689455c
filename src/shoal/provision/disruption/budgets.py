"""Disruption budgets: how many nodes of a NodePool may be disrupted for a reason, by the tightest active budget.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from shoal.kinds.batch.cron import parse_schedule
from shoal.kinds.batch.cron_times import next_fire_time
from shoal.kinds.karpenter.karpenter import (
    INITIALIZED,
    INSTANCE_TERMINATING,
    READY,
    is_deleting,
    nodepool_of,
    parse_duration,
)
from shoal.objects.conditions import condition_is
from shoal.provision.disruption.model import DRIFTED, EMPTY, UNDERUTILIZED, DisruptionSnapshot

Object = dict[str, Any]

DEFAULT_BUDGETS: list[Object] = [{"nodes": "10%"}]
UNBOUNDED = 2**31 - 1


def budgets_by_reason(snapshot: DisruptionSnapshot) -> dict[str, dict[str, int]]:
    """Allowed disruptions by reason and NodePool."""
    return {reason: allowed_disruptions(snapshot, reason) for reason in (EMPTY, DRIFTED, UNDERUTILIZED)}


def allowed_disruptions(snapshot: DisruptionSnapshot, reason: str) -> dict[str, int]:
    """Allowed further disruptions by NodePool. Nodes being deleted or not ready are subtracted."""
    total, disrupted = _node_counts(snapshot)
    return {
        name: max(0, budget_limit(pool.node_pool, total.get(name, 0), reason, snapshot.now) - disrupted.get(name, 0))
        for name, pool in snapshot.pools().items()
    }


def nodes_consuming_budgets(snapshot: DisruptionSnapshot) -> dict[str, int]:
    """Nodes by NodePool that are being deleted or not ready."""
    disrupted = _node_counts(snapshot)[1]
    return {name: disrupted.get(name, 0) for name in snapshot.pools()}


def _node_counts(snapshot: DisruptionSnapshot) -> tuple[dict[str, int], dict[str, int]]:
    """Nodes by NodePool: all, and those that count against budgets."""
    total: dict[str, int] = {}
    disrupted: dict[str, int] = {}
    for each in snapshot.nodes:
        if not condition_is(each.claim, INITIALIZED) or condition_is(each.claim, INSTANCE_TERMINATING):
            continue
        pool = nodepool_of(each.claim)
        total[pool] = total.get(pool, 0) + 1
        is_disrupting = each.disrupting or is_deleting(each.claim) or is_deleting(each.node)
        if is_disrupting or not condition_is(each.node, READY):
            disrupted[pool] = disrupted.get(pool, 0) + 1
    return total, disrupted


def budget_limit(pool: Object, total: int, reason: str, now: float) -> int:
    """Limit for this many nodes. An unreadable budget allows nothing."""
    limits = [
        _limit_of(budget, total, now)
        for budget in disruption_spec(pool).get("budgets", DEFAULT_BUDGETS)
        if not budget.get("reasons") or reason in budget["reasons"]
    ]
    return min(limits, default=UNBOUNDED)


def disruption_spec(pool: Object) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (pool.get("spec") or {}).get("disruption") or {}
    return spec


def is_active(budget: Object, now: float) -> bool:
    """True if its schedule (UTC) fired within its duration. Raises ValueError if it is unreadable."""
    if not budget.get("schedule") and not budget.get("duration"):
        return True
    duration = parse_duration(budget.get("duration"))
    if duration is None:
        raise ValueError("a schedule needs a duration")
    next_start = next_fire_time(parse_schedule(str(budget.get("schedule") or "")), now - duration, UTC)
    return next_start is not None and next_start <= now


def _limit_of(budget: Object, total: int, now: float) -> int:
    try:
        if not is_active(budget, now):
            return UNBOUNDED
    except ValueError:
        return 0
    text = str(budget.get("nodes", ""))
    share = text.removesuffix("%")
    if not (share.isascii() and share.isdecimal()):
        return 0
    return math.ceil(int(share) * total / 100) if text.endswith("%") else int(share)
