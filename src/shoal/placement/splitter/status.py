"""Aggregates the status of a root from its leaves: with conditions for a Deployment, counts for other kinds. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.deployments import max_unavailable, replicas_of, with_condition, without_condition
from shoal.objects.conditions import get_condition
from shoal.placement.splitter.jobstatus import job_status
from shoal.placement.splitter.outcome import Split

Object = dict[str, Any]

COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
DONE = "NewReplicaSetAvailable"
Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""


def root_status(root: Object, split: Split, registered: int, now: str) -> Object | None:
    """None: the kind has no status to aggregate."""
    if root["kind"] == "Deployment" and root["apiVersion"] == "apps/v1":
        return summed(root, split, registered, now)
    if root["kind"] == "Job" and root["apiVersion"] == "batch/v1":
        return job_status(root, split, registered, now)
    counted = [_counts(leaf.get("status") or {}) for leaf in split.leaves]
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


def summed(root: Object, split: Split, registered: int, now: str) -> Object:
    """`cluster_count` is the number of workload Clusters. The root's generation counts as observed when all of its
    leaves are up to date, and all their clusters have observed them.
    """
    before: Object = root.get("status") or {}
    statuses = [leaf.get("status") or {} for leaf in split.leaves]
    counts = {name: sum(status.get(name) or 0 for status in statuses) for name in COUNTS}
    counts["unavailableReplicas"] += split.unplaced
    observed = before.get("observedGeneration") or 0
    if split.is_done and all(map(_has_observed, split.leaves)):
        observed = root["metadata"].get("generation", 0)
    conditions: list[Object] = before.get("conditions") or []
    conditions = _said(conditions, AVAILABLE, _availability(root, counts["availableReplicas"]), now)
    conditions = _said(conditions, PROGRESSING, _progress(root, split, registered), now)
    failure = _failure(split)
    conditions = _said(conditions, FAILURE, failure, now) if failure else without_condition(conditions, FAILURE)
    found: Object = {"observedGeneration": observed} if observed else {}
    return found | {name: count for name, count in counts.items() if count} | {"conditions": conditions}


def _said(conditions: list[Object], kind: str, verdict: Verdict, now: str) -> list[Object]:
    status, reason, message = verdict
    old = get_condition({"status": {"conditions": conditions}}, kind)
    news = old is not None and old.get("message") != message
    return with_condition(conditions, kind, status, reason, message, now, refresh=news)


def _has_observed(leaf: Object) -> bool:
    observed = (leaf.get("status") or {}).get("observedGeneration") or 0
    return bool(observed >= leaf["metadata"].get("generation", 0)) and "deletionTimestamp" not in leaf["metadata"]


def _availability(root: Object, available: int) -> Verdict:
    if available >= replicas_of(root) - max_unavailable(root):
        return "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
    return "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."


def _progress(root: Object, split: Split, registered: int) -> Verdict:
    if split.taken:
        names = ", ".join(split.taken)
        return "False", "LeafNameTaken", f"Deployments that are not part of this one have the names of leaves: {names}"
    if not registered and not split.leaves:
        return "False", "NoRegisteredClusters", "There are no registered clusters to run this Deployment in."
    if split.unplaced:
        message = f"None of {registered} registered clusters takes the {split.unplaced} replicas that have no place."
        return "False", "NoReadyClusters", message
    worst = _worst(split)
    if worst is not None:
        return worst
    name = root["metadata"]["name"]
    if split.is_done and all(map(_is_done, split.leaves)):
        return "True", DONE, f'Deployment "{name}" has successfully progressed in all clusters.'
    return "True", "ReplicaSetUpdated", f'Deployment "{name}" is progressing.'


def _worst(split: Split) -> Verdict | None:
    """Returns the condition of a leaf that is not progressing, or unknown."""
    for status in ("False", "Unknown"):
        for leaf in split.leaves:
            said = get_condition(leaf, PROGRESSING)
            if said is not None and said.get("status") == status:
                return status, str(said.get("reason", "")), f"{leaf['metadata']['name']}: {said.get('message', '')}"
    return None


def _is_done(leaf: Object) -> bool:
    """True if the requested replicas run; a Deployment without a deadline has no such reason, but its counts show
    it.
    """
    status = leaf.get("status") or {}
    counts = [status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")]
    said = get_condition(leaf, PROGRESSING)
    return (
        _has_observed(leaf) and counts == [replicas_of(leaf)] * 3 and (said is None or bool(said.get("reason") == DONE))
    )


def _failure(split: Split) -> Verdict | None:
    for leaf in split.leaves:
        said = get_condition(leaf, FAILURE)
        if said is not None and said.get("status") == "True":
            return "True", str(said.get("reason", "")), f"{leaf['metadata']['name']}: {said.get('message', '')}"
    return None
