"""Instance types offered by node groups, and the cheapest matching offering. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.fit.requirements import Requirements, from_labels
from shoal.fit.resources import Resources, fits
from shoal.fit.taints import same
from shoal.kinds.karpenter import INSTANCE_TYPE, RESERVATION_ID
from shoal.provision.cloudprovider import InstanceType, Offering
from shoal.provision.clusterapi.sellers import Seller

Object = dict[str, Any]


def instance_types(sellers: Iterable[Seller], claimed: Mapping[str, int]) -> list[InstanceType]:
    """Returns the types by name. Node groups of one type are its offerings.

    `claims_by_group`: number of NodeClaims that each group already has.
    """
    groups: dict[str, list[Seller]] = {}
    for seller in sellers:
        groups.setdefault(seller.labels[INSTANCE_TYPE], []).append(seller)
    return [_merged(name, groups[name], claimed) for name in sorted(groups)]


def offering(seller: Seller, claimed: int) -> Offering:
    """A reserved group is prepaid up to its maximum size."""
    room = None if seller.most is None else max(0, seller.most - claimed)
    reservation = seller.labels.get(RESERVATION_ID, "") if room is not None else ""
    return Offering(seller.name, seller.labels, seller.price, room, seller.taints, reservation, room or 0)


def cheapest(
    types: Iterable[InstanceType], wanted: Requirements, needs: Resources, taints: Sequence[Object] = ()
) -> tuple[InstanceType, Offering] | None:
    """Cheapest available matching offering; ties by name. `taints`: taints that the node may have."""
    fitting = [
        (offering.price, offering.name, kind, offering)
        for kind in types
        for offering in kind.offerings
        if offering.available and suits(kind, offering, wanted, needs) and _allowed(offering.taints, taints)
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda each: each[:2])
    return best[2], best[3]


def suits(kind: InstanceType, offering: Offering, wanted: Requirements, needs: Resources) -> bool:
    return fits(needs, kind.allocatable) and from_labels(offering.labels).intersects(wanted)


def _allowed(found: Iterable[Object], expected: Sequence[Object]) -> bool:
    """Pods planned for a node without a taint may not tolerate it."""
    return all(any(same(taint, each) for each in expected) for taint in found)


def _merged(name: str, sellers: list[Seller], claimed: Mapping[str, int]) -> InstanceType:
    """If the groups announce different capacities, the minimum is used, so that no plan exceeds any of them."""
    offerings = [offering(each, claimed.get(each.name, 0)) for each in sellers]
    offerings.sort(key=lambda each: (each.price, each.name))
    common = set.intersection(*(set(each.capacity) for each in sellers))
    has = {resource: min(each.capacity[resource] for each in sellers) for resource in sorted(common)}
    return InstanceType(name, has, has, tuple(offerings))
