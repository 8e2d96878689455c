"""Total requests and limits of a pod: the sum of its containers, and the maximum of its init containers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.objects.quantity import Quantity

Object = dict[str, Any]
Amounts = dict[str, Quantity]

POD_LEVEL = ("cpu", "memory")
"""Resources a pod may request as a whole, overriding its containers."""


def amounts(given: object) -> Amounts:
    """Parses a resource list. Invalid quantities are left out: validation reports them."""
    found: Amounts = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        try:
            found[name] = Quantity.parse(value)
        except (ValueError, TypeError):
            continue
    return found


def pod_requests(spec: Object, *, overhead: bool = True) -> Amounts:
    total = _total(spec, "requests")
    if overhead:
        _add(total, amounts(spec.get("overhead")))
    return total


def pod_limits(spec: Object, *, overhead: bool = True) -> Amounts:
    total = _total(spec, "limits")
    if overhead:
        _add(total, {name: value for name, value in amounts(spec.get("overhead")).items() if total.get(name)})
    return total


def containers(spec: Object) -> Iterable[Object]:
    """The containers and init containers."""
    yield from listed(spec, "containers")
    yield from listed(spec, "initContainers")


def listed(holder: Object, field: str) -> Iterable[Object]:
    """Yields the objects of a list. Null entries of a client are left to validation."""
    return (item for item in holder.get(field) or () if isinstance(item, dict))


def required(container: Object, field: str) -> Amounts:
    """The requests or limits of a container."""
    return amounts((container.get("resources") or {}).get(field))


def _total(spec: Object, field: str) -> Amounts:
    total: Amounts = {}
    for container in listed(spec, "containers"):
        _add(total, required(container, field))
    beside: Amounts = {}
    highest: Amounts = {}
    for container in listed(spec, "initContainers"):
        wanted = required(container, field)
        if container.get("restartPolicy") == "Always":
            # A sidecar keeps running beside all containers that start after it.
            _add(total, wanted)
            _add(beside, wanted)
            wanted = dict(beside)
        else:
            _add(wanted, beside)
        for name, value in wanted.items():
            if name not in highest or value > highest[name]:
                highest[name] = value
    for name, value in highest.items():
        if name not in total or value > total[name]:
            total[name] = value
    whole = amounts((spec.get("resources") or {}).get(field))
    total.update({name: whole[name] for name in POD_LEVEL if name in whole})
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value
