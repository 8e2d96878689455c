"""Drain decisions: which pods leave, in which order, by eviction or deletion, and what the instance waits for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fit.taints import same, tolerated
from shoal.kinds.karpenter import DISRUPTED, EXCLUDE_BALANCERS, is_going
from shoal.objects.duration import parse_time
from shoal.provision.pods import is_not_to_be_disrupted, largest_first, size

Object = dict[str, Any]

STUCK_SECONDS = 60.0
"""A pod that exceeds its grace period by this much is not waited for."""
SHORTEST_GRACE = 1
"""A shorter grace period would remove the pod from the store while it runs."""
GRACE_SECONDS = 30
"""The API's default grace period."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Backoff between eviction attempts that a PodDisruptionBudget refuses."""
_CRITICAL = ("system-cluster-critical", "system-node-critical")


@dataclass(frozen=True, slots=True)
class Drain:
    delete: tuple[tuple[Object, int], ...] = ()
    """Pods to delete now, without regard to budgets, with their grace period in seconds."""
    evict: tuple[Object, ...] = ()
    """Pods of the current group, largest first: large pods find room early, and small ones fit what is left."""
    kept: tuple[Object, ...] = ()
    """Pods of the current group that must not be disrupted."""
    left: int = 0
    """Pods that have to leave, including those being deleted."""
    again: float | None = None
    """Seconds until the next forced deletion."""


def drain(pods: Iterable[Object], deadline: float | None, now: float) -> Drain:
    """DaemonSet pods leave after the pods they serve, critical pods last. At the deadline the order is ignored."""
    waiting = [pod for pod in pods if waits_for_eviction(pod, now)]
    told = [(pod, _told_at(pod, deadline, now)) for pod in waiting]
    later = [at - now for _, at in told if at is not None and at > now]
    delete = [pod for pod, at in told if at is not None and at <= now]
    group = next((group for group in _groups(waiting) if group), [])
    turn = [pod for pod in group if not is_going(pod) and pod not in delete]
    kept = [pod for pod in turn if is_not_to_be_disrupted(pod, now)]
    return Drain(
        delete=tuple((pod, _grace(deadline, now)) for pod in delete),
        evict=tuple(largest_first(pod for pod in turn if pod not in kept)),
        kept=tuple(kept),
        left=len(waiting),
        again=min(later, default=None),
    )


def waits_for_eviction(pod: Object, now: float) -> bool:
    """True if the pod must leave before the instance terminates: not if it is finished, static, or tolerates the
    disruption taint.
    """
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return is_drainable(pod, now)


def is_drainable(pod: Object, now: float) -> bool:
    if tolerated(DISRUPTED, (pod.get("spec") or {}).get("tolerations") or ()) or _is_of(pod, "Node"):
        return False
    deadline = parse_time(pod["metadata"].get("deletionTimestamp"))
    return deadline is None or now <= deadline + STUCK_SECONDS


def _groups(pods: list[Object]) -> list[list[Object]]:
    found: list[list[Object]] = [[], [], [], []]
    for pod in pods:
        critical = pod["spec"].get("priorityClassName") in _CRITICAL
        found[2 * critical + _is_of(pod, "DaemonSet")].append(pod)
    return found


def _is_of(pod: Object, kind: str) -> bool:
    return any(owner.get("kind") == kind for owner in pod["metadata"].get("ownerReferences") or ())


def _told_at(pod: Object, deadline: float | None, now: float) -> float | None:
    """Time at which the pod is deleted so that its whole grace period ends by the deadline; None: not at all."""
    if deadline is None:
        return None
    ends = parse_time(pod["metadata"].get("deletionTimestamp"))
    if ends is not None and ends <= max(deadline, now + SHORTEST_GRACE):
        return None  # it is being deleted and ends in time
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    return deadline - (GRACE_SECONDS if grace is None else grace)


def _grace(deadline: float | None, now: float) -> int:
    return max(int((deadline or now) - now), SHORTEST_GRACE)


def in_turn(pods: Iterable[Object], waiting: Iterable[Object]) -> tuple[Object, ...]:
    """Pods that no pending pod on any node exceeds by a size class: the scheduler should see large pods first."""
    largest = max(map(_rank, waiting), default=0)
    return tuple(pod for pod in pods if _rank(pod) >= largest)


def _rank(pod: Object) -> int:
    """Size class: doubles per class. One class for each size would drain nodes slowly."""
    return size(pod)[0].bit_length()


def eviction_pause(refusals: int) -> float:
    return min(FIRST_PAUSE * float(2 ** min(refusals - 1, 10)), LONGEST_PAUSE)


def cordon_patch(node: Object) -> Object | None:
    """Patch with the disruption taint and the load balancer exclusion label; None if both are set."""
    metadata, taints = node["metadata"], (node.get("spec") or {}).get("taints") or []
    found: Object = {}
    if (metadata.get("labels") or {}).get(EXCLUDE_BALANCERS) != "karpenter":
        found["metadata"] = {"labels": {EXCLUDE_BALANCERS: "karpenter"}}
    if not any(same(taint, DISRUPTED) for taint in taints):
        kept = [taint for taint in taints if taint.get("key") != DISRUPTED["key"]]
        found["spec"] = {"taints": [*kept, DISRUPTED]}
    return found or None


def claims_of_staying(pods: Iterable[Object], now: float) -> set[tuple[str, str]]:
    """Namespace and name of the PersistentVolumeClaims of pods that stay. Their volumes are not waited for."""
    found = set()
    for pod in pods:
        if is_drainable(pod, now):
            continue
        metadata = pod["metadata"]
        for volume in pod["spec"].get("volumes") or ():
            if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                found.add((metadata["namespace"], claim))
            elif "ephemeral" in volume:
                found.add((metadata["namespace"], f"{metadata['name']}-{volume['name']}"))
    return found


def pending_attachments(attachments: Iterable[Object], node: str, staying: Mapping[str, object]) -> list[str]:
    """Names of the VolumeAttachments that must be removed first. `staying`: volumes that are not waited for."""
    found = []
    for each in attachments:
        spec = each.get("spec") or {}
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if spec.get("nodeName") == node and volume is not None and volume not in staying:
            found.append(each["metadata"]["name"])
    return sorted(found)


def named(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} other(s)" if len(names) > most else ""
    return ", ".join(names[:most]) + more
