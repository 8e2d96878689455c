"""Checks of kinds outside the core group: at most one default PriorityClass, and no HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call, Core
from shoal.objects.errors import NotImplementedHere

Object = dict[str, Any]

PRIORITIES = ("scheduling.k8s.io", "priorityclasses")
AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")
NO_METRICS = (
    "HorizontalPodAutoscalers are not supported: pods on simulated nodes have no metrics to scale by; "
    "set the number of replicas (kubectl scale)"
)


def refuse_autoscaler(call: Call, old: Object | None) -> None:
    """Rejects new HorizontalPodAutoscalers: a stored one that never acts would be worse than none."""
    if old is None:
        raise NotImplementedHere(NO_METRICS, group=call.resource.group, kind=call.resource.plural)


def admit_priority(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """At most one PriorityClass is the default for pods that name none."""
    if not new.get("globalDefault") or (old is not None and old.get("globalDefault")):
        return
    name = new["metadata"].get("name") or ""
    for entry in core.cache.kind(*PRIORITIES).table(call.target.cluster).select(""):
        if entry.name != name and b'"globalDefault":true' in entry.data:
            why = f"PriorityClass {entry.name} is already marked as default. Only one default can exist"
            raise call.resource.forbidden(new, why)
