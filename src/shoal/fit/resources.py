"""Amounts of resources as whole numbers, so that adding and comparing them is cheap. Pure.

`Resources` maps a resource's name to thousandths for `cpu` and to units (bytes, pieces) for all others. What is asked
for is rounded up and what is offered is rounded down: nothing fits by rounding. A missing name is none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds import pod_totals
from shoal.objects.quantity import BINARY_SI, NANO, Quantity

Object = dict[str, Any]
Resources = dict[str, int]

CPU, MEMORY, PODS, EPHEMERAL = "cpu", "memory", "pods", "ephemeral-storage"
_MILLI = 10**6
_BYTES = (MEMORY, EPHEMERAL)


def pod_requests(pod: Object) -> Resources:
    """What a pod (or a pod template) takes of a node: its effective requests, its overhead and one of `pods`."""
    asked = pod_totals.pod_requests(pod.get("spec") or {})
    wanted = {name: -(-amount.nano // _step(name)) for name, amount in asked.items() if amount.nano > 0}
    wanted[PODS] = 1
    return wanted


def amounts(listed: object) -> Resources:
    """What a resource list of the wire offers."""
    return {name: amount.nano // _step(name) for name, amount in pod_totals.amounts(listed).items()}


def allocatable(node: Object) -> Resources:
    """What a node has for pods. As the kubelet does, its capacity counts where it does not say."""
    status = node.get("status") or {}
    return amounts(status.get("allocatable") or status.get("capacity"))


def capacity(node: Object) -> Resources:
    return amounts((node.get("status") or {}).get("capacity"))


def quantities(resources: Mapping[str, int]) -> dict[str, str]:
    """A resource list for the wire, in the canonical form of each."""
    return {name: str(_quantity(name, amount)) for name, amount in resources.items()}


def add(one: Mapping[str, int], other: Mapping[str, int]) -> Resources:
    result = dict(one)
    add_to(result, other)
    return result


def add_to(sum_: Resources, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        sum_[name] = sum_.get(name, 0) + amount


def subtract(one: Mapping[str, int], other: Mapping[str, int]) -> Resources:
    """What is left of `one`; negative where `other` has more."""
    result = dict(one)
    subtract_from(result, other)
    return result


def subtract_from(rest: Resources, less: Mapping[str, int]) -> None:
    for name, amount in less.items():
        rest[name] = rest.get(name, 0) - amount


def total(many: Iterable[Mapping[str, int]]) -> Resources:
    result: Resources = {}
    for each in many:
        add_to(result, each)
    return result


def highest(many: Iterable[Mapping[str, int]]) -> Resources:
    """The most of each resource that any of them has."""
    result: Resources = {}
    for each in many:
        for name, amount in each.items():
            if amount > result.get(name, amount - 1):
                result[name] = amount
    return result


def fits(wanted: Mapping[str, int], free: Mapping[str, int]) -> bool:
    """Whether `free` has all of it. Nothing wanted fits even where less than nothing is free."""
    for name, amount in wanted.items():  # noqa: SIM110 (twice as fast as all(), and asked per node and pod)
        if amount > 0 and amount > free.get(name, 0):
            return False
    return True


def lacking(wanted: Mapping[str, int], free: Mapping[str, int]) -> list[str]:
    """The names of what does not fit: `pods` first, then as the pod lists them."""
    short = [name for name, amount in wanted.items() if amount > 0 and amount > free.get(name, 0)]
    return sorted(short, key=lambda name: name != PODS)


def _step(name: str) -> int:
    return _MILLI if name == CPU else NANO


def _quantity(name: str, amount: int) -> Quantity:
    binary = name in _BYTES or name.startswith("hugepages-")
    return Quantity(amount * _step(name), BINARY_SI) if binary else Quantity(amount * _step(name))
