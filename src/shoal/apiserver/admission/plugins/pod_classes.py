"""Applies the classes a new pod names: priority from its PriorityClass, overhead and scheduling from its RuntimeClass.
An unknown class rejects the pod.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.core.pod.resource_totals import parse_resource_list

Object = dict[str, Any]

PRIORITY_CLASSES = ("scheduling.k8s.io", "priorityclasses")
RUNTIME_CLASSES = ("node.k8s.io", "runtimeclasses")
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    spec = new.get("spec")
    if not isinstance(spec, dict) or ctx.info.subresource:
        return
    if old is not None:
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and field in old["spec"]:
                spec[field] = old["spec"][field]
        return
    _set_priority(server, ctx, new, spec)
    _set_runtime_class(server, ctx, new, spec)


def _set_priority(server: ServerComponents, ctx: RequestContext, new: Object, spec: Object) -> None:
    name = spec.get("priorityClassName")
    entry = _get_class(server, ctx, PRIORITY_CLASSES, name) if name else _default_priority_class(server, ctx)
    if name and entry is None:
        raise ctx.resource.forbidden(new, f"no PriorityClass with name {name} was found")
    priority_class: Object = entry.object() if entry is not None else {}
    priority, policy = (
        priority_class.get("value") or 0,
        priority_class.get("preemptionPolicy") or PREEMPT_LOWER_PRIORITY,
    )
    if spec.get("priority") not in (None, priority):
        raise ctx.resource.forbidden(
            new,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy") not in (None, policy):
        raise ctx.resource.forbidden(
            new,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    if entry is not None:
        spec["priorityClassName"] = entry.name
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _default_priority_class(server: ServerComponents, ctx: RequestContext) -> CachedObject | None:
    """The default PriorityClass; the one with the lowest value if there are several."""
    table = server.cache.resource_cache(*PRIORITY_CLASSES).tables.get(ctx.info.cluster)
    defaults = [each for each in table.entries.values() if b'"globalDefault":true' in each.data] if table else []
    return min(defaults, key=lambda each: each.object()["value"], default=None)


def _set_runtime_class(server: ServerComponents, ctx: RequestContext, new: Object, spec: Object) -> None:
    name, pod_overhead = spec.get("runtimeClassName"), spec.get("overhead") or {}
    entry = _get_class(server, ctx, RUNTIME_CLASSES, name) if name else None
    if name and entry is None:
        raise ctx.resource.forbidden(new, f'pod rejected: RuntimeClass "{name}" not found')
    runtime: Object = entry.object() if entry is not None else {}
    overhead = (runtime.get("overhead") or {}).get("podFixed") or {}
    if pod_overhead and overhead and parse_resource_list(pod_overhead) != parse_resource_list(overhead):
        raise ctx.resource.forbidden(new, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = overhead
    _set_scheduling(ctx, new, spec, runtime.get("scheduling") or {})


def check_overhead(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Checks the overhead of a new, valid pod against its RuntimeClass."""
    spec = new["spec"]
    if not spec.get("overhead"):
        return
    name = spec.get("runtimeClassName")
    entry = _get_class(server, ctx, RUNTIME_CLASSES, name) if name else None
    if entry is None or not (entry.object().get("overhead") or {}).get("podFixed"):
        reason = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise ctx.resource.forbidden(new, reason)


def _set_scheduling(ctx: RequestContext, new: Object, spec: Object, scheduling: Object) -> None:
    own = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if own.get(key, value) != value:
            raise ctx.resource.forbidden(
                new,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}",
            )
        spec["nodeSelector"] = own = {**own, key: value}
    more = [each for each in scheduling.get("tolerations") or () if each not in (spec.get("tolerations") or ())]
    if more:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *more]


def _get_class(
    server: ServerComponents, ctx: RequestContext, resource: tuple[str, str], name: str
) -> CachedObject | None:
    return server.cache.resource_cache(*resource).get(ctx.info.cluster, "", name)
