"""Karpenter's consolidation: several nodes into at most one, or one into a cheaper one. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from shoal.kinds.karpenter.karpenter import SPOT
from shoal.provision.disruption.balanced import PoolTotals, is_approved, may_be_approved, totals
from shoal.provision.disruption.budgets import allowed_disruptions
from shoal.provision.disruption.candidates import UNCONSOLIDATABLE, candidates, consolidation_eligibility, within_budget
from shoal.provision.disruption.kube_scheduler_model import predict
from shoal.provision.disruption.model import (
    UNDERUTILIZED,
    Candidate,
    Command,
    DisruptionDecision,
    DisruptionSettings,
    DisruptionSnapshot,
    NodeNote,
)
from shoal.provision.disruption.prices import (
    allows,
    max_price,
    pin_capacity_type,
    pin_to_spot,
    priced_types,
    types_for_min_values,
    with_replacement_name,
    with_types,
    with_types_below,
)
from shoal.provision.disruption.scheduling_simulation import SchedulingSimulation, simulate_scheduling
from shoal.provision.simulation.model import NewNodeClaim

StopFunction = Callable[[], bool]

MAX_CANDIDATES = 100
MIN_SPOT_TYPES = 15
"""Minimum number of cheaper types to replace a spot node, and the number of types requested."""


def never_stop() -> bool:
    return False


def eligible_candidates(snapshot: DisruptionSnapshot) -> tuple[list[Candidate], list[NodeNote], dict[str, PoolTotals]]:
    """Consolidatable candidates by descending price per disruption cost."""
    all_candidates, notes = candidates(snapshot)
    eligible = []
    for each in all_candidates:
        is_eligible, reason = consolidation_eligibility(each)
        if is_eligible:
            eligible.append(each)
        elif reason:
            notes.append(NodeNote(each.name, UNCONSOLIDATABLE, reason))
    return sorted(eligible, key=lambda each: (-each.savings_ratio, each.name)), notes, totals(snapshot, all_candidates)


def multi_node_consolidation(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings, stop: StopFunction = never_stop
) -> DisruptionDecision:
    """Largest prefix of the candidates, found by bisection, whose pods fit elsewhere or on one cheaper new node."""
    ordered, notes, totals_by_pool = eligible_candidates(snapshot)
    ordered, limited = within_budget(ordered, allowed_disruptions(snapshot, UNDERUTILIZED))
    best = None
    low, high = 1, min(len(ordered) - 1, MAX_CANDIDATES)
    while low <= high and not stop():
        middle = (low + high) // 2
        command = consolidate_together(snapshot, ordered[: middle + 1], settings)
        if command is not None and is_approved(command, totals_by_pool):
            best, low = command, middle + 1
        else:
            high = middle - 1
    return DisruptionDecision(best, tuple(notes), limited)


def single_node_consolidation(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings, stop: StopFunction = never_stop
) -> DisruptionDecision:
    """First candidate whose pods fit on other nodes or on one cheaper new node."""
    ordered, notes, totals_by_pool = eligible_candidates(snapshot)
    remaining, limited = allowed_disruptions(snapshot, UNDERUTILIZED), False
    for each in _interleave_pools(ordered):
        if stop():
            break
        if remaining.get(each.pool.name, 0) < 1:
            limited = True
            continue
        if not may_be_approved(each, totals_by_pool):
            continue
        command, reason = consolidate_alone(snapshot, each, settings)
        if command is not None and is_approved(command, totals_by_pool):
            return DisruptionDecision(command, tuple(notes), limited)
        if reason:
            notes.append(NodeNote(each.name, UNCONSOLIDATABLE, reason))
    return DisruptionDecision(None, tuple(notes), limited)


def consolidate_together(
    snapshot: DisruptionSnapshot, subset: Sequence[Candidate], settings: DisruptionSettings
) -> Command | None:
    return compute_consolidation(snapshot, subset, settings, "multi")[0]


def consolidate_alone(
    snapshot: DisruptionSnapshot, candidate: Candidate, settings: DisruptionSettings
) -> tuple[Command | None, str]:
    return compute_consolidation(snapshot, (candidate,), settings, "single")


def compute_consolidation(
    snapshot: DisruptionSnapshot, subset: Sequence[Candidate], settings: DisruptionSettings, method: str
) -> tuple[Command | None, str]:
    """Returns the command that removes all of them, or None and the reason."""
    simulation = simulate_scheduling(snapshot, subset)
    if simulation.error:
        return None, simulation.error
    command = Command(UNDERUTILIZED, method, tuple(subset), results=simulation.results)
    if not simulation.results.new_node_claims:
        return _predict(command, simulation, settings)
    if len(simulation.results.new_node_claims) > 1:
        return None, f"Can't remove without creating {len(simulation.results.new_node_claims)} candidates"
    (claim,) = simulation.results.new_node_claims
    pool = snapshot.pools()[claim.pool]
    if all(each.capacity_type == SPOT for each in subset) and allows(claim, SPOT):
        replacement, reason = _spot_to_spot(claim, command, snapshot, settings)
    else:
        replacement, reason = with_types_below(claim, pool, command.cost), "Can't replace with a cheaper node"
    if replacement is None:
        return None, reason
    price_limit = max_price(replacement, subset) if len(subset) > 1 else math.inf
    replacement = with_types_below(pin_to_spot(replacement, pool), pool, price_limit)
    if replacement is None:
        return None, reason
    return _predict(_with_replacement(command, replacement), simulation, settings)


def _predict(
    command: Command, simulation: SchedulingSimulation, settings: DisruptionSettings
) -> tuple[Command | None, str]:
    predicted = predict(command, simulation.inputs, settings)
    return predicted, "" if predicted is not None else "Not all pods would schedule on the planned nodes"


def _spot_to_spot(
    claim: NewNodeClaim, command: Command, snapshot: DisruptionSnapshot, settings: DisruptionSettings
) -> tuple[NewNodeClaim | None, str]:
    """Only the cheapest types are requested, so that the node is not replaced again whenever prices among them
    change.
    """
    if not settings.spot_to_spot_consolidation:
        return None, "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
    pool = snapshot.pools()[claim.pool]
    narrowed = pin_capacity_type(claim, pool, SPOT)
    cheaper = with_types_below(narrowed, pool, command.cost) if narrowed is not None else None
    if cheaper is None:
        return None, "Can't replace with a cheaper node"
    if len(command.candidates) > 1:
        return cheaper, ""
    cheaper_types = priced_types(cheaper, pool)
    if len(cheaper_types) < MIN_SPOT_TYPES:
        return None, (
            f"SpotToSpotConsolidation requires {MIN_SPOT_TYPES} cheaper instance "
            "type options than the current candidate "
            f"to consolidate, got {len(cheaper_types)}"
        )
    return with_types(
        cheaper, cheaper_types[: max(MIN_SPOT_TYPES, types_for_min_values(cheaper.requirements, cheaper_types) or 0)]
    ), ""


def _with_replacement(command: Command, claim: NewNodeClaim) -> Command:
    renamed_claim = with_replacement_name(claim, command.candidates)
    return Command(UNDERUTILIZED, command.method, command.candidates, (renamed_claim,), command.results)


def _interleave_pools(ordered: Sequence[Candidate]) -> list[Candidate]:
    """Round robin over the NodePools, so that a large pool does not delay the others."""
    by_pool: dict[str, list[Candidate]] = {}
    for each in ordered:
        by_pool.setdefault(each.pool.name, []).append(each)
    rounds = max((len(each) for each in by_pool.values()), default=0)
    return [each[number] for number in range(rounds) for each in by_pool.values() if number < len(each)]
