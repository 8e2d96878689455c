"""Status of a Deployment: counts from its ReplicaSets, availability and rollout progress. Pure.

`now` is in seconds, `now_rfc3339` the same as text.
"""

from __future__ import annotations

from typing import Any

from shoal.controlplane.deployments.scaling import available
from shoal.controlplane.deployments.sets import Sets
from shoal.kinds.deployments import UNLIMITED, max_unavailable, replicas_of, with_condition, without_condition
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
DONE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"


def deadline_of(deployment: Object) -> int | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == UNLIMITED else int(seconds)


def is_complete(deployment: Object, status: Object) -> bool:
    replicas = replicas_of(deployment)
    counts = [status.get(field) or 0 for field in ("updatedReplicas", "replicas", "availableReplicas")]
    observed = status.get("observedGeneration") or 0
    return counts == [replicas] * 3 and bool(observed >= deployment["metadata"].get("generation", 0))


def note_pause(deployment: Object, conditions: list[Object], stamp: str) -> list[Object]:
    """Pausing stops the progress deadline; resuming restarts it."""
    said = get_condition(deployment, PROGRESSING) or {}
    if deadline_of(deployment) is None or said.get("reason") == TIMED_OUT:
        return conditions
    if deployment["spec"].get("paused"):
        return with_condition(conditions, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", stamp)
    if said.get("reason") == PAUSED:
        return with_condition(conditions, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", stamp)
    return conditions


def counted(deployment: Object, sets: Sets, conditions: list[Object], stamp: str) -> Object:
    """Returns counts and availability without judging the rollout. Counts of zero are omitted, as upstream does."""
    ready, statuses = sum(map(available, sets.all)), [one.get("status") or {} for one in sets.all]
    updated = (sets.new or {}).get("status") or {}
    counts = {
        "replicas": sum(status.get("replicas") or 0 for status in statuses),
        "updatedReplicas": updated.get("replicas") or 0,
        "readyReplicas": sum(status.get("readyReplicas") or 0 for status in statuses),
        "availableReplicas": ready,
        "unavailableReplicas": max(sets.pods - ready, 0),
        "collisionCount": (deployment.get("status") or {}).get("collisionCount"),
    }
    if ready >= replicas_of(deployment) - max_unavailable(deployment):
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
        conditions = with_condition(conditions, AVAILABLE, "True", reason, message, stamp)
    else:
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        conditions = with_condition(conditions, AVAILABLE, "False", reason, message, stamp)
    found: Object = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    found |= {field: count for field, count in counts.items() if count}
    found["terminatingReplicas"] = sum(status.get("terminatingReplicas") or 0 for status in statuses)
    return found | {"conditions": conditions}


def judged(deployment: Object, sets: Sets, conditions: list[Object], now: float, stamp: str) -> Object:
    """Returns the status of a Deployment during a rollout."""
    if sets.new is not None:
        conditions = _noticed(deployment, sets, conditions, stamp)
    status = counted(deployment, sets, conditions, stamp)
    found: list[Object] = status["conditions"]
    if deadline_of(deployment) is None:
        found = without_condition(found, PROGRESSING)
    else:
        found = _progress(deployment, sets, status, now, stamp)
    failure = next((one for one in map(_failure, [sets.new, *sets.all]) if one is not None), None)
    if failure is None:
        found = without_condition(found, FAILURE)
    else:
        since = failure.get("lastTransitionTime")
        found = with_condition(found, FAILURE, failure["status"], failure["reason"], failure["message"], since)
    return {**status, "conditions": found}


def next_check(deployment: Object, status: Object, now: float) -> float | None:
    """Returns the seconds until the progress deadline could be exceeded."""
    said, deadline = get_condition({"status": status}, PROGRESSING), deadline_of(deployment)
    if said is None or deadline is None or is_complete(deployment, status):
        return None
    if said.get("reason") in (TIMED_OUT, PAUSED, DONE):
        return None
    return max((parse_time(said.get("lastUpdateTime")) or now) + deadline - now, 0.0) + 1.0


def _noticed(deployment: Object, sets: Sets, conditions: list[Object], stamp: str) -> list[Object]:
    assert sets.new is not None
    name = sets.new["metadata"]["name"]
    if sets.created:
        message = f'Created new replica set "{name}"'
        return with_condition(conditions, PROGRESSING, "True", "NewReplicaSetCreated", message, stamp)
    if get_condition(deployment, PROGRESSING) is None:
        message = f'Found new replica set "{name}"'
        return with_condition(conditions, PROGRESSING, "True", "FoundNewReplicaSet", message, stamp)
    return conditions


def _progress(deployment: Object, sets: Sets, status: Object, now: float, stamp: str) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    said = get_condition({"status": status}, PROGRESSING) or {}
    before: Object = deployment.get("status") or {}
    if status.get("replicas") == status.get("updatedReplicas") and said.get("reason") == DONE:
        return conditions  # no rollout in progress: pods that are replaced are no progress
    subject = f'Deployment "{deployment["metadata"]["name"]}"'
    if sets.new is not None:
        subject = f'ReplicaSet "{sets.new["metadata"]["name"]}"'
    if is_complete(deployment, status):
        return with_condition(conditions, PROGRESSING, "True", DONE, f"{subject} has successfully progressed.", stamp)
    if _is_further(status, before):
        message = f"{subject} is progressing."
        return with_condition(conditions, PROGRESSING, "True", "ReplicaSetUpdated", message, stamp, refresh=True)
    if said and _is_late(deployment, said, now):
        message = f"{subject} has timed out progressing."
        return with_condition(conditions, PROGRESSING, "False", TIMED_OUT, message, stamp)
    return conditions


def _is_further(status: Object, before: Object) -> bool:
    def count(of: Object, field: str) -> int:
        return int(of.get(field) or 0)

    def old(of: Object) -> int:
        return count(of, "replicas") - count(of, "updatedReplicas")

    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return any(count(status, field) > count(before, field) for field in more) or old(status) < old(before)


def _is_late(deployment: Object, said: Any, now: float) -> bool:
    if said.get("reason") in (DONE, TIMED_OUT):
        return bool(said["reason"] == TIMED_OUT)
    since, deadline = parse_time(said.get("lastUpdateTime")), deadline_of(deployment)
    return since is not None and deadline is not None and since + deadline < now


def _failure(one: Object | None) -> Any:
    return get_condition(one, FAILURE) if one is not None else None
