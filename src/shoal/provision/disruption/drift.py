"""Drift of a node from its NodePool, and the disruption conditions of NodeClaims. Pure."""

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
"""Age from which the instance type is checked: a younger node was launched from a current list."""


def drift_of(pool: Object, claim: Object, types: Sequence[InstanceType], now: float) -> str:
    """Drift reason by NodePool and type; empty if there is none."""
    known = annotation(claim, POOL_HASH_VERSION) == HASH_VERSION
    if known and annotation(claim, POOL_HASH) not in ("", pool_hash(pool)):
        return POOL_DRIFTED
    if not _requirements(claim).compatible(from_expressions(template_spec(pool).get("requirements")), WELL_KNOWN):
        return REQUIREMENTS_DRIFTED
    if is_settled(claim, now) and types and not _offered(claim["metadata"].get("labels") or {}, types):
        return TYPE_NOT_FOUND
    return ""


def is_settled(claim: Object, now: float) -> bool:
    """True if the NodeClaim is old enough for the type check."""
    return now - (parse_time(claim["metadata"].get("creationTimestamp")) or now) > TYPE_SECONDS


def with_drift(claim: Object, reason: str, now: float) -> Object:
    if not reason or not condition_is(claim, LAUNCHED):
        return remove_condition(claim, DRIFTED)
    return with_condition(claim, DRIFTED, "True", rfc3339(now), reason, reason)


def with_consolidatable(claim: Object, pool: Object, event: float, now: float) -> Object:
    """`last_pod_event`: time of the last pod binding or removal, or of initialization."""
    after = consolidate_after(pool)
    if after is None or not condition_is(claim, INITIALIZED) or now < event + after:
        return remove_condition(claim, CONSOLIDATABLE)
    return with_condition(claim, CONSOLIDATABLE, "True", rfc3339(now))


def consolidate_after(pool: Object) -> float | None:
    """Seconds without a pod event before a node may be consolidated; None: never."""
    return seconds(disruption_of(pool).get("consolidateAfter", "0s"))


def _requirements(claim: Object) -> Requirements:
    """Labels of the node, completed by the requirements of the NodeClaim."""
    labels = from_labels(claim["metadata"].get("labels"))
    return from_expressions(claim["spec"].get("requirements")).without(*labels).union(labels)


def _offered(labels: dict[str, str], types: Sequence[InstanceType]) -> bool:
    kind = next((each for each in types if each.name == labels.get(INSTANCE_TYPE)), None)
    capacity = labels.get(CAPACITY_TYPE)
    # A reserved instance may have become on-demand without a label change.
    sorts = (RESERVED, ON_DEMAND) if capacity == RESERVED else (capacity,)
    return kind is not None and any(
        each.labels.get(CAPACITY_TYPE, capacity) in sorts and each.labels.get(ZONE, "") == labels.get(ZONE, "")
        for each in kind.offerings
    )
