"""Predicates on pods: unschedulable, owned by the node, not to be disrupted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.fit.resources import CPU, MEMORY, pod_requests
from shoal.kinds.karpenter import DO_NOT_DISRUPT, annotation, is_going
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_duration, parse_time

Object = dict[str, Any]


def is_provisionable(pod: Object) -> bool:
    """True if the scheduler found no node for the pod and no preemption is about to make room."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    scheduled = get_condition(pod, "PodScheduled") or {}
    waiting = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    if not waiting or spec.get("nodeName") or is_going(pod) or status.get("phase") not in (None, "", "Pending"):
        return False
    return not status.get("nominatedNodeName") and not is_of_the_node(pod)


def is_of_the_node(pod: Object) -> bool:
    """True for DaemonSet pods and static pods, which come and go with their node."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("DaemonSet", "Node") and owner.get("controller", True) for owner in owners)


def is_not_to_be_disrupted(pod: Object, now: float) -> bool:
    """True if the do-not-disrupt annotation is "true", or is a duration since the pod's start that has not elapsed. Any
    other value counts as absent.
    """
    said = annotation(pod, DO_NOT_DISRUPT)
    if not said or said == "true":
        return bool(said)
    lasts = parse_duration(said)
    if not lasts:
        return False
    started = parse_time((pod.get("status") or {}).get("startTime"))
    return started is None or now < started + lasts


def size(pod: Object) -> tuple[int, int]:
    """Sort key by cpu, then memory, as Karpenter compares pods."""
    asked = pod_requests(pod)
    return asked.get(CPU, 0), asked.get(MEMORY, 0)


def largest_first(pods: Iterable[Object]) -> list[Object]:
    return sorted(pods, key=size, reverse=True)
