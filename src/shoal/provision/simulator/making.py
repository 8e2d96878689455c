"""Builds instance types from a size, an architecture and offering specs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import CPU, MEMORY, Resources, amounts, subtract
from shoal.kinds.karpenter import ARCHITECTURE, CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, SYSTEM, ZONE
from shoal.provision.cloudprovider import InstanceType, Offering

OVERHEAD: Resources = amounts({"cpu": "100m", "memory": "10Mi"})
"""System overhead of KWOK and of the test catalogue."""


@dataclass(frozen=True, slots=True)
class Sale:
    """Zone, capacity type and price of an offering before its type exists."""

    zone: str
    capacity_type: str
    price: float
    room: int | None = None
    reservation: str = ""
    capacity: int = 0
    """Capacity of the reservation."""


def instance_type(
    name: str,
    capacity: Resources,
    sales: Iterable[Sale],
    *,
    architecture: str = "amd64",
    systems: Iterable[str] = ("linux",),
    labels: Mapping[str, str] | None = None,
    more: Iterable[Requirement] = (),
    overhead: Resources = OVERHEAD,
) -> InstanceType:
    """`labels` are on all its nodes; `extra_requirements` are added to its requirements."""
    systems, sold = frozenset(systems), tuple(sales)
    fixed = {INSTANCE_TYPE: name, ARCHITECTURE: architecture, **(labels or {})}
    if len(systems) == 1:
        fixed[SYSTEM] = min(systems)
    offerings = tuple(_offering(name, fixed, each) for each in sold)
    # As upstream: requirements cover only available offerings; unavailable ones are still listed.
    there = [each for each in offerings if each.available]
    found = [Requirement(key, False, frozenset((value,))) for key, value in fixed.items()]
    found += [Requirement(key, False, frozenset(each.labels[key] for each in there)) for key in (ZONE, CAPACITY_TYPE)]
    if len(systems) > 1:
        found.append(Requirement(SYSTEM, False, systems))
    if any(each.reservation for each in sold):
        reservations = frozenset(each.reservation for each in sold if each.reservation)
        found.append(Requirement(RESERVATION_ID, False, reservations, absent=True))
    requirements = Requirements([*found, *more])
    return InstanceType(name, capacity, subtract(capacity, overhead), offerings, requirements)


def _offering(name: str, labels: Mapping[str, str], sale: Sale) -> Offering:
    known = {**labels, ZONE: sale.zone, CAPACITY_TYPE: sale.capacity_type}
    if sale.reservation:
        known[RESERVATION_ID] = sale.reservation
    title = "/".join((name, sale.zone, sale.capacity_type, *([sale.reservation] if sale.reservation else ())))
    return Offering(title, known, sale.price, sale.room, (), sale.reservation, sale.capacity)


def by_size(capacity: Resources, per_cpu: float, per_gigabyte: float) -> float:
    """Price derived from the size. A gigabyte is 10^9 bytes."""
    return per_cpu * capacity.get(CPU, 0) / 1000 + per_gigabyte * capacity.get(MEMORY, 0) / 1e9
