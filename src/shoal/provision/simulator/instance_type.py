"""Builds instance types from a size, an architecture and offering specs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import CPU, MEMORY, Resources, parse_amounts, subtract
from shoal.kinds.karpenter.karpenter import ARCHITECTURE, CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, SYSTEM, ZONE
from shoal.provision.cloudprovider.types import InstanceType, Offering

OVERHEAD: Resources = parse_amounts({"cpu": "100m", "memory": "10Mi"})
"""System overhead of KWOK and of the test catalogue."""


@dataclass(frozen=True, slots=True)
class OfferingSpec:
    """Zone, capacity type and price of an offering before its type exists."""

    zone: str
    capacity_type: str
    price: float
    remaining: int | None = None
    reservation: str = ""
    reservation_capacity: int = 0
    """Capacity of the reservation."""


def instance_type(
    name: str,
    capacity: Resources,
    offering_specs: Iterable[OfferingSpec],
    *,
    architecture: str = "amd64",
    systems: Iterable[str] = ("linux",),
    labels: Mapping[str, str] | None = None,
    extra_requirements: Iterable[Requirement] = (),
    overhead: Resources = OVERHEAD,
) -> InstanceType:
    """`labels` are on all its nodes; `extra_requirements` are added to its requirements."""
    systems, specs = frozenset(systems), tuple(offering_specs)
    common_labels = {INSTANCE_TYPE: name, ARCHITECTURE: architecture, **(labels or {})}
    if len(systems) == 1:
        common_labels[SYSTEM] = min(systems)
    offerings = tuple(_offering(name, common_labels, each) for each in specs)
    # As upstream: requirements cover only available offerings; unavailable ones are still listed.
    available = [each for each in offerings if each.available]
    expressions = [Requirement(key, False, frozenset((value,))) for key, value in common_labels.items()]
    expressions += [
        Requirement(key, False, frozenset(each.labels[key] for each in available)) for key in (ZONE, CAPACITY_TYPE)
    ]
    if len(systems) > 1:
        expressions.append(Requirement(SYSTEM, False, systems))
    if any(each.reservation for each in specs):
        reservations = frozenset(each.reservation for each in specs if each.reservation)
        expressions.append(Requirement(RESERVATION_ID, False, reservations, allows_absent=True))
    requirements = Requirements([*expressions, *extra_requirements])
    return InstanceType(name, capacity, subtract(capacity, overhead), offerings, requirements)


def _offering(name: str, labels: Mapping[str, str], spec: OfferingSpec) -> Offering:
    offering_labels = {**labels, ZONE: spec.zone, CAPACITY_TYPE: spec.capacity_type}
    if spec.reservation:
        offering_labels[RESERVATION_ID] = spec.reservation
    offering_name = "/".join((name, spec.zone, spec.capacity_type, *([spec.reservation] if spec.reservation else ())))
    return Offering(
        offering_name, offering_labels, spec.price, spec.remaining, (), spec.reservation, spec.reservation_capacity
    )


def price_by_size(capacity: Resources, per_cpu: float, per_gigabyte: float) -> float:
    """Price derived from the size. A gigabyte is 10^9 bytes."""
    return per_cpu * capacity.get(CPU, 0) / 1000 + per_gigabyte * capacity.get(MEMORY, 0) / 1e9
