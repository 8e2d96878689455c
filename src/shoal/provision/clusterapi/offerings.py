"""Instance types offered by node groups, and the cheapest matching offering. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.fit.requirements import Requirements, from_labels
from shoal.fit.resources import Resources, fits
from shoal.fit.taints import is_same_taint
from shoal.kinds.karpenter.karpenter import INSTANCE_TYPE, RESERVATION_ID
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.clusterapi.nodegroups import NodeGroup

Object = dict[str, Any]


def instance_types(node_groups: Iterable[NodeGroup], claims_by_group: Mapping[str, int]) -> list[InstanceType]:
    """Returns the types by name. Node groups of one type are its offerings.

    `claims_by_group`: number of NodeClaims that each group already has.
    """
    groups_by_type: dict[str, list[NodeGroup]] = {}
    for group in node_groups:
        groups_by_type.setdefault(group.labels[INSTANCE_TYPE], []).append(group)
    return [_merge_groups(name, groups_by_type[name], claims_by_group) for name in sorted(groups_by_type)]


def offering_of(group: NodeGroup, claims: int) -> Offering:
    """A reserved group is prepaid up to its maximum size."""
    remaining = None if group.max_machines is None else max(0, group.max_machines - claims)
    reservation = group.labels.get(RESERVATION_ID, "") if remaining is not None else ""
    return Offering(group.name, group.labels, group.price, remaining, group.taints, reservation, remaining or 0)


def cheapest(
    types: Iterable[InstanceType], required: Requirements, requests: Resources, taints: Sequence[Object] = ()
) -> tuple[InstanceType, Offering] | None:
    """Cheapest available matching offering; ties by name. `taints`: taints that the node may have."""
    feasible = [
        (offering.price, offering.name, kind, offering)
        for kind in types
        for offering in kind.offerings
        if offering.available
        and is_feasible(kind, offering, required, requests)
        and _are_expected(offering.taints, taints)
    ]
    if not feasible:
        return None
    best = min(feasible, key=lambda each: each[:2])
    return best[2], best[3]


def is_feasible(kind: InstanceType, offering: Offering, required: Requirements, requests: Resources) -> bool:
    return fits(requests, kind.allocatable) and from_labels(offering.labels).intersects(required)


def _are_expected(taints: Iterable[Object], expected: Sequence[Object]) -> bool:
    """Pods planned for a node without a taint may not tolerate it."""
    return all(any(is_same_taint(taint, each) for each in expected) for taint in taints)


def _merge_groups(name: str, groups: list[NodeGroup], claims_by_group: Mapping[str, int]) -> InstanceType:
    """If the groups announce different capacities, the minimum is used, so that no plan exceeds any of them."""
    offerings = [offering_of(each, claims_by_group.get(each.name, 0)) for each in groups]
    offerings.sort(key=lambda each: (each.price, each.name))
    common = set.intersection(*(set(each.capacity) for each in groups))
    capacity = {resource: min(each.capacity[resource] for each in groups) for resource in sorted(common)}
    allocatable = {resource: min(each.allocatable[resource] for each in groups) for resource in capacity}
    return InstanceType(name, capacity, allocatable, tuple(offerings))
