"""Checks of kinds outside the core group: one default PriorityClass, HorizontalPodAutoscalers only on hubs."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.objects.errors import NotImplementedHere

Object = dict[str, Any]

PRIORITY_CLASSES = ("scheduling.k8s.io", "priorityclasses")
HORIZONTAL_POD_AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")
NO_METRICS_MESSAGE = (
    "HorizontalPodAutoscalers are not supported: pods on simulated nodes have no metrics to scale by; "
    "set the number of replicas (kubectl scale)"
)


def refuse_autoscaler(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Rejects new HorizontalPodAutoscalers where pods run on simulated nodes: a stored one that never acts would be
    worse than none. A hub stores them for the clusters that they are placed in.
    """
    if ctx.cluster.profile == "hub":
        return
    raise NotImplementedHere(NO_METRICS_MESSAGE, group=ctx.resource.group, kind=ctx.resource.plural)


def admit_priority_class(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """At most one PriorityClass is the default for pods that name none."""
    if not new.get("globalDefault") or (old is not None and old.get("globalDefault")):
        return
    name = new["metadata"].get("name") or ""
    for entry in server.cache.resource_cache(*PRIORITY_CLASSES).table(ctx.info.cluster).select(""):
        if entry.name != name and b'"globalDefault":true' in entry.data:
            reason = f"PriorityClass {entry.name} is already marked as default. Only one default can exist"
            raise ctx.resource.forbidden(new, reason)
