"""Prices of nodes, worst-case prices of replacements, and selection of cheap enough types. Pure."""

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
"""Order in which capacity types are chosen at launch; on-demand comes last."""


def price_of(type_: InstanceType | None, labels: Mapping[str, str]) -> float:
    """Price of a node with these labels; 0 if unknown."""
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
    """A possible type of a replacement."""

    kind: InstanceType
    cheapest: float
    worst: float
    """Highest price within the capacity type that would be launched."""


def offerings(type_: InstanceType, claim: NewClaim) -> list[Offering]:
    """Available offerings of the type that match the claim."""
    wanted = claim.requirements
    return [
        each
        for each in type_.offerings
        if each.available
        and each.taints == claim.taints
        and all(wanted[key].has(value) for key, value in each.labels.items() if key in wanted)
    ]


def priced(claim: NewClaim, pool: Pool) -> list[Priced]:
    """Available types of the claim by their cheapest offering."""
    by_name = {kind.name: kind for kind in pool.types}
    found = []
    for name in claim.types:
        ways = offerings(by_name[name], claim) if name in by_name else []
        if ways:
            found.append(Priced(by_name[name], min(each.price for each in ways), _worst(ways)))
    return sorted(found, key=lambda each: (each.cheapest, each.kind.name))


def below(claim: NewClaim, pool: Pool, most: float) -> NewClaim | None:
    """Claim restricted to types with a lower worst price; None if there are none or too few for minValues."""
    found = [each for each in priced(claim, pool) if each.worst < most]
    return with_types(claim, found) if found and enough(claim.requirements, found) is not None else None


def with_types(claim: NewClaim, found: Sequence[Priced]) -> NewClaim:
    names = tuple(each.kind.name for each in found)
    old = claim.requirements.of(INSTANCE_TYPE)
    only = Requirement(INSTANCE_TYPE, False, frozenset(names), min_values=old.min_values)
    requirements = claim.requirements.without(INSTANCE_TYPE).add([only])
    return replace(claim, types=names, requirements=requirements, price=min(each.cheapest for each in found))


def pinned(claim: NewClaim, pool: Pool, capacity_type: str) -> NewClaim | None:
    """Claim restricted to this capacity type; None if none of its types is available so."""
    only = claim.requirements.add([Requirement(CAPACITY_TYPE, False, frozenset((capacity_type,)))])
    narrowed = replace(claim, requirements=only)
    found = priced(narrowed, pool)
    return with_types(narrowed, found) if found else None


def allows(claim: NewClaim, capacity_type: str) -> bool:
    return claim.requirements.of(CAPACITY_TYPE).has(capacity_type)


def pin_to_spot(claim: NewClaim, pool: Pool) -> NewClaim:
    """Pins a claim that was priced as spot, so that it does not become on-demand when spot is unavailable."""
    if not (allows(claim, SPOT) and allows(claim, ON_DEMAND)):
        return claim
    return pinned(claim, pool, SPOT) or claim


def most_for(claim: NewClaim, candidates: Iterable[Candidate]) -> float:
    """Price limit when several nodes become one: if the replacement may have the type of a candidate, it must be
    cheaper than that candidate.

    Otherwise that candidate could stay, and only the others be removed.
    """
    prices: dict[str, float] = {}
    for each in candidates:
        if each.type is not None:
            prices[each.type.name] = min(prices.get(each.type.name, math.inf), each.price)
    return min((prices[name] for name in claim.types if name in prices), default=math.inf)


def enough(requirements: Requirements, found: Sequence[Priced]) -> int | None:
    """Number of leading types needed to satisfy minValues; None if all are too few."""
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
    """Renames the claim by the candidates it replaces, to distinguish claims for the same pods."""
    text = "\n".join([claim.name, *sorted(each.standing.claim["metadata"]["uid"] for each in candidates)])
    name = f"{claim.pool[:50].rstrip('.-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return replace(claim, name=name)


def _worst(ways: Sequence[Offering]) -> float:
    for wanted in _PRECEDENCE:
        prices = [each.price for each in ways if each.labels.get(CAPACITY_TYPE) == wanted]
        if prices:
            return max(prices)
    return max(each.price for each in ways)
