"""LimitRange enforcement on pods and claims: defaults and violations (upstream's LimitRanger). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shoal.kinds.core.pod.resource_totals import (
    ResourceList,
    all_containers,
    container_resources,
    non_null_items,
    parse_resource_list,
    pod_limits,
    pod_requests,
)
from shoal.objects.quantity import Quantity

Object = dict[str, Any]
LimitCheck = Callable[[str, str, Quantity, ResourceList, ResourceList], str]
"""(type, resource, bound, requests, limits) -> error, or empty."""

LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"


def apply_limit_range_defaults(pod: Object, limit_range: Object) -> None:
    """Sets missing requests and limits of containers, and lists them in an annotation as upstream does."""
    requests: Object = {}
    limits: Object = {}
    for item in _items(limit_range, "Container"):
        requests |= item.get("defaultRequest") or {}
        limits |= item.get("default") or {}
    messages = []
    spec = pod.get("spec") or {}
    for field, title in (("containers", "container"), ("initContainers", "init container")):
        for container in non_null_items(spec, field):
            name = container.get("name", "")
            for holder, defaults, label in (("requests", requests, "request"), ("limits", limits, "limit")):
                defaulted = _default_resources(container, holder, defaults)
                if defaulted:
                    messages.append(f"{', '.join(defaulted)} {label} for {title} {name}")
    if messages:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {
            **annotations,
            LIMIT_RANGER_ANNOTATION: "LimitRanger plugin set: " + "; ".join(messages),
        }


def pod_limit_errors(pod: Object, limit_range: Object) -> list[str]:
    spec = pod.get("spec") or {}
    errors: list[str] = []
    for item in _items(limit_range, "Container"):
        for container in all_containers(spec):
            errors += _bound_errors(
                item, container_resources(container, "requests"), container_resources(container, "limits")
            )
    for item in _items(limit_range, "Pod"):
        errors += _bound_errors(item, pod_requests(spec, with_overhead=False), pod_limits(spec, with_overhead=False))
    return errors


def claim_limit_errors(claim: Object, limit_range: Object) -> list[str]:
    """Checks the requests of a PersistentVolumeClaim. Its limits do not count."""
    requests = parse_resource_list(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    errors: list[str] = []
    for item in _items(limit_range, "PersistentVolumeClaim"):
        errors += _check_bounds(item, "min", _check_minimum, requests, {})
        errors += _check_bounds(item, "max", _check_maximum_request, requests, {})
    return errors


def aggregate_errors(errors: Iterable[str]) -> str:
    """Joins errors to one message, without duplicates."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]" if unique else ""


def _items(limit_range: Object, kind: str) -> Iterator[Object]:
    for item in non_null_items(limit_range.get("spec") or {}, "limits"):
        if item.get("type") == kind:
            yield item


def _default_resources(container: Object, field: str, defaults: Object) -> list[str]:
    holder = container.get("resources") or {}
    resources = holder.get(field) or {}
    added = sorted(name for name in defaults if name not in resources)
    if added:
        container["resources"] = {**holder, field: {**resources, **{name: defaults[name] for name in added}}}
    return added


def _bound_errors(item: Object, requests: ResourceList, limits: ResourceList) -> list[str]:
    return [
        *_check_bounds(item, "min", _check_minimum, requests, limits),
        *_check_bounds(item, "max", _check_maximum, requests, limits),
        *_check_bounds(item, "maxLimitRequestRatio", _check_ratio, requests, limits),
    ]


def _check_bounds(
    item: Object, field: str, check: LimitCheck, requests: ResourceList, limits: ResourceList
) -> list[str]:
    bounds = parse_resource_list(item.get(field))
    errors = [check(item["type"], name, bounds[name], requests, limits) for name in sorted(bounds)]
    return [problem for problem in errors if problem]


def _check_minimum(kind: str, name: str, minimum: Quantity, requests: ResourceList, limits: ResourceList) -> str:
    rule = f"minimum {name} usage per {kind} is {minimum}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{rule}.  No request is specified"
    if request < minimum:
        return f"{rule}, but request is {request}"
    return f"{rule}, but limit is {limit}" if limit is not None and limit < minimum else ""


def _check_maximum(kind: str, name: str, maximum: Quantity, requests: ResourceList, limits: ResourceList) -> str:
    rule = f"maximum {name} usage per {kind} is {maximum}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{rule}.  No limit is specified"
    if limit > maximum:
        return f"{rule}, but limit is {limit}"
    return f"{rule}, but request is {request}" if request is not None and request > maximum else ""


def _check_maximum_request(
    kind: str, name: str, maximum: Quantity, requests: ResourceList, limits: ResourceList
) -> str:
    rule, request = f"maximum {name} usage per {kind} is {maximum}", requests.get(name)
    if request is None:
        return f"{rule}.  No request is specified"
    return f"{rule}, but request is {request}" if request > maximum else ""


def _check_ratio(kind: str, name: str, max_ratio: Quantity, requests: ResourceList, limits: ResourceList) -> str:
    rule = f"{name} max limit to request ratio per {kind} is {max_ratio}"
    request, limit = requests.get(name), limits.get(name)
    if not request:
        return f"{rule}, but no request is specified or request is 0"
    if not limit:
        return f"{rule}, but no limit is specified or limit is 0"
    ratio = limit.nano / request.nano
    return f"{rule}, but provided ratio is {ratio:f}" if ratio * 1000 > max_ratio.milli_value() else ""
