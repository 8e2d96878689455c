"""Prices of nodes, worst-case prices of replacements, and selection of cheap enough types. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shoal.fit.requirements import Requirement, Requirements
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.disruption.model import Candidate
from shoal.provision.simulation.model import NewNodeClaim, NodePoolInput

_PRECEDENCE = (RESERVED, SPOT)
"""Order in which capacity types are chosen at launch; on-demand comes last."""


def node_price(type_: InstanceType | None, labels: Mapping[str, str]) -> float:
    """Price of a node with these labels; 0 if unknown."""
    if type_ is None:
        return 0.0
    matching = [
        each
        for each in type_.offerings
        if all(each.labels.get(key) == labels.get(key) for key in (ZONE, CAPACITY_TYPE) if key in each.labels)
    ]
    exact = [each for each in matching if all(labels.get(key, value) == value for key, value in each.labels.items())]
    lowest = min((each.price for each in exact or matching), default=0.0)
    return 0.0 if math.isnan(lowest) else lowest


@dataclass(frozen=True, slots=True)
class PricedType:
    """A possible type of a replacement."""

    instance_type: InstanceType
    cheapest_price: float
    worst_price: float
    """Highest price within the capacity type that would be launched."""


def available_offerings(type_: InstanceType, claim: NewNodeClaim) -> list[Offering]:
    """Available offerings of the type that match the claim."""
    required = claim.requirements
    return [
        each
        for each in type_.offerings
        if each.available
        and each.taints == claim.taints
        and all(required[key].has(value) for key, value in each.labels.items() if key in required)
    ]


def priced_types(claim: NewNodeClaim, pool: NodePoolInput) -> list[PricedType]:
    """Available types of the claim by their cheapest offering."""
    by_name = {kind.name: kind for kind in pool.types}
    types = []
    for name in claim.types:
        usable = available_offerings(by_name[name], claim) if name in by_name else []
        if usable:
            types.append(PricedType(by_name[name], min(each.price for each in usable), _worst_price(usable)))
    return sorted(types, key=lambda each: (each.cheapest_price, each.instance_type.name))


def with_types_below(claim: NewNodeClaim, pool: NodePoolInput, max_worst_price: float) -> NewNodeClaim | None:
    """Claim restricted to types with a lower worst price; None if there are none or too few for minValues."""
    cheap_types = [each for each in priced_types(claim, pool) if each.worst_price < max_worst_price]
    return (
        with_types(claim, cheap_types)
        if cheap_types and types_for_min_values(claim.requirements, cheap_types) is not None
        else None
    )


def with_types(claim: NewNodeClaim, types: Sequence[PricedType]) -> NewNodeClaim:
    names = tuple(each.instance_type.name for each in types)
    old = claim.requirements.requirement_for(INSTANCE_TYPE)
    only = Requirement(INSTANCE_TYPE, False, frozenset(names), min_values=old.min_values)
    requirements = claim.requirements.without(INSTANCE_TYPE).add([only])
    return replace(claim, types=names, requirements=requirements, price=min(each.cheapest_price for each in types))


def pin_capacity_type(claim: NewNodeClaim, pool: NodePoolInput, capacity_type: str) -> NewNodeClaim | None:
    """Claim restricted to this capacity type; None if none of its types is available so."""
    pinned_requirements = claim.requirements.add([Requirement(CAPACITY_TYPE, False, frozenset((capacity_type,)))])
    narrowed = replace(claim, requirements=pinned_requirements)
    types = priced_types(narrowed, pool)
    return with_types(narrowed, types) if types else None


def allows(claim: NewNodeClaim, capacity_type: str) -> bool:
    return claim.requirements.requirement_for(CAPACITY_TYPE).has(capacity_type)


def pin_to_spot(claim: NewNodeClaim, pool: NodePoolInput) -> NewNodeClaim:
    """Pins a claim that was priced as spot, so that it does not become on-demand when spot is unavailable."""
    if not (allows(claim, SPOT) and allows(claim, ON_DEMAND)):
        return claim
    return pin_capacity_type(claim, pool, SPOT) or claim


def max_price(claim: NewNodeClaim, candidates: Iterable[Candidate]) -> float:
    """Price limit when several nodes become one: if the replacement may have the type of a candidate, it must be
    cheaper than that candidate.

    Otherwise that candidate could stay, and only the others be removed.
    """
    prices: dict[str, float] = {}
    for each in candidates:
        if each.instance_type is not None:
            prices[each.instance_type.name] = min(prices.get(each.instance_type.name, math.inf), each.price)
    return min((prices[name] for name in claim.types if name in prices), default=math.inf)


def types_for_min_values(requirements: Requirements, types: Sequence[PricedType]) -> int | None:
    """Number of leading types needed to satisfy minValues; None if all are too few."""
    min_values = {each.key: each.min_values for each in requirements.values() if each.min_values}
    values_by_key: dict[str, set[str]] = {key: set() for key in min_values}
    if not min_values:
        return 0
    for number, each in enumerate(types, 1):
        for key, values in values_by_key.items():
            values.update(
                (each.instance_type.name,)
                if key == INSTANCE_TYPE
                else each.instance_type.requirements.requirement_for(key).values
            )
        if all(len(values_by_key[key]) >= amount for key, amount in min_values.items()):
            return number
    return None


def with_replacement_name(claim: NewNodeClaim, candidates: Iterable[Candidate]) -> NewNodeClaim:
    """Renames the claim by the candidates it replaces, to distinguish claims for the same pods."""
    text = "\n".join([claim.name, *sorted(each.state_node.claim["metadata"]["uid"] for each in candidates)])
    name = f"{claim.pool[:50].rstrip('.-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return replace(claim, name=name)


def _worst_price(usable: Sequence[Offering]) -> float:
    for capacity_type in _PRECEDENCE:
        prices = [each.price for each in usable if each.labels.get(CAPACITY_TYPE) == capacity_type]
        if prices:
            return max(prices)
    return max(each.price for each in usable)
