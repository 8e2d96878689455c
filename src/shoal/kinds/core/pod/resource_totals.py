"""Total requests and limits of a pod: the sum of its containers, and the maximum of its init containers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.objects.quantity import Quantity

Object = dict[str, Any]
ResourceList = dict[str, Quantity]

POD_LEVEL_RESOURCES = ("cpu", "memory")
"""Resources a pod may request as a whole, overriding its containers."""


def parse_resource_list(resource_list: object) -> ResourceList:
    """Parses a resource list. Invalid quantities are left out: validation reports them."""
    quantities: ResourceList = {}
    for name, value in resource_list.items() if isinstance(resource_list, dict) else ():
        try:
            quantities[name] = Quantity.parse(value)
        except (ValueError, TypeError):
            continue
    return quantities


def pod_requests(spec: Object, *, with_overhead: bool = True) -> ResourceList:
    total = _aggregate(spec, "requests")
    if with_overhead:
        _add_to(total, parse_resource_list(spec.get("overhead")))
    return total


def pod_limits(spec: Object, *, with_overhead: bool = True) -> ResourceList:
    total = _aggregate(spec, "limits")
    if with_overhead:
        _add_to(
            total, {name: value for name, value in parse_resource_list(spec.get("overhead")).items() if total.get(name)}
        )
    return total


def all_containers(spec: Object) -> Iterable[Object]:
    """The containers and init containers."""
    yield from non_null_items(spec, "containers")
    yield from non_null_items(spec, "initContainers")


def non_null_items(holder: Object, field: str) -> Iterable[Object]:
    """Yields the objects of a list. Null entries of a client are left to validation."""
    return (item for item in holder.get(field) or () if isinstance(item, dict))


def container_resources(container: Object, field: str) -> ResourceList:
    """The requests or limits of a container."""
    return parse_resource_list((container.get("resources") or {}).get(field))


def _aggregate(spec: Object, field: str) -> ResourceList:
    total: ResourceList = {}
    for container in non_null_items(spec, "containers"):
        _add_to(total, container_resources(container, field))
    sidecars: ResourceList = {}
    highest: ResourceList = {}
    for container in non_null_items(spec, "initContainers"):
        needed = container_resources(container, field)
        if container.get("restartPolicy") == "Always":
            # A sidecar keeps running beside all containers that start after it.
            _add_to(total, needed)
            _add_to(sidecars, needed)
            needed = dict(sidecars)
        else:
            _add_to(needed, sidecars)
        for name, value in needed.items():
            if name not in highest or value > highest[name]:
                highest[name] = value
    for name, value in highest.items():
        if name not in total or value > total[name]:
            total[name] = value
    pod_level = parse_resource_list((spec.get("resources") or {}).get(field))
    total.update({name: pod_level[name] for name in POD_LEVEL_RESOURCES if name in pod_level})
    return total


def _add_to(total: ResourceList, more: ResourceList) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value
