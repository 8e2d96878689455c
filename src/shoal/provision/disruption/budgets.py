"""Disruption budgets: how many nodes of a NodePool may be disrupted for a reason, by the tightest active budget.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from shoal.kinds.cron import parse
from shoal.kinds.cron_times import next_time
from shoal.kinds.karpenter import INITIALIZED, INSTANCE_TERMINATING, READY, is_going, pool_of, seconds
from shoal.objects.conditions import condition_is
from shoal.provision.disruption.model import DRIFTED, EMPTY, UNDERUTILIZED, Snapshot

Object = dict[str, Any]

DEFAULT_BUDGETS: list[Object] = [{"nodes": "10%"}]
UNBOUNDED = 2**31 - 1


def budgets(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Allowed disruptions by reason and NodePool."""
    return {reason: allowed(snapshot, reason) for reason in (EMPTY, DRIFTED, UNDERUTILIZED)}


def allowed(snapshot: Snapshot, reason: str) -> dict[str, int]:
    """Allowed further disruptions by NodePool. Nodes being deleted or not ready are subtracted."""
    total: dict[str, int] = {}
    down: dict[str, int] = {}
    for each in snapshot.nodes:
        if not condition_is(each.claim, INITIALIZED) or condition_is(each.claim, INSTANCE_TERMINATING):
            continue
        pool = pool_of(each.claim)
        total[pool] = total.get(pool, 0) + 1
        going = each.busy or is_going(each.claim) or is_going(each.node)
        if going or not condition_is(each.node, READY):
            down[pool] = down.get(pool, 0) + 1
    return {
        name: max(0, allowed_by(pool.pool, total.get(name, 0), reason, snapshot.now) - down.get(name, 0))
        for name, pool in snapshot.pools().items()
    }


def allowed_by(pool: Object, total: int, reason: str, now: float) -> int:
    """Limit for this many nodes. An unreadable budget allows nothing."""
    found = [
        _of(budget, total, now)
        for budget in disruption_of(pool).get("budgets", DEFAULT_BUDGETS)
        if not budget.get("reasons") or reason in budget["reasons"]
    ]
    return min(found, default=UNBOUNDED)


def disruption_of(pool: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (pool.get("spec") or {}).get("disruption") or {}
    return found


def in_force(budget: Object, now: float) -> bool:
    """True if its schedule (UTC) fired within its duration. Raises ValueError if it is unreadable."""
    if not budget.get("schedule") and not budget.get("duration"):
        return True
    duration = seconds(budget.get("duration"))
    if duration is None:
        raise ValueError("a schedule needs a duration")
    fires = next_time(parse(str(budget.get("schedule") or "")), now - duration, UTC)
    return fires is not None and fires <= now


def _of(budget: Object, total: int, now: float) -> int:
    try:
        if not in_force(budget, now):
            return UNBOUNDED
    except ValueError:
        return 0
    text = str(budget.get("nodes", ""))
    share = text.removesuffix("%")
    if not (share.isascii() and share.isdecimal()):
        return 0
    return math.ceil(int(share) * total / 100) if text.endswith("%") else int(share)
