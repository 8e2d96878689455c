"""Aggregates the status of a root from its leaves: with conditions for a Deployment, counts for other kinds. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apps.deployment import max_unavailable, replicas_of, with_condition, without_condition
from shoal.objects.conditions import get_condition
from shoal.placement.splitter.job_status import job_status
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]

REPLICA_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
StatusConditionFields = tuple[str, str, str]
"""Status, reason and message of a condition."""


def root_status(root: Object, leaf_changes: LeafChanges, cluster_count: int, now: str) -> Object | None:
    """None: the kind has no status to aggregate."""
    if root["kind"] == "Deployment" and root["apiVersion"] == "apps/v1":
        return deployment_status(root, leaf_changes, cluster_count, now)
    if root["kind"] == "Job" and root["apiVersion"] == "batch/v1":
        return job_status(root, leaf_changes, cluster_count, now)
    counted = [_counts(leaf.get("status") or {}) for leaf in leaf_changes.existing]
    names = dict.fromkeys(name for counts in counted for name in counts)
    if not names:
        return None
    return {**(root.get("status") or {}), **{name: sum(counts.get(name, 0) for counts in counted) for name in names}}


def _counts(status: Object) -> dict[str, int]:
    """Counts such as `readyReplicas`, `numberAvailable`, `desiredNumberScheduled`; not generations."""
    return {
        name: value
        for name, value in status.items()
        if isinstance(value, int) and not isinstance(value, bool) and "eneration" not in name
    }


def deployment_status(root: Object, leaf_changes: LeafChanges, cluster_count: int, now: str) -> Object:
    """`cluster_count` is the number of workload Clusters. The root's generation counts as observed when all of its
    leaves are up to date, and all their clusters have observed them.
    """
    current: Object = root.get("status") or {}
    statuses = [leaf.get("status") or {} for leaf in leaf_changes.existing]
    counts = {name: sum(status.get(name) or 0 for status in statuses) for name in REPLICA_COUNTS}
    counts["unavailableReplicas"] += leaf_changes.unassigned
    observed = current.get("observedGeneration") or 0
    if leaf_changes.is_done and all(map(_is_observed, leaf_changes.existing)):
        observed = root["metadata"].get("generation", 0)
    conditions: list[Object] = current.get("conditions") or []
    conditions = _with_condition(conditions, AVAILABLE, _available_condition(root, counts["availableReplicas"]), now)
    conditions = _with_condition(
        conditions, PROGRESSING, _progressing_condition(root, leaf_changes, cluster_count), now
    )
    failure = _failure_condition(leaf_changes)
    conditions = (
        _with_condition(conditions, FAILURE, failure, now) if failure else without_condition(conditions, FAILURE)
    )
    new_status: Object = {"observedGeneration": observed} if observed else {}
    return new_status | {name: count for name, count in counts.items() if count} | {"conditions": conditions}


def _with_condition(
    conditions: list[Object], condition_type: str, condition: StatusConditionFields, now: str
) -> list[Object]:
    status, reason, message = condition
    previous = get_condition({"status": {"conditions": conditions}}, condition_type)
    message_changed = previous is not None and previous.get("message") != message
    return with_condition(conditions, condition_type, status, reason, message, now, refresh=message_changed)


def _is_observed(leaf: Object) -> bool:
    observed = (leaf.get("status") or {}).get("observedGeneration") or 0
    return bool(observed >= leaf["metadata"].get("generation", 0)) and "deletionTimestamp" not in leaf["metadata"]


def _available_condition(root: Object, available: int) -> StatusConditionFields:
    if available >= replicas_of(root) - max_unavailable(root):
        return "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
    return "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."


def _progressing_condition(root: Object, leaf_changes: LeafChanges, cluster_count: int) -> StatusConditionFields:
    if leaf_changes.conflicting_names:
        names = ", ".join(leaf_changes.conflicting_names)
        return (
            "False",
            "LeafNameTaken",
            f"Deployments that do not belong to this one have the names of its leaves: {names}",
        )
    if not cluster_count and not leaf_changes.existing:
        return "False", "NoRegisteredClusters", "There are no registered clusters to run this Deployment in."
    if leaf_changes.unassigned:
        message = (
            f"{leaf_changes.unassigned} replicas are unassigned: "
            f"none of {cluster_count} registered clusters can take them."
        )
        return "False", "NoReadyClusters", message
    worst_condition = _worst_leaf_condition(leaf_changes)
    if worst_condition is not None:
        return worst_condition
    name = root["metadata"]["name"]
    if leaf_changes.is_done and all(map(_is_rolled_out, leaf_changes.existing)):
        return "True", NEW_REPLICA_SET_AVAILABLE, f'Deployment "{name}" has successfully progressed in all clusters.'
    return "True", "ReplicaSetUpdated", f'Deployment "{name}" is progressing.'


def _worst_leaf_condition(leaf_changes: LeafChanges) -> StatusConditionFields | None:
    """Returns the condition of a leaf that is not progressing, or unknown."""
    for status in ("False", "Unknown"):
        for leaf in leaf_changes.existing:
            condition = get_condition(leaf, PROGRESSING)
            if condition is not None and condition.get("status") == status:
                return (
                    status,
                    str(condition.get("reason", "")),
                    f"{leaf['metadata']['name']}: {condition.get('message', '')}",
                )
    return None


def _is_rolled_out(leaf: Object) -> bool:
    """True if the requested replicas run; a Deployment without a deadline has no such reason, but its counts show
    it.
    """
    status = leaf.get("status") or {}
    counts = [status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")]
    condition = get_condition(leaf, PROGRESSING)
    return (
        _is_observed(leaf)
        and counts == [replicas_of(leaf)] * 3
        and (condition is None or bool(condition.get("reason") == NEW_REPLICA_SET_AVAILABLE))
    )


def _failure_condition(leaf_changes: LeafChanges) -> StatusConditionFields | None:
    for leaf in leaf_changes.existing:
        condition = get_condition(leaf, FAILURE)
        if condition is not None and condition.get("status") == "True":
            return (
                "True",
                str(condition.get("reason", "")),
                f"{leaf['metadata']['name']}: {condition.get('message', '')}",
            )
    return None
