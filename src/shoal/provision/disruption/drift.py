"""Drift of a node from its NodePool, and the disruption conditions of NodeClaims. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.clock import rfc3339
from shoal.fit.requirements import Requirements, from_expressions, from_labels
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    CONSOLIDATABLE,
    DRIFTED,
    HASH_VERSION,
    INITIALIZED,
    INSTANCE_TYPE,
    LAUNCHED,
    NODE_POOL_HASH,
    NODE_POOL_HASH_VERSION,
    ON_DEMAND,
    RESERVED,
    WELL_KNOWN_LABELS,
    ZONE,
    annotation_of,
    nodepool_hash,
    nodepool_template_spec,
    parse_duration,
)
from shoal.objects.conditions import condition_is, remove_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.disruption.budgets import disruption_spec
from shoal.provision.lifecycle.decide import with_condition

Object = dict[str, Any]

POOL_DRIFTED, REQUIREMENTS_DRIFTED, TYPE_NOT_FOUND = "NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"
MIN_TYPE_CHECK_AGE = 3600.0
"""Age from which the instance type is checked: a younger node was launched from a current list."""


def drift_reason(pool: Object, claim: Object, types: Sequence[InstanceType], now: float) -> str:
    """Drift reason by NodePool and type; empty if there is none."""
    same_version = annotation_of(claim, NODE_POOL_HASH_VERSION) == HASH_VERSION
    if same_version and annotation_of(claim, NODE_POOL_HASH) not in ("", nodepool_hash(pool)):
        return POOL_DRIFTED
    if not _actual_requirements(claim).is_compatible(
        from_expressions(nodepool_template_spec(pool).get("requirements")), WELL_KNOWN_LABELS
    ):
        return REQUIREMENTS_DRIFTED
    if is_type_checked(claim, now) and types and not _is_offered(claim["metadata"].get("labels") or {}, types):
        return TYPE_NOT_FOUND
    return ""


def is_type_checked(claim: Object, now: float) -> bool:
    """True if the NodeClaim is old enough for the type check."""
    return now - (parse_time(claim["metadata"].get("creationTimestamp")) or now) > MIN_TYPE_CHECK_AGE


def with_drift(claim: Object, reason: str, now: float) -> Object:
    if not reason or not condition_is(claim, LAUNCHED):
        return remove_condition(claim, DRIFTED)
    return with_condition(claim, DRIFTED, "True", rfc3339(now), reason, reason)


def with_consolidatable(claim: Object, pool: Object, last_pod_event: float, now: float) -> Object:
    """`last_pod_event`: time of the last pod binding or removal, or of initialization."""
    after = consolidate_after(pool)
    if after is None or not condition_is(claim, INITIALIZED) or now < last_pod_event + after:
        return remove_condition(claim, CONSOLIDATABLE)
    return with_condition(claim, CONSOLIDATABLE, "True", rfc3339(now))


def consolidate_after(pool: Object) -> float | None:
    """Seconds without a pod event before a node may be consolidated; None: never."""
    return parse_duration(disruption_spec(pool).get("consolidateAfter", "0s"))


def _actual_requirements(claim: Object) -> Requirements:
    """Labels of the node, completed by the requirements of the NodeClaim."""
    labels = from_labels(claim["metadata"].get("labels"))
    return from_expressions(claim["spec"].get("requirements")).without(*labels).union(labels)


def _is_offered(labels: dict[str, str], types: Sequence[InstanceType]) -> bool:
    instance_type = next((each for each in types if each.name == labels.get(INSTANCE_TYPE)), None)
    capacity = labels.get(CAPACITY_TYPE)
    # A reserved instance may have become on-demand without a label change.
    capacity_types = (RESERVED, ON_DEMAND) if capacity == RESERVED else (capacity,)
    return instance_type is not None and any(
        each.labels.get(CAPACITY_TYPE, capacity) in capacity_types and each.labels.get(ZONE, "") == labels.get(ZONE, "")
        for each in instance_type.offerings
    )
