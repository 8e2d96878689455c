"""Status of a Deployment: counts from its ReplicaSets, availability and rollout progress. Pure.

`now` is in seconds, `now_rfc3339` the same as text.
"""

from __future__ import annotations

from typing import Any

from shoal.controlplane.deployments.scaling import available_replicas
from shoal.kinds.apps.deployment import UNLIMITED, max_unavailable, replicas_of, with_condition, without_condition
from shoal.kinds.apps.replicaset_draft import ReplicaSetDraft
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
NEW_RS_AVAILABLE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"


def deadline_of(deployment: Object) -> int | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == UNLIMITED else int(seconds)


def is_complete(deployment: Object, status: Object) -> bool:
    replicas = replicas_of(deployment)
    counts = [status.get(field) or 0 for field in ("updatedReplicas", "replicas", "availableReplicas")]
    observed = status.get("observedGeneration") or 0
    return counts == [replicas] * 3 and bool(observed >= deployment["metadata"].get("generation", 0))


def with_pause_condition(deployment: Object, conditions: list[Object], now_rfc3339: str) -> list[Object]:
    """Pausing stops the progress deadline; resuming restarts it."""
    progressing = get_condition(deployment, PROGRESSING) or {}
    if deadline_of(deployment) is None or progressing.get("reason") == TIMED_OUT:
        return conditions
    if deployment["spec"].get("paused"):
        return with_condition(conditions, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now_rfc3339)
    if progressing.get("reason") == PAUSED:
        return with_condition(
            conditions, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now_rfc3339
        )
    return conditions


def calculate_status(deployment: Object, draft: ReplicaSetDraft, conditions: list[Object], now_rfc3339: str) -> Object:
    """Returns counts and availability without judging the rollout. Counts of zero are omitted, as upstream does."""
    ready, statuses = sum(map(available_replicas, draft.all)), [one.get("status") or {} for one in draft.all]
    updated = (draft.new or {}).get("status") or {}
    counts = {
        "replicas": sum(status.get("replicas") or 0 for status in statuses),
        "updatedReplicas": updated.get("replicas") or 0,
        "readyReplicas": sum(status.get("readyReplicas") or 0 for status in statuses),
        "availableReplicas": ready,
        "unavailableReplicas": max(draft.total_replicas - ready, 0),
        "collisionCount": (deployment.get("status") or {}).get("collisionCount"),
    }
    if ready >= replicas_of(deployment) - max_unavailable(deployment):
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
        conditions = with_condition(conditions, AVAILABLE, "True", reason, message, now_rfc3339)
    else:
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        conditions = with_condition(conditions, AVAILABLE, "False", reason, message, now_rfc3339)
    result: Object = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    result |= {field: count for field, count in counts.items() if count}
    result["terminatingReplicas"] = sum(status.get("terminatingReplicas") or 0 for status in statuses)
    return result | {"conditions": conditions}


def rollout_status(
    deployment: Object, draft: ReplicaSetDraft, conditions: list[Object], now: float, now_rfc3339: str
) -> Object:
    """Returns the status of a Deployment during a rollout."""
    if draft.new is not None:
        conditions = _with_new_rs_condition(deployment, draft, conditions, now_rfc3339)
    status = calculate_status(deployment, draft, conditions, now_rfc3339)
    new_conditions: list[Object] = status["conditions"]
    if deadline_of(deployment) is None:
        new_conditions = without_condition(new_conditions, PROGRESSING)
    else:
        new_conditions = _progress_conditions(deployment, draft, status, now, now_rfc3339)
    failure = next((one for one in map(_replica_failure, [draft.new, *draft.all]) if one is not None), None)
    if failure is None:
        new_conditions = without_condition(new_conditions, REPLICA_FAILURE)
    else:
        since = failure.get("lastTransitionTime")
        new_conditions = with_condition(
            new_conditions, REPLICA_FAILURE, failure["status"], failure["reason"], failure["message"], since
        )
    return {**status, "conditions": new_conditions}


def progress_requeue_after(deployment: Object, status: Object, now: float) -> float | None:
    """Returns the seconds until the progress deadline could be exceeded."""
    progressing, deadline = get_condition({"status": status}, PROGRESSING), deadline_of(deployment)
    if progressing is None or deadline is None or is_complete(deployment, status):
        return None
    if progressing.get("reason") in (TIMED_OUT, PAUSED, NEW_RS_AVAILABLE):
        return None
    return max((parse_time(progressing.get("lastUpdateTime")) or now) + deadline - now, 0.0) + 1.0


def _with_new_rs_condition(
    deployment: Object, draft: ReplicaSetDraft, conditions: list[Object], now_rfc3339: str
) -> list[Object]:
    assert draft.new is not None
    name = draft.new["metadata"]["name"]
    if draft.creates_new:
        message = f'Created new replica set "{name}"'
        return with_condition(conditions, PROGRESSING, "True", "NewReplicaSetCreated", message, now_rfc3339)
    if get_condition(deployment, PROGRESSING) is None:
        message = f'Found new replica set "{name}"'
        return with_condition(conditions, PROGRESSING, "True", "FoundNewReplicaSet", message, now_rfc3339)
    return conditions


def _progress_conditions(
    deployment: Object, draft: ReplicaSetDraft, status: Object, now: float, now_rfc3339: str
) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    progressing = get_condition({"status": status}, PROGRESSING) or {}
    before: Object = deployment.get("status") or {}
    if status.get("replicas") == status.get("updatedReplicas") and progressing.get("reason") == NEW_RS_AVAILABLE:
        return conditions  # no rollout in progress: pods that are replaced are no progress
    subject = f'Deployment "{deployment["metadata"]["name"]}"'
    if draft.new is not None:
        subject = f'ReplicaSet "{draft.new["metadata"]["name"]}"'
    if is_complete(deployment, status):
        return with_condition(
            conditions, PROGRESSING, "True", NEW_RS_AVAILABLE, f"{subject} has successfully progressed.", now_rfc3339
        )
    if _has_progressed(status, before):
        message = f"{subject} is progressing."
        return with_condition(conditions, PROGRESSING, "True", "ReplicaSetUpdated", message, now_rfc3339, refresh=True)
    if progressing and _has_timed_out(deployment, progressing, now):
        message = f"{subject} has timed out progressing."
        return with_condition(conditions, PROGRESSING, "False", TIMED_OUT, message, now_rfc3339)
    return conditions


def _has_progressed(status: Object, before: Object) -> bool:
    def count(status_part: Object, field: str) -> int:
        return int(status_part.get(field) or 0)

    def old_replicas(status_part: Object) -> int:
        return count(status_part, "replicas") - count(status_part, "updatedReplicas")

    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return any(count(status, field) > count(before, field) for field in more) or old_replicas(status) < old_replicas(
        before
    )


def _has_timed_out(deployment: Object, progressing: Any, now: float) -> bool:
    if progressing.get("reason") in (NEW_RS_AVAILABLE, TIMED_OUT):
        return bool(progressing["reason"] == TIMED_OUT)
    since, deadline = parse_time(progressing.get("lastUpdateTime")), deadline_of(deployment)
    return since is not None and deadline is not None and since + deadline < now


def _replica_failure(one: Object | None) -> Any:
    return get_condition(one, REPLICA_FAILURE) if one is not None else None
