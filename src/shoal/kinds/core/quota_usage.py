"""ResourceQuota usage of objects, and whether one more fits. Pure arithmetic for admission and the quota controller.

Usage is always computed from the existing objects; a quota's status only reports it. `measure` computes the usage of
one object, `parse_quota` reads a quota, and the rest are sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from shoal.kinds.core.pod.resource_totals import (
    ResourceList,
    all_containers,
    container_resources,
    non_null_items,
    parse_resource_list,
    pod_limits,
    pod_requests,
)
from shoal.objects.quantity import DECIMAL_SI, NANO, Quantity

Object = dict[str, Any]

ONE = Quantity.from_int(1)
LEGACY_COUNT_NAMES = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
"""Core resources that a quota may also name without `count/`."""
UNTRACKED_RESOURCES = (("", "events"), ("events.k8s.io", "events"))
_COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    (
        "count/pods",
        "pods",
        *_COMPUTE_RESOURCES,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE_RESOURCES),
    )
)
_REQUIRED_IN_PODS = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""A pod under a quota of one of these must specify it: an old rule that clients rely on."""
_SERVICE_NAMES = frozenset(("count/services", "services", "services.nodeports", "services.loadbalancers"))
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
_STORAGE_CLASS_INFIX = ".storageclass.storage.k8s.io/"
_PRIORITY_CLASS_SCOPE, _ATTRIBUTES_CLASS_SCOPE = "PriorityClass", "VolumeAttributesClass"
_CLASS_SCOPES = (_PRIORITY_CLASS_SCOPE, _ATTRIBUTES_CLASS_SCOPE)


class ObjectUsage(NamedTuple):
    """The quota usage of one object."""

    amounts: ResourceList
    scopes: frozenset[str] = frozenset()
    class_scope: str = ""
    """The scope that selects by the classes below."""
    classes: frozenset[str] = frozenset()
    compute_until: float = math.inf
    """After this time only the count is used: a pod being deleted should be gone by then."""

    def usage_at(self, now: float) -> ResourceList:
        return self.amounts if now <= self.compute_until else {"count/pods": ONE}


class ScopeSelector(NamedTuple):
    scope: str
    operator: str
    values: tuple[str, ...]


class QuotaSpec(NamedTuple):
    name: str
    hard: ResourceList
    selectors: tuple[ScopeSelector, ...]

    def matches(self, usage: ObjectUsage) -> bool:
        return all(_selector_matches(selector, usage) for selector in self.selectors)


def parse_quota(obj: Object) -> QuotaSpec:
    spec = obj.get("spec") or {}
    selectors = [ScopeSelector(scope, "Exists", ()) for scope in spec.get("scopes") or ()]
    for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        selector = ScopeSelector(
            expression.get("scopeName", ""), expression.get("operator", ""), tuple(expression.get("values") or ())
        )
        selectors.append(selector)
    return QuotaSpec(obj["metadata"]["name"], parse_resource_list(spec.get("hard")), tuple(selectors))


def matching_resource_names(group: str, plural: str, names: Iterable[str]) -> list[str]:
    """Returns the quota's resource names that objects of this resource use."""
    if (group, plural) == ("", "pods"):
        return [name for name in names if name in _POD_NAMES or _is_extended_name(name)]
    if (group, plural) == ("", "services"):
        return [name for name in names if name in _SERVICE_NAMES]
    if (group, plural) == ("", "persistentvolumeclaims"):
        return [name for name in names if _is_claim_name(name)]
    count_names = _count_names(group, plural)
    return [name for name in names if name in count_names]


def tracked_resources(names: Iterable[str]) -> set[tuple[str, str]]:
    """Returns group and plural of every resource a quota with these names tracks."""
    resources: set[tuple[str, str]] = set()
    for name in names:
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            resources.add((group, plural))
        elif name in _POD_NAMES or _is_extended_name(name):
            resources.add(("", "pods"))
        elif name in _SERVICE_NAMES:
            resources.add(("", "services"))
        elif _is_claim_name(name):
            resources.add(("", "persistentvolumeclaims"))
        elif name in LEGACY_COUNT_NAMES:
            resources.add(("", name))
    return resources


