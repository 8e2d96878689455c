"""Replacement search: replaces a few nodes by a few others, tried one combination at a time against the scheduler
model. Pure.

The solver packs tightly. Where kube-scheduler does not, slightly larger nodes are cheaper in the end. Only few nodes
and few kinds are tried, and only for pods that any of them can hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.resources import Resources, fits, pod_requests, total
from shoal.provision.cloudprovider import InstanceType, Offering
from shoal.provision.disruption.model import Candidate, Settings
from shoal.provision.disruption.moving import Move
from shoal.provision.disruption.outcome import Room, is_bound, placed, room_for, room_of
from shoal.provision.disruption.prices import pin_to_spot, priced, with_types
from shoal.provision.simulation.model import NewClaim, Plan, Pool, Question
from shoal.provision.simulation.rule import simulate

Object = dict[str, Any]

NODES = 3
"""Maximum new nodes."""
KINDS = 12
"""Maximum node kinds tried; the best for these pods."""
TRIES = 60
"""Maximum feasible combinations tried for one set of nodes."""


@dataclass(frozen=True, slots=True)
class _Kind:
    price: float
    """Worst price."""
    type: InstanceType
    room: Room
    """Empty node of this kind."""


def exchanged(moved: Move, some: Sequence[Candidate], settings: Settings) -> Plan | None:
    """Cheapest combination that the scheduler model can fill completely; None if none saves enough."""
    question, pool, pods = moved.question, some[0].pool, _planned(moved.plan)
    if len(pods) != sum(len(each.pods) for each in some) or any(each.pool.name != pool.name for each in some):
        return None
    if pool.limits or any(map(is_bound, pods)):
        return None
    most = sum(each.price for each in some) * (1.0 - settings.least_saving)
    there = [room_of(place) for place in question.places]
    asked, free = total(map(pod_requests, pods)), total(room.free for room in there)
    lacking = {name: amount - max(free.get(name, 0), 0) for name, amount in asked.items()}
    could = (way for way in _ways(_kinds(question, pool, pods), most) if _could_do(way, lacking))
    for way in itertools.islice(could, TRIES):
        coming = [replace(kind.room, name=str(number)) for number, kind in enumerate(way)]
        went, left = placed(pods, [*there, *coming])
        if not left:
            return _plan(question, pods, went, way)
    return None


def _planned(plan: Plan) -> list[Object]:
    return [*(pod for pod, _, _ in plan.nominations), *(pod for claim in plan.claims for pod in claim.pods)]


def _could_do(way: Iterable[_Kind], lacking: Resources) -> bool:
    return fits(lacking, total(kind.room.free for kind in way))


def _kinds(question: Question, pool: Pool, pods: Sequence[Object]) -> list[_Kind]:
    """Kinds that the simulation would buy for one of the pods, best for all of them first."""
    found: dict[str, _Kind] = {}
    for pod in _unlike(pods):
        for claim in simulate(replace(question, pods=[pod], places=(), promised={})).claims:
            claim = pin_to_spot(claim, pool)
            for each in priced(claim, pool) if claim.pool == pool.name else ():
                if not any(_is_rare(offering) for offering in each.kind.offerings):
                    kind = _Kind(each.worst, each.kind, room_for(claim, each.kind, pool))
                    found.setdefault(each.kind.name, kind)
    asked = total(map(pod_requests, pods))

    def worth(kind: _Kind) -> tuple[float, float]:
        free = kind.room.free
        return kind.price * max(amount / max(free.get(name, 0), 1) for name, amount in asked.items()), kind.price

    return sorted(_undominated(list(found.values()), asked), key=worth)[:KINDS]


def _is_rare(offering: Offering) -> bool:
    """Fewer may be available than requested."""
    return bool(offering.reservation) or (offering.room is not None and offering.room < NODES)


def _undominated(kinds: Sequence[_Kind], asked: Collection[str]) -> Iterator[_Kind]:
    """Kinds that no other kind beats in price and resources."""

    def beats(one: _Kind, other: _Kind) -> bool:
        mine, its = one.room.free, other.room.free
        return one.price <= other.price and all(mine.get(name, 0) >= its.get(name, 0) for name in asked)

    for number, kind in enumerate(kinds):
        others = ((place, other) for place, other in enumerate(kinds) if other is not kind and beats(other, kind))
        if all(beats(kind, other) and place > number for place, other in others):
            yield kind


def _unlike(pods: Iterable[Object]) -> list[Object]:
    found: dict[tuple[tuple[str, int], ...], Object] = {}
    for pod in pods:
        found.setdefault(tuple(sorted(pod_requests(pod).items())), pod)
    return list(found.values())


def _ways(kinds: Sequence[_Kind], most: float) -> list[tuple[_Kind, ...]]:
    """Combinations below the cost limit, cheapest first, including the empty one. At equal price fewer nodes come
    first, because free resources are then in one piece.
    """
    found = (way for count in range(NODES + 1) for way in itertools.combinations_with_replacement(kinds, count))
    costs = ((round(sum(kind.price for kind in way), 9), len(way), way) for way in found)
    affordable = (each for each in costs if each[0] < most)
    return [way for _, _, way in sorted(affordable, key=lambda each: each[:2])]


def _plan(question: Question, pods: Iterable[Object], went: Mapping[str, str], way: Sequence[_Kind]) -> Plan | None:
    """Simulates each new node with the pods that it would get; None if the simulation needs something else."""
    by_place: dict[str, list[Object]] = {}
    for pod in pods:
        by_place.setdefault(went[pod["metadata"]["uid"]], []).append(pod)
    claims = []
    for number, kind in enumerate(way):
        plan = simulate(replace(question, pods=by_place.pop(str(number), []), places=(), promised={}))
        claim = _as_large(plan.claims[0], question, kind) if len(plan.claims) == 1 and not plan.failures else None
        if claim is None:
            return None
        claims.append(claim)
    nominations = tuple((pod, "Node", name) for name, pods in by_place.items() for pod in pods)
    return Plan(tuple(claims), nominations)


def _as_large(claim: NewClaim, question: Question, kind: _Kind) -> NewClaim | None:
    """Restricts the claim to types with at least these resources; otherwise pods would be placed elsewhere."""
    pool = next(pool for pool in question.pools if pool.name == claim.pool)
    found = [each for each in priced(claim, pool) if fits(kind.type.allocatable, each.kind.allocatable)]
    return with_types(claim, found) if found else None
