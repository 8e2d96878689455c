"""What a node costs, what its replacement costs at worst, and which types are cheap enough for one. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shoal.fit.requirements import Requirement, Requirements
from shoal.kinds.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE
from shoal.provision.cloudprovider import InstanceType, Offering
from shoal.provision.disruption.model import Candidate
from shoal.provision.simulation.model import NewClaim, Pool

_PRECEDENCE = (RESERVED, SPOT)
"""How a machine is bought that can be had in several ways; on-demand comes last."""


def price_of(type_: InstanceType | None, labels: Mapping[str, str]) -> float:
    """Of a node with these labels; 0 where nothing says."""
    if type_ is None:
        return 0.0
    here = [
        each
        for each in type_.offerings
        if all(each.labels.get(key) == labels.get(key) for key in (ZONE, CAPACITY_TYPE) if key in each.labels)
    ]
    exact = [each for each in here if all(labels.get(key, value) == value for key, value in each.labels.items())]
    found = min((each.price for each in exact or here), default=0.0)
    return 0.0 if math.isnan(found) else found


@dataclass(frozen=True, slots=True)
class Priced:
    """A type that a replacement could have."""

    kind: InstanceType
    cheapest: float
    worst: float
    """Of the capacity type that it would be bought with, the most expensive."""


def offerings(type_: InstanceType, claim: NewClaim) -> list[Offering]:
    """The ways in which a machine of the type can be had for it now."""
    wanted = claim.requirements
    return [
        each
        for each in type_.offerings
        if each.available
        and each.taints == claim.taints
        and all(wanted[key].has(value) for key, value in each.labels.items() if key in wanted)
    ]


def priced(claim: NewClaim, pool: Pool) -> list[Priced]:
    """The types that it can be had with now, by the cheapest way to have each."""
    by_name = {kind.name: kind for kind in pool.types}
    found = []
    for name in claim.types:
        ways = offerings(by_name[name], claim) if name in by_name else []
        if ways:
            found.append(Priced(by_name[name], min(each.price for each in ways), _worst(ways)))
    return sorted(found, key=lambda each: (each.cheapest, each.kind.name))


def below(claim: NewClaim, pool: Pool, most: float) -> NewClaim | None:
    """The claim with only the types that cost less at worst; None: there are none, or too few for its minValues."""
    found = [each for each in priced(claim, pool) if each.worst < most]
    return with_types(claim, found) if found and enough(claim.requirements, found) is not None else None


def with_types(claim: NewClaim, found: Sequence[Priced]) -> NewClaim:
    names = tuple(each.kind.name for each in found)
    old = claim.requirements.of(INSTANCE_TYPE)
    only = Requirement(INSTANCE_TYPE, False, frozenset(names), min_values=old.min_values)
    requirements = claim.requirements.without(INSTANCE_TYPE).add([only])
    return replace(claim, types=names, requirements=requirements, price=min(each.cheapest for each in found))


def pinned(claim: NewClaim, pool: Pool, capacity_type: str) -> NewClaim | None:
    """The claim as one that only this capacity type will do for; None: none of its types is to be had so."""
    only = claim.requirements.add([Requirement(CAPACITY_TYPE, False, frozenset((capacity_type,)))])
    narrowed = replace(claim, requirements=only)
    found = priced(narrowed, pool)
    return with_types(narrowed, found) if found else None


def allows(claim: NewClaim, capacity_type: str) -> bool:
    return claim.requirements.of(CAPACITY_TYPE).has(capacity_type)


def pin_to_spot(claim: NewClaim, pool: Pool) -> NewClaim:
    """What was counted as spot is not to become on-demand when spot runs out."""
    if not (allows(claim, SPOT) and allows(claim, ON_DEMAND)):
        return claim
    return pinned(claim, pool, SPOT) or claim


def most_for(claim: NewClaim, candidates: Iterable[Candidate]) -> float:
    """For several nodes in one: if it may be of a type that one of them has, it has to be cheaper than that one.

    Otherwise that one could just as well stay, and only the others go.
    """
    prices: dict[str, float] = {}
    for each in candidates:
        if each.type is not None:
            prices[each.type.name] = min(prices.get(each.type.name, math.inf), each.price)
    return min((prices[name] for name in claim.types if name in prices), default=math.inf)


def enough(requirements: Requirements, found: Sequence[Priced]) -> int | None:
    """How many of them, from the first on, have as many different values as wanted; None: all are too few."""
    least = {each.key: each.min_values for each in requirements.values() if each.min_values}
    seen: dict[str, set[str]] = {key: set() for key in least}
    if not least:
        return 0
    for number, each in enumerate(found, 1):
        for key, values in seen.items():
            values.update((each.kind.name,) if key == INSTANCE_TYPE else each.kind.requirements.of(key).values)
        if all(len(seen[key]) >= amount for key, amount in least.items()):
            return number
    return None


def renamed(claim: NewClaim, candidates: Iterable[Candidate]) -> NewClaim:
    """After what it replaces too: nodes bought for the same pods are told apart by that."""
    text = "\n".join([claim.name, *sorted(each.standing.claim["metadata"]["uid"] for each in candidates)])
    name = f"{claim.pool[:50].rstrip('.-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return replace(claim, name=name)


def _worst(ways: Sequence[Offering]) -> float:
    for wanted in _PRECEDENCE:
        prices = [each.price for each in ways if each.labels.get(CAPACITY_TYPE) == wanted]
        if prices:
            return max(prices)
    return max(each.price for each in ways)
