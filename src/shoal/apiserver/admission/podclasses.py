"""Applies the classes a new pod names: priority from its PriorityClass, overhead and scheduling from its RuntimeClass.
An unknown class rejects the pod.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache import Entry
from shoal.apiserver.core import Call, Core
from shoal.kinds.pod_totals import amounts

Object = dict[str, Any]

PRIORITIES = ("scheduling.k8s.io", "priorityclasses")
RUNTIMES = ("node.k8s.io", "runtimeclasses")
PREEMPTS = "PreemptLowerPriority"


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    spec = new.get("spec")
    if not isinstance(spec, dict) or call.target.subresource:
        return
    if old is not None:
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and field in old["spec"]:
                spec[field] = old["spec"][field]
        return
    _set_priority(core, call, new, spec)
    _set_runtime(core, call, new, spec)


def _set_priority(core: Core, call: Call, new: Object, spec: Object) -> None:
    name = spec.get("priorityClassName")
    found = _class(core, call, PRIORITIES, name) if name else _default(core, call)
    if name and found is None:
        raise call.resource.forbidden(new, f"no PriorityClass with name {name} was found")
    chosen: Object = found.object() if found is not None else {}
    priority, policy = chosen.get("value") or 0, chosen.get("preemptionPolicy") or PREEMPTS
    if spec.get("priority") not in (None, priority):
        raise call.resource.forbidden(
            new,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy") not in (None, policy):
        raise call.resource.forbidden(
            new,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    if found is not None:
        spec["priorityClassName"] = found.name
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _default(core: Core, call: Call) -> Entry | None:
    """The default PriorityClass; the one with the lowest value if there are several."""
    table = core.cache.kind(*PRIORITIES).tables.get(call.target.cluster)
    found = [each for each in table.entries.values() if b'"globalDefault":true' in each.data] if table else []
    return min(found, key=lambda each: each.object()["value"], default=None)


def _set_runtime(core: Core, call: Call, new: Object, spec: Object) -> None:
    name, given = spec.get("runtimeClassName"), spec.get("overhead") or {}
    found = _class(core, call, RUNTIMES, name) if name else None
    if name and found is None:
        raise call.resource.forbidden(new, f'pod rejected: RuntimeClass "{name}" not found')
    runtime: Object = found.object() if found is not None else {}
    overhead = (runtime.get("overhead") or {}).get("podFixed") or {}
    if given and overhead and amounts(given) != amounts(overhead):
        raise call.resource.forbidden(new, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = overhead
    _set_places(call, new, spec, runtime.get("scheduling") or {})


def approve(core: Core, call: Call, new: Object) -> None:
    """Checks the overhead of a new, valid pod against its RuntimeClass."""
    spec = new["spec"]
    if not spec.get("overhead"):
        return
    name = spec.get("runtimeClassName")
    found = _class(core, call, RUNTIMES, name) if name else None
    if found is None or not (found.object().get("overhead") or {}).get("podFixed"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise call.resource.forbidden(new, why)


def _set_places(call: Call, new: Object, spec: Object, scheduling: Object) -> None:
    own = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if own.get(key, value) != value:
            raise call.resource.forbidden(
                new,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}",
            )
        spec["nodeSelector"] = own = {**own, key: value}
    more = [each for each in scheduling.get("tolerations") or () if each not in (spec.get("tolerations") or ())]
    if more:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *more]


def _class(core: Core, call: Call, resource: tuple[str, str], name: str) -> Entry | None:
    return core.cache.kind(*resource).get(call.target.cluster, "", name)
