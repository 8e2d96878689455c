"""Aggregates the status of a root from its leaves; Jobs and kinds without rules of their own have modules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.apps.deployment import max_unavailable, replicas_of, with_condition, without_condition
from shoal.objects.conditions import get_condition
from shoal.placement.splitter.job_status import job_status
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.placement.splitter.leaf_status import (
    CLUSTER_NOT_REPORTING,
    CLUSTERS_REPORTING,
    is_pending,
    is_silent,
    known_counts,
    silence_message,
)
from shoal.placement.splitter.merged_status import merged_status

Object = dict[str, Any]

REPLICA_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
StatusConditionFields = tuple[str, str, str]
"""Status, reason and message of a condition."""


def root_status(
    root: Object, leaf_changes: LeafChanges, cluster_count: int, now: str, silent: frozenset[str] = frozenset()
) -> Object | None:
    """`silent` are the clusters that do not report. None: the kind has no status to aggregate."""
    if root["kind"] == "Deployment" and root["apiVersion"] == "apps/v1":
        return deployment_status(root, leaf_changes, cluster_count, now, silent)
    if root["kind"] == "Job" and root["apiVersion"] == "batch/v1":
        return job_status(root, leaf_changes, cluster_count, now, silent)
    return merged_status(root, leaf_changes.existing, silent, now, is_observed=_are_observed(leaf_changes, silent))


def deployment_status(
    root: Object, leaf_changes: LeafChanges, cluster_count: int, now: str, silent: frozenset[str] = frozenset()
) -> Object:
    """`cluster_count` is the number of workload Clusters, `silent` are those that do not report. The root's generation
    counts as observed when all of its leaves are up to date, and all their clusters have observed them.
    """
    current: Object = root.get("status") or {}
    known = [known_counts(leaf, silent) for leaf in leaf_changes.existing]
    counts = {name: sum(one.get(name, 0) for one in known) for name in REPLICA_COUNTS}
    counts["unavailableReplicas"] = leaf_changes.unassigned + sum(
        one.get("replicas", 0) if is_silent(leaf, silent) else one.get("unavailableReplicas", 0)
        for leaf, one in zip(leaf_changes.existing, known, strict=True)
    )
    observed = current.get("observedGeneration") or 0
    if _are_observed(leaf_changes, silent):
        observed = root["metadata"].get("generation", 0)
    conditions: list[Object] = current.get("conditions") or []
    conditions = _with_condition(conditions, AVAILABLE, _available_condition(root, counts["availableReplicas"]), now)
    progressing = _progressing_condition(root, leaf_changes, cluster_count, silent)
    conditions = _with_condition(conditions, PROGRESSING, progressing, now)
    silence = silence_message(leaf_changes.existing, silent)
    for condition_type, condition in (
        (FAILURE, _failure_condition(leaf_changes)),
        (CLUSTERS_REPORTING, ("False", CLUSTER_NOT_REPORTING, silence) if silence else None),
    ):
        conditions = (
            _with_condition(conditions, condition_type, condition, now)
            if condition
            else without_condition(conditions, condition_type)
        )
    new_status: Object = {"observedGeneration": observed} if observed else {}
    return new_status | {name: count for name, count in counts.items() if count} | {"conditions": conditions}


def _are_observed(leaf_changes: LeafChanges, silent: frozenset[str]) -> bool:
    return leaf_changes.is_done and all(
        _is_observed(leaf) for leaf in leaf_changes.existing if is_pending(leaf, silent)
    )


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


def _progressing_condition(
    root: Object, leaf_changes: LeafChanges, cluster_count: int, silent: frozenset[str]
) -> StatusConditionFields:
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
    reporting = [leaf for leaf in leaf_changes.existing if not is_silent(leaf, silent)]
    worst_condition = _worst_leaf_condition(reporting)
    if worst_condition is not None:
        return worst_condition
    name = root["metadata"]["name"]
    pending = [leaf for leaf in leaf_changes.existing if is_pending(leaf, silent)]
    if leaf_changes.is_done and pending == reporting and all(map(_is_rolled_out, pending)):
        return "True", NEW_REPLICA_SET_AVAILABLE, f'Deployment "{name}" has successfully progressed in all clusters.'
    return "True", "ReplicaSetUpdated", f'Deployment "{name}" is progressing.'


def _worst_leaf_condition(leaves: Sequence[Object]) -> StatusConditionFields | None:
    """Returns the condition of a leaf that is not progressing, or unknown."""
    for status in ("False", "Unknown"):
        for leaf in leaves:
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
