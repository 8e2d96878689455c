"""Which pods wait for a node, and which come and go with theirs. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter import is_going
from shoal.objects.conditions import get_condition

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