def measure(group: str, plural: str, obj: Object) -> ObjectUsage:
    if (group, plural) == ("", "pods"):
        return _measure_pod(obj)
    if (group, plural) == ("", "services"):
        return ObjectUsage(_service_usage(obj.get("spec") or {}))
    if (group, plural) == ("", "persistentvolumeclaims"):
        classes = _attributes_classes(obj)
        scopes = frozenset({_ATTRIBUTES_CLASS_SCOPE} if classes else ())
        return ObjectUsage(_claim_usage(obj), scopes, _ATTRIBUTES_CLASS_SCOPE, classes)
    return ObjectUsage(dict.fromkeys(_count_names(group, plural), ONE))


def changes_usage(group: str, plural: str, subresource: str, new: Object, old: Object | None) -> bool:
    """Reports whether a write can change the usage of the object."""
    if (group, plural) in UNTRACKED_RESOURCES:
        return False
    if old is None:
        return not subresource
    if (group, plural) == ("", "pods"):
        return subresource == "resize" or (not subresource and _has_deadline(new) != _has_deadline(old))
    return not subresource and group == "" and plural in ("services", "persistentvolumeclaims")


def total_usage(usages: Iterable[ObjectUsage], names: list[str], now: float) -> ResourceList:
    """Sums the usage of the objects, for each of the names."""
    nanos, formats = dict.fromkeys(names, 0), dict.fromkeys(names, "")
    for usage in usages:
        used = usage.usage_at(now)
        for name in names:
            amount = used.get(name)
            if amount is not None and amount.nano:
                nanos[name] += amount.nano
                formats[name] = formats[name] or amount.format
    return {name: Quantity(nano, formats[name] or DECIMAL_SI) for name, nano in nanos.items()}


def usage_increase(new: ResourceList, old: ResourceList | None, names: list[str]) -> ResourceList:
    """Returns what the write adds, for the names it adds to."""
    added: ResourceList = {}
    for name in names:
        more = new.get(name)
        if more is not None and old is not None and name in old:
            more = more - old[name]
        if more is not None and more.nano > 0:
            added[name] = more
    return added


def missing_requests_error(pod: Object, names: Iterable[str]) -> str:
    """Returns which required resources the pod's containers do not specify; empty: none."""
    spec = pod.get("spec") or {}
    if any((spec.get("resources") or {}).get(field) for field in ("requests", "limits")):
        return ""
    required_names = _REQUIRED_IN_PODS.intersection(names)
    missing: dict[str, set[str]] = {}
    for container in all_containers(spec):
        specified = _compute_usage(container_resources(container, "requests"), container_resources(container, "limits"))
        for name in required_names - specified.keys():
            missing.setdefault(name, set()).add(str(container.get("name", "")))
    lines = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return "must specify " + "; ".join(lines) if lines else ""


def format_usage(usage: ResourceList) -> str:
    return ",".join(f"{name}={usage[name]}" for name in sorted(usage))


def exceeded_quota_error(quota: QuotaSpec, requested: ResourceList, used: ResourceList) -> str:
    """Returns upstream's message for the exceeded limits; empty: the write fits."""
    exceeded_names = [name for name, more in requested.items() if used[name].nano + more.nano > quota.hard[name].nano]
    if not exceeded_names:
        return ""
    parts = [format_usage({name: one[name] for name in exceeded_names}) for one in (requested, used, quota.hard)]
    return f"exceeded quota: {quota.name}, requested: {parts[0]}, used: {parts[1]}, limited: {parts[2]}"


def _count_names(group: str, plural: str) -> tuple[str, ...]:
    name = f"count/{plural}.{group}" if group else f"count/{plural}"
    return (name, plural) if not group and plural in LEGACY_COUNT_NAMES else (name,)


def _is_extended_name(name: str) -> bool:
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def _is_claim_name(name: str) -> bool:
    if name == "count/persistentvolumeclaims" or name in _CLAIM_NAMES:
        return True
    return name.endswith(tuple(_STORAGE_CLASS_INFIX + each for each in _CLAIM_NAMES))


