"""ResourceQuota usage of objects, and whether one more fits. Pure arithmetic for admission and the quota controller.

Usage is always computed from the existing objects; a quota's status only reports it. `measure` computes the usage of
one object, `parse_quota` reads a quota, and the rest are sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from shoal.kinds.pod_totals import Amounts, amounts, containers, listed, pod_limits, pod_requests, required
from shoal.objects.quantity import DECIMAL_SI, NANO, Quantity

Object = dict[str, Any]

ONE = Quantity.of(1)
ALIASES = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
"""Core resources that a quota may also name without `count/`."""
UNCOUNTED = (("", "events"), ("events.k8s.io", "events"))
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    ("count/pods", "pods", *_COMPUTE, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE))
)
_MUST_SAY = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""A pod under a quota of one of these must specify it: an old rule that clients rely on."""
_SERVICE_NAMES = frozenset(("count/services", "services", "services.nodeports", "services.loadbalancers"))
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
_OF_CLASS = ".storageclass.storage.k8s.io/"
_PRIORITY, _ATTRIBUTES = "PriorityClass", "VolumeAttributesClass"
_CLASS_SCOPES = (_PRIORITY, _ATTRIBUTES)


class Charge(NamedTuple):
    """The quota usage of one object."""

    amounts: Amounts
    scopes: frozenset[str] = frozenset()
    class_scope: str = ""
    """The scope that selects by the classes below."""
    classes: frozenset[str] = frozenset()
    until: float = math.inf
    """After this time only the count is used: a pod being deleted should be gone by then."""

    def at(self, now: float) -> Amounts:
        return self.amounts if now <= self.until else {"count/pods": ONE}


class Selector(NamedTuple):
    scope: str
    operator: str
    values: tuple[str, ...]


class Quota(NamedTuple):
    name: str
    hard: Amounts
    selectors: tuple[Selector, ...]

    def covers(self, charge: Charge) -> bool:
        return all(_matches(selector, charge) for selector in self.selectors)


def read_quota(obj: Object) -> Quota:
    spec = obj.get("spec") or {}
    selectors = [Selector(scope, "Exists", ()) for scope in spec.get("scopes") or ()]
    for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        found = Selector(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ()))
        selectors.append(found)
    return Quota(obj["metadata"]["name"], amounts(spec.get("hard")), tuple(selectors))


def tracked(group: str, plural: str, names: Iterable[str]) -> list[str]:
    """Returns the quota's resource names that objects of this resource use."""
    if (group, plural) == ("", "pods"):
        return [name for name in names if name in _POD_NAMES or _is_extended(name)]
    if (group, plural) == ("", "services"):
        return [name for name in names if name in _SERVICE_NAMES]
    if (group, plural) == ("", "persistentvolumeclaims"):
        return [name for name in names if _is_claim(name)]
    own = _counted(group, plural)
    return [name for name in names if name in own]


def kinds_of(names: Iterable[str]) -> set[tuple[str, str]]:
    """Returns group and plural of every resource a quota with these names tracks."""
    found: set[tuple[str, str]] = set()
    for name in names:
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            found.add((group, plural))
        elif name in _POD_NAMES or _is_extended(name):
            found.add(("", "pods"))
        elif name in _SERVICE_NAMES:
            found.add(("", "services"))
        elif _is_claim(name):
            found.add(("", "persistentvolumeclaims"))
        elif name in ALIASES:
            found.add(("", name))
    return found


def charge(group: str, plural: str, obj: Object) -> Charge:
    if (group, plural) == ("", "pods"):
        return _charge_pod(obj)
    if (group, plural) == ("", "services"):
        return Charge(_service(obj.get("spec") or {}))
    if (group, plural) == ("", "persistentvolumeclaims"):
        classes = _attributes_classes(obj)
        scopes = frozenset({_ATTRIBUTES} if classes else ())
        return Charge(_claim(obj), scopes, _ATTRIBUTES, classes)
    return Charge(dict.fromkeys(_counted(group, plural), ONE))


def changes_charge(group: str, plural: str, subresource: str, new: Object, old: Object | None) -> bool:
    """Reports whether a write can change the usage of the object."""
    if (group, plural) in UNCOUNTED:
        return False
    if old is None:
        return not subresource
    if (group, plural) == ("", "pods"):
        return subresource == "resize" or (not subresource and _has_deadline(new) != _has_deadline(old))
    return not subresource and group == "" and plural in ("services", "persistentvolumeclaims")


def total(charges: Iterable[Charge], names: list[str], now: float) -> Amounts:
    """Sums the usage of the objects, for each of the names."""
    nanos, formats = dict.fromkeys(names, 0), dict.fromkeys(names, "")
    for one in charges:
        taken = one.at(now)
        for name in names:
            amount = taken.get(name)
            if amount is not None and amount.nano:
                nanos[name] += amount.nano
                formats[name] = formats[name] or amount.format
    return {name: Quantity(nano, formats[name] or DECIMAL_SI) for name, nano in nanos.items()}


def increase(new: Amounts, old: Amounts | None, names: list[str]) -> Amounts:
    """Returns what the write adds, for the names it adds to."""
    found: Amounts = {}
    for name in names:
        more = new.get(name)
        if more is not None and old is not None and name in old:
            more = more - old[name]
        if more is not None and more.nano > 0:
            found[name] = more
    return found


