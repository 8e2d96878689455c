"""Plans a node drain: which Pods are evicted, awaited or skipped. Pure.

As kubectl drain: Pods of DaemonSets and static Pods stay; the others are evicted within their PodDisruptionBudgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.conditions import MAX_NAMES
from shoal.kinds.clusterapi.capi import (
    EXCLUDE_NODE_DRAINING,
    EXCLUDE_VOLUME_DETACH,
    POD_DRAIN_LABEL,
    annotations_of,
    labels_of,
)
from shoal.objects.duration import parse_time

Object = dict[str, Any]

MIRROR_POD_ANNOTATION = "kubernetes.io/config.mirror"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
UNREACHABLE_GRACE_SECONDS = 1
"""Seconds after which a terminating Pod of an unreachable Node is no longer awaited."""
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.25, 20.0
"""Poll interval of a Node that is not drained yet, in seconds, increasing over time."""
BUDGET_MESSAGE = "cannot evict pod as it would violate the pod's disruption budget."


@dataclass(frozen=True, slots=True)
class DrainState:
    evict: tuple[Object, ...] = ()
    terminating: tuple[Object, ...] = ()
    """Evicted, and still present."""
    completing: tuple[Object, ...] = ()
    """Awaited until they finish by themselves."""
    failed: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """Pods that could not be evicted, by reason."""

    @property
    def is_done(self) -> bool:
        return not (self.evict or self.terminating or self.completing or self.failed)


def plan_drain(pods: Sequence[Object], unreachable: bool, now: float) -> DrainState:
    evict, terminating, completing = [], [], []
    for pod in sorted(pods, key=_name):
        if _is_skipped(pod) or (unreachable and _is_abandoned(pod, now)):
            continue
        if _waits_for_completion(pod):
            completing.append(pod)
        elif "deletionTimestamp" in pod["metadata"]:
            terminating.append(pod)
        else:
            evict.append(pod)
    return DrainState(tuple(evict), tuple(terminating), tuple(completing))


def is_unreachable(node: Object) -> bool:
    return any(taint.get("key") == UNREACHABLE_TAINT for taint in (node.get("spec") or {}).get("taints") or ())


def _is_skipped(pod: Object) -> bool:
    if MIRROR_POD_ANNOTATION in annotations_of(pod) or labels_of(pod).get(POD_DRAIN_LABEL, "").lower() == "skip":
        return True
    of_daemon = any(
        owner.get("controller") and owner.get("kind") == "DaemonSet"
        for owner in pod["metadata"].get("ownerReferences") or ()
    )
    return of_daemon and not _is_finished(pod)


def _waits_for_completion(pod: Object) -> bool:
    return labels_of(pod).get(POD_DRAIN_LABEL, "").lower().replace("-", "", 1) == "waitcompleted"


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _is_abandoned(pod: Object, now: float) -> bool:
    deleted = parse_time(pod["metadata"].get("deletionTimestamp"))
    return deleted is not None and now - deleted > UNREACHABLE_GRACE_SECONDS


def _name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def eviction_body(pod: Object, unreachable: bool) -> Object:
    """The Eviction of a Pod. With its own grace period if the Node is reachable."""
    metadata = {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"]}
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return {**body, "deleteOptions": {"gracePeriodSeconds": UNREACHABLE_GRACE_SECONDS}} if unreachable else body


def drain_message(state: DrainState, started: str) -> str:
    """Lists the remaining Pods and the reasons."""
    lines = [f"Drain not completed yet (started at {started}):"]
    if state.terminating or state.evict:
        names = _names((*state.terminating, *state.evict))
        lines.append(f"* {names}: deletionTimestamp set, but still not removed from the Node")
    for reason, pods in sorted(state.failed.items()):
        lines.append(f"* {_names(pods)}: {_failure_text(reason)}")
    if state.completing:
        lines.append(f"* {_names(state.completing)}: waiting for completion")
    return "\n".join(lines)


def _failure_text(reason: str) -> str:
    reason = reason.replace(BUDGET_MESSAGE.capitalize(), BUDGET_MESSAGE)
    return reason if reason.startswith(BUDGET_MESSAGE) else f"failed to evict Pod, {reason}"


def _names(pods: Sequence[Object]) -> str:
    names = [_name(pod) for pod in pods]
    more = f", ... ({len(names) - MAX_NAMES} more)" if len(names) > MAX_NAMES else ""
    return f"Pod{'s' if len(names) > 1 else ''} {', '.join(names[:MAX_NAMES])}{more}"


def poll_interval(started: str, now: float) -> float:
    return min(max((now - (parse_time(started) or now)) / 5, MIN_POLL_SECONDS), MAX_POLL_SECONDS)


def is_drain_over(machine: Object, infrastructure: Object | None, now: float) -> bool:
    """Reports whether the drain is no longer awaited: it is excluded by annotation, too late, or timed out."""
    if EXCLUDE_NODE_DRAINING in annotations_of(machine):
        return True
    return _is_past_drain(machine, infrastructure) or _has_timed_out(
        machine, "nodeDrainTimeoutSeconds", "nodeDrainStartTime", now
    )


def is_volume_detach_over(machine: Object, infrastructure: Object | None, node: Object, now: float) -> bool:
    """Reports whether volume detach is no longer awaited."""
    if EXCLUDE_VOLUME_DETACH in annotations_of(machine) or is_unreachable(node):
        return True
    if _is_past_drain(machine, infrastructure):
        return True
    attached = (node.get("status") or {}).get("volumesAttached")
    return not attached or _has_timed_out(
        machine, "nodeVolumeDetachTimeoutSeconds", "waitForNodeVolumeDetachStartTime", now
    )


def _is_past_drain(machine: Object, infrastructure: Object | None) -> bool:
    deletion_times = (machine.get("status") or {}).get("deletion") or {}
    is_deleted = infrastructure is None or "deletionTimestamp" in infrastructure["metadata"]
    return is_deleted or "waitForPreTerminateHookStartTime" in deletion_times


def _has_timed_out(machine: Object, timeout: str, start: str, now: float) -> bool:
    seconds = (machine["spec"].get("deletion") or {}).get(timeout) or 0
    started = parse_time(((machine.get("status") or {}).get("deletion") or {}).get(start))
    return bool(seconds) and started is not None and now - started >= seconds
