"""Merges the statuses of leaves of any kind into the one of their root. Pure.

Counts are sums. Another field is taken where all leaves agree. A condition on which clusters differ is Unknown, because
whether True or False is the good status depends on the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.workload.status_merge import agreed_fields, claim_status
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.objects.conditions import get_condition
from shoal.placement.splitter.leaf_status import (
    CLUSTER_NOT_REPORTING,
    CLUSTERS_REPORTING,
    is_silent,
    known_counts,
    silence_message,
)

Object = dict[str, Any]

REPORTED_KINDS = frozenset({"StatefulSet", "DaemonSet", "ReplicaSet"})
"""Kinds of `apps/v1` that get a condition of Shoal's. The schema of another kind may have no room for it."""
TRANSITION_TIME = "lastTransitionTime"
CONDITION_FIELDS = frozenset({"type", "status", "reason", "message", TRANSITION_TIME})
MERGED_FIELDS = frozenset({"conditions", "loadBalancer", "observedGeneration"})


def merged_status(
    root: Object, leaves: Sequence[Object], silent: frozenset[str], now: str, *, is_observed: bool
) -> Object | None:
    """None: the kind has no status. `is_observed`: every cluster has observed the current leaves."""
    current: Object = root.get("status") or {}
    statuses: list[Object] = [leaf["status"] for leaf in leaves if leaf.get("status")]
    if not statuses and not known_counts(root, frozenset()):
        return None
    counted = [known_counts(leaf, silent) for leaf in leaves]
    names = dict.fromkeys(name for counts in [known_counts(root, frozenset()), *counted] for name in counts)
    status = {**_agreed_fields(current, statuses), **{name: sum(one.get(name, 0) for one in counted) for name in names}}
    if root["kind"] == "PersistentVolumeClaim":
        status |= claim_status(statuses)
    if any("loadBalancer" in one for one in statuses):
        status["loadBalancer"] = _load_balancer(statuses)
    if any("observedGeneration" in one for one in statuses):
        observed = root["metadata"].get("generation") if is_observed else current.get("observedGeneration")
        status |= {} if observed is None else {"observedGeneration": observed}
    conditions = _merged_conditions(current, leaves, silent, now)
    if root["kind"] in REPORTED_KINDS and root["apiVersion"] == "apps/v1":
        conditions += _silence_condition(current, leaves, silent, now)
    return status | ({"conditions": conditions} if conditions else {})


def _agreed_fields(current: Object, statuses: Sequence[Object]) -> Object:
    """Fields that only the root has stay."""
    reported = {name for status in statuses for name in status}
    kept = {name: value for name, value in current.items() if name not in reported}
    return {name: value for name, value in (kept | agreed_fields(statuses)).items() if name not in MERGED_FIELDS}


def _load_balancer(statuses: Sequence[Object]) -> Object:
    """Returns the addresses of all clusters."""
    ingress: list[Object] = []
    for status in statuses:
        ingress += [one for one in (status.get("loadBalancer") or {}).get("ingress") or () if one not in ingress]
    return {"ingress": ingress} if ingress else {}


def _merged_conditions(current: Object, leaves: Sequence[Object], silent: frozenset[str], now: str) -> list[Object]:
    types = dict.fromkeys(
        str(condition["type"])
        for leaf in leaves
        for condition in (leaf.get("status") or {}).get("conditions") or ()
        if condition.get("type")
    )
    return [_with_transition_time(current, _merged_condition(kind, leaves, silent), now) for kind in types]


def _merged_condition(kind: str, leaves: Sequence[Object], silent: frozenset[str]) -> Object:
    """Has only fields that the clusters report: the kind's schema may have no others."""
    found = [get_condition(leaf, kind) or {} for leaf in leaves]
    statuses = [
        "Unknown" if is_silent(leaf, silent) else str(condition.get("status", "Unknown"))
        for leaf, condition in zip(leaves, found, strict=True)
    ]
    if len(set(statuses)) == 1 and found[0].get("status") == statuses[0]:
        return {field: value for field, value in found[0].items() if field in CONDITION_FIELDS}
    listed = ", ".join(f"{status} in {assigned_cluster(leaf)}" for leaf, status in zip(leaves, statuses, strict=True))
    differing = {"type": kind, "status": "Unknown", "reason": "ClustersDiffer", "message": listed}
    reported = {field for condition in found for field in condition}
    return {field: value for field, value in differing.items() if field in reported} | (
        {TRANSITION_TIME: ""} if TRANSITION_TIME in reported else {}
    )


def _silence_condition(current: Object, leaves: Sequence[Object], silent: frozenset[str], now: str) -> list[Object]:
    message = silence_message(leaves, silent)
    if not message:
        return []
    condition = {
        "type": CLUSTERS_REPORTING,
        "status": "False",
        "reason": CLUSTER_NOT_REPORTING,
        "message": message,
        TRANSITION_TIME: now,
    }
    return [_with_transition_time(current, condition, now)]


def _with_transition_time(current: Object, condition: Object, now: str) -> Object:
    """Returns the condition with the time of its last transition, if its kind has one."""
    if TRANSITION_TIME not in condition:
        return condition
    previous = get_condition({"status": current}, condition["type"]) or {}
    is_same = previous.get("status") == condition["status"] and TRANSITION_TIME in previous
    return {**condition, TRANSITION_TIME: previous[TRANSITION_TIME] if is_same else now}
