"""Plans a node drain: which Pods are evicted, awaited or skipped. Pure.

As kubectl drain: Pods of DaemonSets and static Pods stay; the others are evicted within their PodDisruptionBudgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.conditions import NAMES_SHOWN
from shoal.kinds.capi import EXCLUDE_NODE_DRAINING, EXCLUDE_VOLUME_DETACH, POD_DRAIN, annotations_of, labels_of
from shoal.objects.duration import parse_time

Object = dict[str, Any]

MIRROR = "kubernetes.io/config.mirror"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNREACHABLE_GRACE = 1
"""Seconds after which a terminating Pod of an unreachable Node is no longer awaited."""
SOONEST, LATEST = 0.25, 20.0
"""Poll interval of a Node that is not drained yet, in seconds, increasing over time."""
BUDGET = "cannot evict pod as it would violate the pod's disruption budget."


@dataclass(frozen=True, slots=True)
class Drain:
    evict: tuple[Object, ...] = ()
    going: tuple[Object, ...] = ()
    """Evicted, and still present."""
    completing: tuple[Object, ...] = ()
    """Awaited until they finish by themselves."""
    failed: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """Pods that could not be evicted, by reason."""

    @property
    def is_done(self) -> bool:
        return not (self.evict or self.going or self.completing or self.failed)


def plan(pods: Sequence[Object], unreachable: bool, now: float) -> Drain:
    evict, going, completing = [], [], []
    for pod in sorted(pods, key=_name):
        if _stays(pod) or (unreachable and _left_behind(pod, now)):
            continue
        if _waits(pod):
            completing.append(pod)
        elif "deletionTimestamp" in pod["metadata"]:
            going.append(pod)
        else:
            evict.append(pod)
    return Drain(tuple(evict), tuple(going), tuple(completing))


def is_unreachable(node: Object) -> bool:
    return any(taint.get("key") == UNREACHABLE for taint in (node.get("spec") or {}).get("taints") or ())


def _stays(pod: Object) -> bool:
    if MIRROR in annotations_of(pod) or labels_of(pod).get(POD_DRAIN, "").lower() == "skip":
        return True
    of_daemon = any(
        owner.get("controller") and owner.get("kind") == "DaemonSet"
        for owner in pod["metadata"].get("ownerReferences") or ()
    )
    return of_daemon and not _is_finished(pod)


def _waits(pod: Object) -> bool:
    return labels_of(pod).get(POD_DRAIN, "").lower().replace("-", "", 1) == "waitcompleted"


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _left_behind(pod: Object, now: float) -> bool:
    deleted = parse_time(pod["metadata"].get("deletionTimestamp"))
    return deleted is not None and now - deleted > UNREACHABLE_GRACE


def _name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def eviction(pod: Object, unreachable: bool) -> Object:
    """The Eviction of a Pod. With its own grace period if the Node is reachable."""
    metadata = {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"]}
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return {**body, "deleteOptions": {"gracePeriodSeconds": UNREACHABLE_GRACE}} if unreachable else body


def message(drain: Drain, started: str) -> str:
    """Lists the remaining Pods and the reasons."""
    lines = [f"Drain not completed yet (started at {started}):"]
    if drain.going or drain.evict:
        shown = _names((*drain.going, *drain.evict))
        lines.append(f"* {shown}: deletionTimestamp set, but still not removed from the Node")
    for reason, pods in sorted(drain.failed.items()):
        lines.append(f"* {_names(pods)}: {_reason(reason)}")
    if drain.completing:
        lines.append(f"* {_names(drain.completing)}: waiting for completion")
    return "\n".join(lines)


def _reason(said: str) -> str:
    said = said.replace(BUDGET.capitalize(), BUDGET)
    return said if said.startswith(BUDGET) else f"failed to evict Pod, {said}"


def _names(pods: Sequence[Object]) -> str:
    names = [_name(pod) for pod in pods]
    more = f", ... ({len(names) - NAMES_SHOWN} more)" if len(names) > NAMES_SHOWN else ""
    return f"Pod{'s' if len(names) > 1 else ''} {', '.join(names[:NAMES_SHOWN])}{more}"


def look_again(started: str, now: float) -> float:
    return min(max((now - (parse_time(started) or now)) / 5, SOONEST), LATEST)


def is_drained(machine: Object, infrastructure: Object | None, now: float) -> bool:
    """Reports whether the drain is no longer awaited: it is excluded by annotation, too late, or timed out."""
    if EXCLUDE_NODE_DRAINING in annotations_of(machine):
        return True
    return _too_late(machine, infrastructure) or _expired(machine, "nodeDrainTimeoutSeconds", "nodeDrainStartTime", now)


def is_detached(machine: Object, infrastructure: Object | None, node: Object, now: float) -> bool:
    """Reports whether volume detach is no longer awaited."""
    if EXCLUDE_VOLUME_DETACH in annotations_of(machine) or is_unreachable(node):
        return True
    if _too_late(machine, infrastructure):
        return True
    attached = (node.get("status") or {}).get("volumesAttached")
    return not attached or _expired(machine, "nodeVolumeDetachTimeoutSeconds", "waitForNodeVolumeDetachStartTime", now)


def _too_late(machine: Object, infrastructure: Object | None) -> bool:
    begun = (machine.get("status") or {}).get("deletion") or {}
    gone = infrastructure is None or "deletionTimestamp" in infrastructure["metadata"]
    return gone or "waitForPreTerminateHookStartTime" in begun


def _expired(machine: Object, timeout: str, start: str, now: float) -> bool:
    seconds = (machine["spec"].get("deletion") or {}).get(timeout) or 0
    started = parse_time(((machine.get("status") or {}).get("deletion") or {}).get(start))
    return bool(seconds) and started is not None and now - started >= seconds