def _selector_matches(selector: ScopeSelector, usage: ObjectUsage) -> bool:
    if selector.scope not in _CLASS_SCOPES or selector.operator == "Exists":
        return selector.scope in usage.scopes
    if selector.scope != usage.class_scope:
        return False
    if selector.operator == "In":
        return not usage.classes.isdisjoint(selector.values)
    if selector.operator == "NotIn":
        return not usage.classes or not usage.classes.issubset(selector.values)
    return selector.operator == "DoesNotExist" and not usage.classes


def _measure_pod(pod: Object) -> ObjectUsage:
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    scopes = {"Terminating" if _has_deadline(pod) else "NotTerminating"}
    scopes.add("BestEffort" if _is_best_effort(pod) else "NotBestEffort")
    classes = frozenset(filter(None, (spec.get("priorityClassName"),)))
    if classes:
        scopes.add(_PRIORITY_CLASS_SCOPE)
    if _reaches_other_namespaces(spec.get("affinity") or {}):
        scopes.add("CrossNamespacePodAffinity")
    used: ResourceList = {"count/pods": ONE}
    until = math.inf
    if status.get("phase") not in ("Failed", "Succeeded"):
        used |= {"pods": ONE, **_compute_usage(pod_requests(spec), pod_limits(spec))}
        grace = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and grace is not None:
            until = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp() + grace
    return ObjectUsage(used, frozenset(scopes), _PRIORITY_CLASS_SCOPE, classes, until)


def _compute_usage(requests: ResourceList, limits: ResourceList) -> ResourceList:
    usage: ResourceList = {}
    for name, value in requests.items():
        if name in _COMPUTE_RESOURCES or name.startswith("hugepages-"):
            usage[name] = usage[f"requests.{name}"] = value
        elif "/" in name and "kubernetes.io/" not in name:
            usage[f"requests.{name}"] = value
    usage.update({f"limits.{name}": limits[name] for name in _COMPUTE_RESOURCES if name in limits})
    return usage


def _has_deadline(pod: Object) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _is_best_effort(pod: Object) -> bool:
    qos_class = (pod.get("status") or {}).get("qosClass")
    if qos_class:
        return bool(qos_class == "BestEffort")
    spec = pod.get("spec") or {}
    holders = [spec] if spec.get("resources") else list(all_containers(spec))
    resource_lists = [container_resources(one, field) for one in holders for field in ("requests", "limits")]
    return not any(
        value.nano > 0 for each in resource_lists for name, value in each.items() if name in ("cpu", "memory")
    )


def _reaches_other_namespaces(affinity: Object) -> bool:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        terms = list(non_null_items(rules, "requiredDuringSchedulingIgnoredDuringExecution"))
        preferred = non_null_items(rules, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _service_usage(spec: Object) -> ResourceList:
    ports, kind = list(non_null_items(spec, "ports")), spec.get("type")
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": ONE,
        "services": ONE,
        "services.nodeports": Quantity.from_int(node_ports),
        "services.loadbalancers": Quantity.from_int(int(kind == "LoadBalancer")),
    }


def _attributes_classes(claim: Object) -> frozenset[str]:
    """Returns the desired, the current and the target VolumeAttributesClass."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target)
    return frozenset(filter(None, names))


def _claim_usage(claim: Object) -> ResourceList:
    spec, metadata = claim.get("spec") or {}, claim["metadata"]
    used: ResourceList = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
    storage = parse_resource_list((spec.get("resources") or {}).get("requests")).get("storage")
    if storage is not None:
        allocated = parse_resource_list((claim.get("status") or {}).get("allocatedResources")).get("storage")
        larger = allocated if allocated is not None and allocated > storage else storage
        used["requests.storage"] = (
            larger if larger.nano % NANO == 0 else Quantity.from_int(larger.value(), larger.format)
        )
    annotations = metadata.get("annotations") or {}
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if storage_class:
        for name in _CLAIM_NAMES:
            if name in used:
                used[f"{storage_class}{_STORAGE_CLASS_INFIX}{name}"] = used[name]
    return used
