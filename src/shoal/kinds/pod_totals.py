"""What a pod asks for in all: its containers together, its init containers one after another. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.objects.quantity import Quantity

Object = dict[str, Any]
Amounts = dict[str, Quantity]

POD_LEVEL = ("cpu", "memory")
"""What a pod may ask for as a whole, whatever its containers say."""


def amounts(given: object) -> Amounts:
    """A resource list as quantities. What is none is left out: validation says so elsewhere."""
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
    """The objects of a list; the nulls that a client may put among them are left to validation."""
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
            # A sidecar runs on beside everything that starts after it.
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
