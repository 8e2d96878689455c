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
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.disruption.kube_scheduler_model import (
    NodeRoom,
    keeps_planned_node,
    place_pods,
    room_of_claim,
    room_of_node,
)
from shoal.provision.disruption.model import Candidate, DisruptionSettings
from shoal.provision.disruption.prices import pin_to_spot, priced_types, with_types
from shoal.provision.disruption.scheduling_simulation import SchedulingSimulation
from shoal.provision.simulation.model import NewNodeClaim, NodePoolInput, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate

Object = dict[str, Any]

MAX_NEW_NODES = 3
"""Maximum new nodes."""
MAX_NODE_KINDS = 12
"""Maximum node kinds tried; the best for these pods."""
MAX_TRIES = 60
"""Maximum feasible combinations tried for one set of nodes."""


@dataclass(frozen=True, slots=True)
class _NodeKind:
    worst_price: float
    """Worst price."""
    instance_type: InstanceType
    room: NodeRoom
    """Empty node of this kind."""


def search_replacements(
    simulation: SchedulingSimulation, candidates: Sequence[Candidate], settings: DisruptionSettings
) -> Results | None:
    """Cheapest combination that the scheduler model can fill completely; None if none saves enough."""
    inputs, pool, pods = simulation.inputs, candidates[0].pool, _planned_pods(simulation.results)
    if len(pods) != sum(len(each.pods) for each in candidates) or any(
        each.pool.name != pool.name for each in candidates
    ):
        return None
    if pool.limits or any(map(keeps_planned_node, pods)):
        return None
    max_cost = sum(each.price for each in candidates) * (1.0 - settings.min_saving_share)
    existing = [room_of_node(node) for node in inputs.existing_nodes if not node.pending_pods_only]
    requests, free = total(map(pod_requests, pods)), total(room.free for room in existing)
    lacking = {name: amount - max(free.get(name, 0), 0) for name, amount in requests.items()}
    feasible = (
        combination
        for combination in _combinations(_node_kinds(inputs, pool, pods), max_cost)
        if _has_enough_resources(combination, lacking)
    )
    for combination in itertools.islice(feasible, MAX_TRIES):
        new_nodes = [replace(kind.room, name=str(number)) for number, kind in enumerate(combination)]
        placements, unplaced = place_pods(pods, [*existing, *new_nodes])
        if not unplaced:
            return _results_for(inputs, pods, placements, combination)
    return None


def _planned_pods(plan: Results) -> list[Object]:
    return [*(pod for pod, _, _ in plan.nominations), *(pod for claim in plan.new_node_claims for pod in claim.pods)]


def _has_enough_resources(combination: Iterable[_NodeKind], lacking: Resources) -> bool:
    return fits(lacking, total(kind.room.free for kind in combination))


def _node_kinds(inputs: SchedulingInput, pool: NodePoolInput, pods: Sequence[Object]) -> list[_NodeKind]:
    """Kinds that the simulation would buy for one of the pods, best for all of them first."""
    kinds: dict[str, _NodeKind] = {}
    for pod in _distinct_pods(pods):
        for claim in simulate(replace(inputs, pods=[pod], existing_nodes=(), nominated={})).new_node_claims:
            claim = pin_to_spot(claim, pool)
            for each in priced_types(claim, pool) if claim.pool == pool.name else ():
                if not any(_is_scarce(offering) for offering in each.instance_type.offerings):
                    kind = _NodeKind(
                        each.worst_price, each.instance_type, room_of_claim(claim, each.instance_type, pool)
                    )
                    kinds.setdefault(each.instance_type.name, kind)
    requests = total(map(pod_requests, pods))

    def worth(kind: _NodeKind) -> tuple[float, float]:
        free = kind.room.free
        return kind.worst_price * max(
            amount / max(free.get(name, 0), 1) for name, amount in requests.items()
        ), kind.worst_price

    return sorted(_undominated_kinds(list(kinds.values()), requests), key=worth)[:MAX_NODE_KINDS]


def _is_scarce(offering: Offering) -> bool:
    """Fewer may be available than requested."""
    return bool(offering.reservation) or (offering.remaining is not None and offering.remaining < MAX_NEW_NODES)


def _undominated_kinds(kinds: Sequence[_NodeKind], resource_names: Collection[str]) -> Iterator[_NodeKind]:
    """Kinds that no other kind beats in price and resources."""

    def beats(one: _NodeKind, other: _NodeKind) -> bool:
        mine, its = one.room.free, other.room.free
        return one.worst_price <= other.worst_price and all(
            mine.get(name, 0) >= its.get(name, 0) for name in resource_names
        )

    for number, kind in enumerate(kinds):
        others = ((position, other) for position, other in enumerate(kinds) if other is not kind and beats(other, kind))
        if all(beats(kind, other) and position > number for position, other in others):
            yield kind


def _distinct_pods(pods: Iterable[Object]) -> list[Object]:
    by_requests: dict[tuple[tuple[str, int], ...], Object] = {}
    for pod in pods:
        by_requests.setdefault(tuple(sorted(pod_requests(pod).items())), pod)
    return list(by_requests.values())


def _combinations(kinds: Sequence[_NodeKind], max_cost: float) -> list[tuple[_NodeKind, ...]]:
    """Combinations below the cost limit, cheapest first, including the empty one. At equal price fewer nodes come
    first, because free resources are then in one piece.
    """
    combinations = (
        way for count in range(MAX_NEW_NODES + 1) for way in itertools.combinations_with_replacement(kinds, count)
    )
    costs = ((round(sum(kind.worst_price for kind in way), 9), len(way), way) for way in combinations)
    affordable = (each for each in costs if each[0] < max_cost)
    return [way for _, _, way in sorted(affordable, key=lambda each: each[:2])]


def _results_for(
    inputs: SchedulingInput, pods: Iterable[Object], placements: Mapping[str, str], combination: Sequence[_NodeKind]
) -> Results | None:
    """Simulates each new node with the pods that it would get; None if the simulation needs something else."""
    by_place: dict[str, list[Object]] = {}
    for pod in pods:
        by_place.setdefault(placements[pod["metadata"]["uid"]], []).append(pod)
    claims = []
    for number, kind in enumerate(combination):
        plan = simulate(replace(inputs, pods=by_place.pop(str(number), []), existing_nodes=(), nominated={}))
        claim = (
            _with_types_as_large(plan.new_node_claims[0], inputs, kind)
            if len(plan.new_node_claims) == 1 and not plan.failures
            else None
        )
        if claim is None:
            return None
        claims.append(claim)
    nominations = tuple((pod, "Node", name) for name, pods in by_place.items() for pod in pods)
    return Results(tuple(claims), nominations)


def _with_types_as_large(claim: NewNodeClaim, inputs: SchedulingInput, kind: _NodeKind) -> NewNodeClaim | None:
    """Restricts the claim to types with at least these resources; otherwise pods would be placed elsewhere."""
    pool = next(pool for pool in inputs.node_pools if pool.name == claim.pool)
    large_types = [
        each
        for each in priced_types(claim, pool)
        if fits(kind.instance_type.allocatable, each.instance_type.allocatable)
    ]
    return with_types(claim, large_types) if large_types else None
