"""Which pods wait for a node, and which come and go with theirs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.fit.resources import CPU, MEMORY, pod_requests
from shoal.kinds.karpenter import DO_NOT_DISRUPT, annotation, is_going
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_duration, parse_time

Object = dict[str, Any]


def is_provisionable(pod: Object) -> bool:
    """The scheduler found no node for it, and nobody else is about to make room."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    scheduled = get_condition(pod, "PodScheduled") or {}
    waiting = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    if not waiting or spec.get("nodeName") or is_going(pod) or status.get("phase") not in (None, "", "Pending"):
        return False
    return not status.get("nominatedNodeName") and not is_of_the_node(pod)


def is_of_the_node(pod: Object) -> bool:
    """A DaemonSet's pod or a static one: it comes with its node and goes with it."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("DaemonSet", "Node") and owner.get("controller", True) for owner in owners)


def is_not_to_be_disrupted(pod: Object, now: float) -> bool:
    """Its annotation says so: for good, or for a time since the pod started. What is neither counts as absent."""
    said = annotation(pod, DO_NOT_DISRUPT)
    if not said or said == "true":
        return bool(said)
    lasts = parse_duration(said)
    if not lasts:
        return False
    started = parse_time((pod.get("status") or {}).get("startTime"))
    return started is None or now < started + lasts


def size(pod: Object) -> tuple[int, int]:
    """By cpu, then memory, as Karpenter's rule compares pods."""
    asked = pod_requests(pod)
    return asked.get(CPU, 0), asked.get(MEMORY, 0)


def largest_first(pods: Iterable[Object]) -> list[Object]:
    return sorted(pods, key=size, reverse=True)