def unspecified(pod: Object, names: Iterable[str]) -> str:
    """Returns which required resources the pod's containers do not specify; empty: none."""
    spec = pod.get("spec") or {}
    if any((spec.get("resources") or {}).get(field) for field in ("requests", "limits")):
        return ""
    wanted = _MUST_SAY.intersection(names)
    missing: dict[str, set[str]] = {}
    for container in containers(spec):
        said = _compute(required(container, "requests"), required(container, "limits"))
        for name in wanted - said.keys():
            missing.setdefault(name, set()).add(str(container.get("name", "")))
    lines = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return "must specify " + "; ".join(lines) if lines else ""


def shown(taken: Amounts) -> str:
    return ",".join(f"{name}={taken[name]}" for name in sorted(taken))


def exceeded(quota: Quota, requested: Amounts, used: Amounts) -> str:
    """Returns upstream's message for the exceeded limits; empty: the write fits."""
    over = [name for name, more in requested.items() if used[name].nano + more.nano > quota.hard[name].nano]
    if not over:
        return ""
    parts = [shown({name: one[name] for name in over}) for one in (requested, used, quota.hard)]
    return f"exceeded quota: {quota.name}, requested: {parts[0]}, used: {parts[1]}, limited: {parts[2]}"


def _counted(group: str, plural: str) -> tuple[str, ...]:
    name = f"count/{plural}.{group}" if group else f"count/{plural}"
    return (name, plural) if not group and plural in ALIASES else (name,)


def _is_extended(name: str) -> bool:
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def _is_claim(name: str) -> bool:
    if name == "count/persistentvolumeclaims" or name in _CLAIM_NAMES:
        return True
    return name.endswith(tuple(_OF_CLASS + each for each in _CLAIM_NAMES))


def _matches(selector: Selector, charge: Charge) -> bool:
    if selector.scope not in _CLASS_SCOPES or selector.operator == "Exists":
        return selector.scope in charge.scopes
    if selector.scope != charge.class_scope:
        return False
    if selector.operator == "In":
        return not charge.classes.isdisjoint(selector.values)
    if selector.operator == "NotIn":
        return not charge.classes or not charge.classes.issubset(selector.values)
    return selector.operator == "DoesNotExist" and not charge.classes


def _charge_pod(pod: Object) -> Charge:
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    scopes = {"Terminating" if _has_deadline(pod) else "NotTerminating"}
    scopes.add("BestEffort" if _is_best_effort(pod) else "NotBestEffort")
    classes = frozenset(filter(None, (spec.get("priorityClassName"),)))
    if classes:
        scopes.add(_PRIORITY)
    if _reaches_other_namespaces(spec.get("affinity") or {}):
        scopes.add("CrossNamespacePodAffinity")
    taken: Amounts = {"count/pods": ONE}
    until = math.inf
    if status.get("phase") not in ("Failed", "Succeeded"):
        taken |= {"pods": ONE, **_compute(pod_requests(spec), pod_limits(spec))}
        grace = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and grace is not None:
            until = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp() + grace
    return Charge(taken, frozenset(scopes), _PRIORITY, classes, until)


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    found: Amounts = {}
    for name, value in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] = found[f"requests.{name}"] = value
        elif "/" in name and "kubernetes.io/" not in name:
            found[f"requests.{name}"] = value
    found.update({f"limits.{name}": limits[name] for name in _COMPUTE if name in limits})
    return found


def _has_deadline(pod: Object) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _is_best_effort(pod: Object) -> bool:
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return bool(known == "BestEffort")
    spec = pod.get("spec") or {}
    holders = [spec] if spec.get("resources") else list(containers(spec))
    asked = [required(one, field) for one in holders for field in ("requests", "limits")]
    return not any(value.nano > 0 for each in asked for name, value in each.items() if name in ("cpu", "memory"))


def _reaches_other_namespaces(affinity: Object) -> bool:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        terms = list(listed(rules, "requiredDuringSchedulingIgnoredDuringExecution"))
        preferred = listed(rules, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _service(spec: Object) -> Amounts:
    ports, kind = list(listed(spec, "ports")), spec.get("type")
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": ONE,
        "services": ONE,
        "services.nodeports": Quantity.of(node_ports),
        "services.loadbalancers": Quantity.of(int(kind == "LoadBalancer")),
    }


def _attributes_classes(claim: Object) -> frozenset[str]:
    """Returns the desired, the current and the target VolumeAttributesClass."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target)
    return frozenset(filter(None, names))


def _claim(claim: Object) -> Amounts:
    spec, metadata = claim.get("spec") or {}, claim["metadata"]
    taken: Amounts = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
    storage = amounts((spec.get("resources") or {}).get("requests")).get("storage")
    if storage is not None:
        allocated = amounts((claim.get("status") or {}).get("allocatedResources")).get("storage")
        larger = allocated if allocated is not None and allocated > storage else storage
        taken["requests.storage"] = larger if larger.nano % NANO == 0 else Quantity.of(larger.value(), larger.format)
    annotations = metadata.get("annotations") or {}
    of_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if of_class:
        for name in _CLAIM_NAMES:
            if name in taken:
                taken[f"{of_class}{_OF_CLASS}{name}"] = taken[name]
    return taken
