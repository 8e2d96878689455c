"""Taints by node condition and the eviction of pods, as decided by upstream's node lifecycle, taint eviction and pod
garbage collection. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE, is_same_taint, tolerates
from shoal.kinds.core.pod.pods import set_condition
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TAINT_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
NO_EXECUTE_KEYS = (NOT_READY, UNREACHABLE)
MANAGED_TAINTS = {(key, NO_SCHEDULE) for key in TAINT_BY_CONDITION.values()} | {
    (key, NO_EXECUTE) for key in NO_EXECUTE_KEYS
}
QUARANTINE_SECONDS = 40.0
"""Maximum time a pod may be bound to an unknown node: its Node object may still arrive."""


def desired_taints(node: Object, now: str) -> list[Object] | None:
    """Returns the desired taints; None if the node has them. Ready and unreachable taints are left alone on a node
    without a Ready condition.
    """
    desired: list[Object] = []
    for condition in (node.get("status") or {}).get("conditions") or ():
        key = TAINT_BY_CONDITION.get((condition.get("type"), condition.get("status")))
        if key is not None:
            desired.append({"key": key, "effect": NO_SCHEDULE})
        if key in NO_EXECUTE_KEYS:
            desired.append({"key": key, "effect": NO_EXECUTE})
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        desired.append({**UNSCHEDULABLE})
    managed = MANAGED_TAINTS | {(UNSCHEDULABLE["key"], UNSCHEDULABLE["effect"])}
    if get_condition(node, "Ready") is None:
        managed = {pair for pair in managed if pair[0] not in NO_EXECUTE_KEYS}
    taints = spec.get("taints") or []
    kept = [
        taint
        for taint in taints
        if (taint.get("key"), taint.get("effect")) not in managed or any(is_same_taint(taint, each) for each in desired)
    ]
    added = [{**each, "timeAdded": now} for each in desired if not any(is_same_taint(each, taint) for taint in taints)]
    return [*kept, *added] if added or len(kept) != len(taints) else None


def no_execute_taints(node: Object) -> list[Object]:
    return [taint for taint in (node.get("spec") or {}).get("taints") or () if taint.get("effect") == NO_EXECUTE]


def is_not_ready(node: Object) -> bool:
    """Returns whether the kubelet reported not ready, or stopped reporting."""
    condition = get_condition(node, "Ready")
    return condition is not None and condition.get("status") != "True"


@dataclass(frozen=True, slots=True)
class PodAction:
    """Action on a pod because of its node."""

    status: Object | None = None
    """Written first."""
    delete: bool = False
    force: bool = False
    """Without a grace period: no kubelet will terminate it."""
    confirm_node_missing: bool = False
    """Only if a GET confirms that the node does not exist."""
    requeue_at: float | None = None
    """Time of the next reconcile if nothing changes before."""


def taint_eviction(pod: Object, node: Object, noticed_at: float, now: float, now_rfc3339: str) -> PodAction:
    """`noticed_at` is when the node's taints were first observed. It applies to taints without timeAdded."""
    status = pod.get("status") or {}
    unready = _not_ready_status(status, now_rfc3339) if is_not_ready(node) and condition_is(pod, "Ready") else None
    if "deletionTimestamp" in pod["metadata"]:
        return PodAction(unready)
    evict_at = eviction_time(pod, no_execute_taints(node), noticed_at)
    if evict_at is None or evict_at > now:
        return PodAction(unready, requeue_at=evict_at)
    return PodAction(
        _disruption_status(unready or status, now_rfc3339, "DeletionByTaintManager", TAINT_EVICTION_MESSAGE),
        delete=True,
    )


def pod_gc(pod: Object, node_deleted: bool, now: float, now_rfc3339: str) -> PodAction:
    """For a pod whose node is missing or was observed to be deleted."""
    quarantine_end = bound_time(pod) + QUARANTINE_SECONDS
    if not node_deleted and quarantine_end > now:
        return PodAction(requeue_at=quarantine_end)
    metadata, status = pod["metadata"], pod.get("status") or {}
    if "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds"):
        return PodAction()  # it waits for a finalizer
    if status.get("phase") in ("Succeeded", "Failed"):
        return PodAction(delete=True, force=True, confirm_node_missing=True)
    failed_status = {**_disruption_status(status, now_rfc3339, "DeletionByPodGC", POD_GC_MESSAGE), "phase": "Failed"}
    return PodAction(failed_status, delete=True, force=True, confirm_node_missing=True)


TAINT_EVICTION_MESSAGE = "Taint manager: deleting due to NoExecute taint"
POD_GC_MESSAGE = "PodGC: node no longer exists"


def eviction_time(pod: Object, taints: Sequence[Object], noticed_at: float) -> float | None:
    """Returns the time at which the pod's toleration of these taints ends; None for never."""
    tolerations = pod["spec"].get("tolerations") or ()
    times: list[float] = []
    for taint in taints:
        toleration = next((each for each in tolerations if tolerates(each, taint)), None)
        since = max(parse_time(taint.get("timeAdded")) or noticed_at, bound_time(pod))
        if toleration is None:
            times.append(0.0)
        elif toleration.get("tolerationSeconds") is not None:
            times.append(since + max(toleration["tolerationSeconds"], 0))
    return min(times, default=None)


def bound_time(pod: Object) -> float:
    scheduled = get_condition(pod, "PodScheduled") or {}
    created = parse_time(pod["metadata"].get("creationTimestamp"))
    return parse_time(scheduled.get("lastTransitionTime")) or created or 0.0


def _not_ready_status(status: Object, now_rfc3339: str) -> Object:
    """It is unknown whether the pod still serves, so it does not count as ready."""
    conditions = [
        {**each, "status": "False", "lastTransitionTime": now_rfc3339} if each.get("type") == "Ready" else each
        for each in status["conditions"]
    ]
    return {**status, "conditions": conditions}


def _disruption_status(status: Object, now_rfc3339: str, reason: str, message: str) -> Object:
    new = {**status}
    set_condition(new, "DisruptionTarget", "True", now_rfc3339, reason, message)
    return new
