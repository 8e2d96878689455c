"""Taints by node condition and the eviction of pods, as decided by upstream's node lifecycle, taint eviction and pod
garbage collection. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE, same, tolerates
from shoal.kinds.pods import set_condition
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
EVICTING = (NOT_READY, UNREACHABLE)
OURS = {(key, NO_SCHEDULE) for key in BY_CONDITION.values()} | {(key, NO_EXECUTE) for key in EVICTING}
QUARANTINE_SECONDS = 40.0
"""Maximum time a pod may be bound to an unknown node: its Node object may still arrive."""


def wanted_taints(node: Object, now: str) -> list[Object] | None:
    """Returns the desired taints; None if the node has them. Ready and unreachable taints are left alone on a node
    without a Ready condition.
    """
    wanted: list[Object] = []
    for condition in (node.get("status") or {}).get("conditions") or ():
        key = BY_CONDITION.get((condition.get("type"), condition.get("status")))
        if key is not None:
            wanted.append({"key": key, "effect": NO_SCHEDULE})
        if key in EVICTING:
            wanted.append({"key": key, "effect": NO_EXECUTE})
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        wanted.append({**UNSCHEDULABLE})
    ours = OURS | {(UNSCHEDULABLE["key"], UNSCHEDULABLE["effect"])}
    if get_condition(node, "Ready") is None:
        ours = {pair for pair in ours if pair[0] not in EVICTING}
    taints = spec.get("taints") or []
    kept = [
        taint
        for taint in taints
        if (taint.get("key"), taint.get("effect")) not in ours or any(same(taint, each) for each in wanted)
    ]
    added = [{**each, "timeAdded": now} for each in wanted if not any(same(each, taint) for taint in taints)]
    return [*kept, *added] if added or len(kept) != len(taints) else None


def evicting_taints(node: Object) -> list[Object]:
    return [taint for taint in (node.get("spec") or {}).get("taints") or () if taint.get("effect") == NO_EXECUTE]


def is_down(node: Object) -> bool:
    """Returns whether the kubelet reported not ready, or stopped reporting."""
    condition = get_condition(node, "Ready")
    return condition is not None and condition.get("status") != "True"


@dataclass(frozen=True, slots=True)
class Fate:
    """Action on a pod because of its node."""

    status: Object | None = None
    """Written first."""
    delete: bool = False
    now: bool = False
    """Without a grace period: no kubelet will terminate it."""
    check: bool = False
    """Only if a GET confirms that the node does not exist."""
    at: float | None = None
    """Time of the next reconcile if nothing changes before."""


def pod_fate(pod: Object, node: Object, noticed: float, now: float, stamp: str) -> Fate:
    """`noticed_at` is when the node's taints were first observed. It applies to taints without timeAdded."""
    status = pod.get("status") or {}
    unready = _unready(status, stamp) if is_down(node) and condition_is(pod, "Ready") else None
    if "deletionTimestamp" in pod["metadata"]:
        return Fate(unready)
    at = eviction_time(pod, evicting_taints(node), noticed)
    if at is None or at > now:
        return Fate(unready, at=at)
    return Fate(_disrupted(unready or status, stamp, "DeletionByTaintManager", TAINTED), delete=True)


def orphan_fate(pod: Object, seen_going: bool, now: float, stamp: str) -> Fate:
    """For a pod whose node is missing or was observed to be deleted."""
    at = bound_at(pod) + QUARANTINE_SECONDS
    if not seen_going and at > now:
        return Fate(at=at)
    metadata, status = pod["metadata"], pod.get("status") or {}
    if "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds"):
        return Fate()  # it waits for a finalizer
    if status.get("phase") in ("Succeeded", "Failed"):
        return Fate(delete=True, now=True, check=True)
    failed = {**_disrupted(status, stamp, "DeletionByPodGC", NO_NODE), "phase": "Failed"}
    return Fate(failed, delete=True, now=True, check=True)


TAINTED = "Taint manager: deleting due to NoExecute taint"
NO_NODE = "PodGC: node no longer exists"


def eviction_time(pod: Object, taints: Sequence[Object], noticed: float) -> float | None:
    """Returns the time at which the pod's toleration of these taints ends; None for never."""
    tolerations = pod["spec"].get("tolerations") or ()
    ends: list[float] = []
    for taint in taints:
        used = next((each for each in tolerations if tolerates(each, taint)), None)
        since = max(parse_time(taint.get("timeAdded")) or noticed, bound_at(pod))
        if used is None:
            ends.append(0.0)
        elif used.get("tolerationSeconds") is not None:
            ends.append(since + max(used["tolerationSeconds"], 0))
    return min(ends, default=None)


def bound_at(pod: Object) -> float:
    bound = get_condition(pod, "PodScheduled") or {}
    created = parse_time(pod["metadata"].get("creationTimestamp"))
    return parse_time(bound.get("lastTransitionTime")) or created or 0.0


def _unready(status: Object, stamp: str) -> Object:
    """It is unknown whether the pod still serves, so it does not count as ready."""
    made = [
        {**each, "status": "False", "lastTransitionTime": stamp} if each.get("type") == "Ready" else each
        for each in status["conditions"]
    ]
    return {**status, "conditions": made}


def _disrupted(status: Object, stamp: str, reason: str, message: str) -> Object:
    new = {**status}
    set_condition(new, "DisruptionTarget", "True", stamp, reason, message)
    return new
