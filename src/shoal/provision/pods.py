"""Predicates on pods: unschedulable, owned by the node, not to be disrupted. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from shoal.fit.resources import CPU, MEMORY, pod_requests
from shoal.kinds.karpenter.karpenter import DO_NOT_DISRUPT, annotation_of, is_deleting
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_duration, parse_time

Object = dict[str, Any]


def is_provisionable(pod: Object) -> bool:
    """True if the scheduler found no node for the pod and no preemption is about to make room."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    scheduled = get_condition(pod, "PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    if (
        not unschedulable
        or spec.get("nodeName")
        or is_deleting(pod)
        or status.get("phase") not in (None, "", "Pending")
    ):
        return False
    return not status.get("nominatedNodeName") and not is_node_owned(pod)


def is_node_owned(pod: Object) -> bool:
    """True for DaemonSet pods and static pods, which come and go with their node."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("DaemonSet", "Node") and owner.get("controller", True) for owner in owners)


def has_do_not_disrupt(pod: Object, now: float) -> bool:
    return now < do_not_disrupt_until(pod)


def do_not_disrupt_until(pod: Object) -> float:
    """End of the do-not-disrupt annotation: of a duration, that long after the start of the pod; of "true", never.
    0: it is absent, or has any other value.
    """
    value = annotation_of(pod, DO_NOT_DISRUPT)
    if value == "true":
        return math.inf
    duration = parse_duration(value) if value else None
    if not duration or duration < 0:
        return 0.0
    started = parse_time((pod.get("status") or {}).get("startTime"))
    return math.inf if started is None else started + duration


def resource_size(pod: Object) -> tuple[int, int]:
    """Sort key by cpu, then memory, as Karpenter compares pods."""
    requests = pod_requests(pod)
    return requests.get(CPU, 0), requests.get(MEMORY, 0)


def largest_first(pods: Iterable[Object]) -> list[Object]:
    return sorted(pods, key=resource_size, reverse=True)
