"""Decides the next step of a Deployment from its spec and its ReplicaSets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.controlplane.deployments import scaling, status
from shoal.kinds.apps.deployment import REVISION, UNLIMITED, is_rolling, replicas_of, revision_of, with_condition
from shoal.kinds.apps.replicaset_draft import ReplicaSetDraft

Object = dict[str, Any]

CREATE_ERROR = "ReplicaSetCreateError"


@dataclass(frozen=True, slots=True)
class DeploymentDecision:
    """Status and annotations (the revision) are written after the ReplicaSets."""

    status: Object
    annotations: Object
    create: Object | None = None
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    requeue_after: float | None = None


def decide(deployment: Object, replica_sets: list[Object], now: float, now_rfc3339: str) -> DeploymentDecision:
    """`replica_sets` are those it controls; `now_rfc3339` is `now` as text."""
    draft = ReplicaSetDraft(deployment, replica_sets)
    conditions: list[Object] = (deployment.get("status") or {}).get("conditions") or []
    if "deletionTimestamp" in deployment["metadata"]:
        new_status = status.calculate_status(deployment, draft, conditions, now_rfc3339)
        return DeploymentDecision(new_status, deployment["metadata"].get("annotations") or {})
    conditions = status.with_pause_condition(deployment, conditions, now_rfc3339)
    draft.sync_new()
    to_delete: tuple[Object, ...] = ()
    if deployment["spec"].get("paused") or scaling.is_scaling_event(deployment, draft):
        scaling.scale(deployment, draft)
        if deployment["spec"].get("paused"):
            to_delete = _replica_sets_to_delete(deployment, draft)
        new_status = status.calculate_status(deployment, draft, conditions, now_rfc3339)
    else:
        if not _roll_out(deployment, draft) and status.is_complete(deployment, deployment.get("status") or {}):
            to_delete = _replica_sets_to_delete(deployment, draft)
        new_status = status.rollout_status(deployment, draft, conditions, now, now_rfc3339)
    return DeploymentDecision(
        new_status,
        _annotations(deployment, draft),
        create=draft.new if draft.creates_new else None,
        update=tuple(draft.updates()),
        delete=to_delete,
        requeue_after=status.progress_requeue_after(deployment, new_status, now),
    )


def collision_status(deployment: Object) -> Object:
    """Returns the status after a name collision of the new ReplicaSet: the next attempt gets another hash."""
    before = deployment.get("status") or {}
    return {**before, "collisionCount": (before.get("collisionCount") or 0) + 1}


def create_error_message(name: str, error: Exception) -> str:
    return f'Failed to create new replica set "{name}": {error}'


def create_failed_status(deployment: Object, name: str, error: Exception, now_rfc3339: str) -> Object:
    """Returns the status after the new ReplicaSet could not be created."""
    before: Object = deployment.get("status") or {}
    if status.deadline_of(deployment) is None:
        return before
    message, conditions = create_error_message(name, error), before.get("conditions") or []
    new_conditions = with_condition(conditions, status.PROGRESSING, "False", CREATE_ERROR, message, now_rfc3339)
    return {**before, "conditions": new_conditions}


def _roll_out(deployment: Object, draft: ReplicaSetDraft) -> bool:
    """Performs one rollout step. Returns whether a size changed."""
    if is_rolling(deployment):
        if draft.new is None:
            draft.create_new(scaling.new_rs_replicas(deployment, draft))
        return scaling.reconcile_new_rs(deployment, draft) or scaling.reconcile_old_rs(deployment, draft)
    if scaling.scale_down_old(draft):
        return True
    if scaling.old_pods_running(draft):
        return True  # Recreate never runs two templates at once
    if draft.new is None:
        draft.create_new(replicas_of(deployment))
        return False
    return scaling.reconcile_new_rs(deployment, draft)


def _replica_sets_to_delete(deployment: Object, draft: ReplicaSetDraft) -> tuple[Object, ...]:
    """Returns ReplicaSets over the history limit; never one that has or may have pods."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == UNLIMITED:
        return ()
    old_sets = [one for one in draft.old if "deletionTimestamp" not in one["metadata"]]
    oldest = sorted(old_sets, key=revision_of)[: max(len(old_sets) - limit, 0)]
    return tuple(one for one in oldest if _has_no_pods(one))


def _has_no_pods(replica_set: Object) -> bool:
    rs_status = replica_set.get("status") or {}
    observed = (rs_status.get("observedGeneration") or 0) >= replica_set["metadata"].get("generation", 0)
    return bool(observed and not rs_status.get("replicas") and not replicas_of(replica_set))


def _annotations(deployment: Object, draft: ReplicaSetDraft) -> Object:
    annotations: Object = deployment["metadata"].get("annotations") or {}
    revision = (draft.new["metadata"].get("annotations") or {}).get(REVISION) if draft.new is not None else None
    return {**annotations, REVISION: revision} if revision else annotations
