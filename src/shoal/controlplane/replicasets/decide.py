"""Decides how many pods a ReplicaSet creates, which it deletes, and its status. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.podcontrol.rank import pods_to_delete
from shoal.kinds.core.pod.status import is_active, is_available, is_ready, is_terminating
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

BURST_REPLICAS = 500
"""Maximum number of pods created or deleted in one reconcile. The desired number is computed again in between."""
REPLICA_FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class ReplicaSetPlan:
    create: int = 0
    delete: tuple[Object, ...] = ()


def desired_replicas(replica_set: Object) -> int:
    count = replica_set["spec"].get("replicas")
    return 1 if count is None else int(count)


def split_active(pods: Iterable[Object], deleted: set[str]) -> tuple[list[Object], list[Object]]:
    """Returns active and terminating pods. `deleted` are uids of deleted pods that the informer still shows as
    active.
    """
    active: list[Object] = []
    terminating: list[Object] = []
    for pod in pods:
        if is_active(pod):
            (terminating if pod["metadata"]["uid"] in deleted else active).append(pod)
        elif is_terminating(pod):
            terminating.append(pod)
    return active, terminating


def plan(replica_set: Object, active: list[Object], related: Iterable[Object], now: float) -> ReplicaSetPlan:
    if "deletionTimestamp" in replica_set["metadata"]:
        return ReplicaSetPlan()
    surplus = len(active) - desired_replicas(replica_set)
    if surplus > 0:
        return ReplicaSetPlan(delete=tuple(pods_to_delete(active, related, min(surplus, BURST_REPLICAS), now)))
    return ReplicaSetPlan(create=min(-surplus, BURST_REPLICAS))


def replica_set_status(
    replica_set: Object,
    active: list[Object],
    terminating: list[Object],
    failure: Exception | None,
    now: float,
    now_rfc3339: str,
) -> Object:
    """As upstream: counts of zero are omitted, except `replicas` and `terminatingReplicas`. `now_rfc3339` is `now` as
    text.
    """
    spec = replica_set["spec"]
    labels = ((spec["template"].get("metadata") or {}).get("labels") or {}).items()
    min_ready = spec.get("minReadySeconds") or 0
    ready = [pod for pod in active if is_ready(pod)]
    available = [pod for pod in ready if is_available(pod, min_ready, now)] if min_ready else ready
    counts = {
        "fullyLabeledReplicas": sum(labels <= (pod["metadata"].get("labels") or {}).items() for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": len(available),
    }
    result: Object = {"replicas": len(active), "terminatingReplicas": len(terminating)}
    result |= {field: count for field, count in counts.items() if count}
    result["observedGeneration"] = replica_set["metadata"].get("generation", 0)
    conditions = _conditions(replica_set, len(active), failure, now_rfc3339)
    return result | ({"conditions": conditions} if conditions else {})


def _conditions(replica_set: Object, active: int, failure: Exception | None, now_rfc3339: str) -> list[Object]:
    conditions: list[Object] = (replica_set.get("status") or {}).get("conditions") or []
    failed = get_condition(replica_set, REPLICA_FAILURE)
    if failure is None:
        return [condition for condition in conditions if condition.get("type") != REPLICA_FAILURE]
    if failed is not None:
        return conditions
    reason = "FailedCreate" if active < desired_replicas(replica_set) else "FailedDelete"
    condition = {
        "type": REPLICA_FAILURE,
        "status": "True",
        "reason": reason,
        "message": str(failure),
        "lastTransitionTime": now_rfc3339,
    }
    return [*conditions, condition]
