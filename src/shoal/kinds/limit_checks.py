"""LimitRange enforcement on pods and claims: defaults and violations (upstream's LimitRanger). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shoal.kinds.pod_totals import Amounts, amounts, containers, listed, pod_limits, pod_requests, required
from shoal.objects.quantity import Quantity

Object = dict[str, Any]
Check = Callable[[str, str, Quantity, Amounts, Amounts], str]
"""(type, resource, bound, requests, limits) -> error, or empty."""

ANNOTATION = "kubernetes.io/limit-ranger"


def set_defaults(pod: Object, limit_range: Object) -> None:
    """Sets missing requests and limits of containers, and lists them in an annotation as upstream does."""
    requests: Object = {}
    limits: Object = {}
    for item in _items(limit_range, "Container"):
        requests |= item.get("defaultRequest") or {}
        limits |= item.get("default") or {}
    told = []
    spec = pod.get("spec") or {}
    for field, title in (("containers", "container"), ("initContainers", "init container")):
        for container in listed(spec, field):
            name = container.get("name", "")
            for holder, defaults, what in (("requests", requests, "request"), ("limits", limits, "limit")):
                added = _fill(container, holder, defaults)
                if added:
                    told.append(f"{', '.join(added)} {what} for {title} {name}")
    if told:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: "LimitRanger plugin set: " + "; ".join(told)}


def pod_problems(pod: Object, limit_range: Object) -> list[str]:
    spec = pod.get("spec") or {}
    problems: list[str] = []
    for item in _items(limit_range, "Container"):
        for container in containers(spec):
            problems += _held(item, required(container, "requests"), required(container, "limits"))
    for item in _items(limit_range, "Pod"):
        problems += _held(item, pod_requests(spec, overhead=False), pod_limits(spec, overhead=False))
    return problems


def claim_problems(claim: Object, limit_range: Object) -> list[str]:
    """Checks the requests of a PersistentVolumeClaim. Its limits do not count."""
    requests = amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    problems: list[str] = []
    for item in _items(limit_range, "PersistentVolumeClaim"):
        problems += _each(item, "min", _minimum, requests, {})
        problems += _each(item, "max", _maximum_request, requests, {})
    return problems


def together(problems: Iterable[str]) -> str:
    """Joins errors to one message, without duplicates."""
    found = list(dict.fromkeys(problems))
    return found[0] if len(found) == 1 else "[" + ", ".join(found) + "]" if found else ""


def _items(limit_range: Object, kind: str) -> Iterator[Object]:
    for item in listed(limit_range.get("spec") or {}, "limits"):
        if item.get("type") == kind:
            yield item


def _fill(container: Object, field: str, defaults: Object) -> list[str]:
    holder = container.get("resources") or {}
    given = holder.get(field) or {}
    added = sorted(name for name in defaults if name not in given)
    if added:
        container["resources"] = {**holder, field: {**given, **{name: defaults[name] for name in added}}}
    return added


def _held(item: Object, requests: Amounts, limits: Amounts) -> list[str]:
    return [
        *_each(item, "min", _minimum, requests, limits),
        *_each(item, "max", _maximum, requests, limits),
        *_each(item, "maxLimitRequestRatio", _ratio, requests, limits),
    ]


def _each(item: Object, field: str, check: Check, requests: Amounts, limits: Amounts) -> list[str]:
    bounds = amounts(item.get(field))
    found = [check(item["type"], name, bounds[name], requests, limits) for name in sorted(bounds)]
    return [problem for problem in found if problem]


def _minimum(kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts) -> str:
    said = f"minimum {name} usage per {kind} is {least}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{said}.  No request is specified"
    if request < least:
        return f"{said}, but request is {request}"
    return f"{said}, but limit is {limit}" if limit is not None and limit < least else ""


def _maximum(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> str:
    said = f"maximum {name} usage per {kind} is {most}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{said}.  No limit is specified"
    if limit > most:
        return f"{said}, but limit is {limit}"
    return f"{said}, but request is {request}" if request is not None and request > most else ""


def _maximum_request(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> str:
    said, request = f"maximum {name} usage per {kind} is {most}", requests.get(name)
    if request is None:
        return f"{said}.  No request is specified"
    return f"{said}, but request is {request}" if request > most else ""


def _ratio(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> str:
    said = f"{name} max limit to request ratio per {kind} is {most}"
    request, limit = requests.get(name), limits.get(name)
    if not request:
        return f"{said}, but no request is specified or request is 0"
    if not limit:
        return f"{said}, but no limit is specified or limit is 0"
    ratio = limit.nano / request.nano
    return f"{said}, but provided ratio is {ratio:f}" if ratio * 1000 > most.milli() else ""
