"""Drain decisions: which pods leave, in which order, by eviction or deletion, and what the instance waits for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fit.taints import is_same_taint, is_tolerated
from shoal.kinds.karpenter.karpenter import DISRUPTED_TAINT, EXCLUDE_LOAD_BALANCERS, is_deleting
from shoal.objects.duration import parse_time
from shoal.provision.pods import has_do_not_disrupt, largest_first, resource_size

Object = dict[str, Any]

STUCK_SECONDS = 60.0
"""A pod that exceeds its grace period by this much is not waited for."""
MIN_GRACE_SECONDS = 1
"""A shorter grace period would remove the pod from the store while it runs."""
DEFAULT_GRACE_SECONDS = 30
"""The API's default grace period."""
BASE_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.1, 10.0
"""Backoff between eviction attempts that a PodDisruptionBudget refuses."""
_CRITICAL_PRIORITY_CLASSES = ("system-cluster-critical", "system-node-critical")


@dataclass(frozen=True, slots=True)
class DrainStep:
    delete: tuple[tuple[Object, int], ...] = ()
    """Pods to delete now, without regard to budgets, with their grace period in seconds."""
    evict: tuple[Object, ...] = ()
    """Pods of the current group, largest first: large pods find room early, and small ones fit what is left."""
    blocked: tuple[Object, ...] = ()
    """Pods of the current group that must not be disrupted."""
    remaining: int = 0
    """Pods that have to leave, including those being deleted."""
    requeue_after: float | None = None
    """Seconds until the next forced deletion."""


def next_drain_step(pods: Iterable[Object], deadline: float | None, now: float) -> DrainStep:
    """DaemonSet pods leave after the pods they serve, critical pods last. At the deadline the order is ignored."""
    waiting = [pod for pod in pods if waits_for_eviction(pod, now)]
    deletions = [(pod, _force_delete_at(pod, deadline, now)) for pod in waiting]
    waits = [at - now for _, at in deletions if at is not None and at > now]
    delete = [pod for pod, at in deletions if at is not None and at <= now]
    eviction_group = next((eviction_group for eviction_group in _eviction_groups(waiting) if eviction_group), [])
    due = [pod for pod in eviction_group if not is_deleting(pod) and pod not in delete]
    blocked = [pod for pod in due if has_do_not_disrupt(pod, now)]
    return DrainStep(
        delete=tuple((pod, _remaining_grace(deadline, now)) for pod in delete),
        evict=tuple(largest_first(pod for pod in due if pod not in blocked)),
        blocked=tuple(blocked),
        remaining=len(waiting),
        requeue_after=min(waits, default=None),
    )


def waits_for_eviction(pod: Object, now: float) -> bool:
    """True if the pod must leave before the instance terminates: not if it is finished, static, or tolerates the
    disruption taint.
    """
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return is_drainable(pod, now)


def is_drainable(pod: Object, now: float) -> bool:
    if is_tolerated(DISRUPTED_TAINT, (pod.get("spec") or {}).get("tolerations") or ()) or _has_owner_kind(pod, "Node"):
        return False
    deadline = parse_time(pod["metadata"].get("deletionTimestamp"))
    return deadline is None or now <= deadline + STUCK_SECONDS


def _eviction_groups(pods: list[Object]) -> list[list[Object]]:
    groups: list[list[Object]] = [[], [], [], []]
    for pod in pods:
        critical = pod["spec"].get("priorityClassName") in _CRITICAL_PRIORITY_CLASSES
        groups[2 * critical + _has_owner_kind(pod, "DaemonSet")].append(pod)
    return groups


def _has_owner_kind(pod: Object, kind: str) -> bool:
    return any(owner.get("kind") == kind for owner in pod["metadata"].get("ownerReferences") or ())


def _force_delete_at(pod: Object, deadline: float | None, now: float) -> float | None:
    """Time at which the pod is deleted so that its whole grace period ends by the deadline; None: not at all."""
    if deadline is None:
        return None
    deletes_at = parse_time(pod["metadata"].get("deletionTimestamp"))
    if deletes_at is not None and deletes_at <= max(deadline, now + MIN_GRACE_SECONDS):
        return None  # it is being deleted and ends in time
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    return deadline - (DEFAULT_GRACE_SECONDS if grace is None else grace)


def _remaining_grace(deadline: float | None, now: float) -> int:
    return max(int((deadline or now) - now), MIN_GRACE_SECONDS)


def largest_pods(pods: Iterable[Object], waiting: Iterable[Object]) -> tuple[Object, ...]:
    """Pods that no pending pod on any node exceeds by a size class: the scheduler should see large pods first."""
    largest = max(map(_size_class, waiting), default=0)
    return tuple(pod for pod in pods if _size_class(pod) >= largest)


def _size_class(pod: Object) -> int:
    """Size class: doubles per class. One class for each size would drain nodes slowly."""
    return resource_size(pod)[0].bit_length()


def eviction_backoff(refusals: int) -> float:
    return min(BASE_BACKOFF_SECONDS * float(2 ** min(refusals - 1, 10)), MAX_BACKOFF_SECONDS)


def cordon_patch(node: Object) -> Object | None:
    """Patch with the disruption taint and the load balancer exclusion label; None if both are set."""
    metadata, taints = node["metadata"], (node.get("spec") or {}).get("taints") or []
    patch: Object = {}
    if (metadata.get("labels") or {}).get(EXCLUDE_LOAD_BALANCERS) != "karpenter":
        patch["metadata"] = {"labels": {EXCLUDE_LOAD_BALANCERS: "karpenter"}}
    if not any(is_same_taint(taint, DISRUPTED_TAINT) for taint in taints):
        kept = [taint for taint in taints if taint.get("key") != DISRUPTED_TAINT["key"]]
        patch["spec"] = {"taints": [*kept, DISRUPTED_TAINT]}
    return patch or None


def volume_claims_of_staying_pods(pods: Iterable[Object], now: float) -> set[tuple[str, str]]:
    """Namespace and name of the PersistentVolumeClaims of pods that stay. Their volumes are not waited for."""
    keys = set()
    for pod in pods:
        if is_drainable(pod, now):
            continue
        metadata = pod["metadata"]
        for volume in pod["spec"].get("volumes") or ():
            if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                keys.add((metadata["namespace"], claim))
            elif "ephemeral" in volume:
                keys.add((metadata["namespace"], f"{metadata['name']}-{volume['name']}"))
    return keys


def pending_attachments(attachments: Iterable[Object], node: str, staying: Mapping[str, object]) -> list[str]:
    """Names of the VolumeAttachments that must be removed first. `staying`: volumes that are not waited for."""
    names = []
    for each in attachments:
        spec = each.get("spec") or {}
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if spec.get("nodeName") == node and volume is not None and volume not in staying:
            names.append(each["metadata"]["name"])
    return sorted(names)


def join_names(names: list[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} other(s)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
