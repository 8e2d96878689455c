"""Whether a node is still what its NodePool would buy, and the conditions of a NodeClaim that tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.clock import rfc3339
from shoal.fit.requirements import Requirements, from_expressions, from_labels
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    CONSOLIDATABLE,
    DRIFTED,
    HASH_VERSION,
    INITIALIZED,
    INSTANCE_TYPE,
    LAUNCHED,
    ON_DEMAND,
    POOL_HASH,
    POOL_HASH_VERSION,
    RESERVED,
    WELL_KNOWN,
    ZONE,
    annotation,
    pool_hash,
    seconds,
    template_spec,
)
from shoal.objects.conditions import condition_is, remove_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.disruption.budgets import disruption_of
from shoal.provision.lifecycle.decide import with_condition

Object = dict[str, Any]

POOL_DRIFTED, REQUIREMENTS_DRIFTED, TYPE_NOT_FOUND = "NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"
TYPE_SECONDS = 3600.0
"""A node that is younger has its type from a list that was true then."""


def drift_of(pool: Object, claim: Object, types: Sequence[InstanceType], now: float) -> str:
    """Why the node is not what would be bought now; empty: it is, as far as its NodePool and its type say."""
    known = annotation(claim, POOL_HASH_VERSION) == HASH_VERSION
    if known and annotation(claim, POOL_HASH) not in ("", pool_hash(pool)):
        return POOL_DRIFTED
    if not _requirements(claim).compatible(from_expressions(template_spec(pool).get("requirements")), WELL_KNOWN):
        return REQUIREMENTS_DRIFTED
    if is_settled(claim, now) and types and not _offered(claim["metadata"].get("labels") or {}, types):
        return TYPE_NOT_FOUND
    return ""


def is_settled(claim: Object, now: float) -> bool:
    """Whether it is old enough to ask for its type."""
    return now - (parse_time(claim["metadata"].get("creationTimestamp")) or now) > TYPE_SECONDS


def with_drift(claim: Object, reason: str, now: float) -> Object:
    if not reason or not condition_is(claim, LAUNCHED):
        return remove_condition(claim, DRIFTED)
    return with_condition(claim, DRIFTED, "True", rfc3339(now), reason, reason)


def with_consolidatable(claim: Object, pool: Object, event: float, now: float) -> Object:
    """`event`: when a pod last came to the node or went, or when it became ready for them."""
    after = consolidate_after(pool)
    if after is None or not condition_is(claim, INITIALIZED) or now < event + after:
        return remove_condition(claim, CONSOLIDATABLE)
    return with_condition(claim, CONSOLIDATABLE, "True", rfc3339(now))


def consolidate_after(pool: Object) -> float | None:
    """Seconds without a change before a node may go; None: it never does."""
    return seconds(disruption_of(pool).get("consolidateAfter", "0s"))


def _requirements(claim: Object) -> Requirements:
    """What the node is: its labels, and where it has none, what it was asked to be."""
    labels = from_labels(claim["metadata"].get("labels"))
    return from_expressions(claim["spec"].get("requirements")).without(*labels).union(labels)


def _offered(labels: dict[str, str], types: Sequence[InstanceType]) -> bool:
    kind = next((each for each in types if each.name == labels.get(INSTANCE_TYPE)), None)
    capacity = labels.get(CAPACITY_TYPE)
    # What was reserved may have become on-demand without anybody telling the label.
    sorts = (RESERVED, ON_DEMAND) if capacity == RESERVED else (capacity,)
    return kind is not None and any(
        each.labels.get(CAPACITY_TYPE, capacity) in sorts and each.labels.get(ZONE, "") == labels.get(ZONE, "")
        for each in kind.offerings
    )
