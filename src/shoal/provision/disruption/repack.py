"""Repack consolidation: replaces a set of nodes by cheaper ones, with the pods repacked by the solver. Pure.

A command must save even at the worst price that may have to be paid. So each step makes the cluster cheaper and cannot
be reversed by another. Karpenter's decision stands unless there is a better one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from shoal.fit.resources import Resources, pod_requests
from shoal.kinds.karpenter.karpenter import SPOT
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.disruption.balanced import is_approved
from shoal.provision.disruption.budgets import allowed_disruptions
from shoal.provision.disruption.candidates import within_budget
from shoal.provision.disruption.consolidation import MAX_CANDIDATES, StopFunction, eligible_candidates, never_stop
from shoal.provision.disruption.kube_scheduler_model import predict
from shoal.provision.disruption.model import (
    UNDERUTILIZED,
    Candidate,
    Command,
    DisruptionDecision,
    DisruptionSettings,
    DisruptionSnapshot,
)
from shoal.provision.disruption.prices import (
    allows,
    pin_capacity_type,
    pin_to_spot,
    priced_types,
    with_replacement_name,
    with_types_below,
)
from shoal.provision.disruption.replacement_search import search_replacements
from shoal.provision.disruption.scheduling_simulation import SchedulingSimulation, simulate_scheduling
from shoal.provision.simulation.model import NewNodeClaim, NodePoolInput, Results
from shoal.provision.solver.optimize import improve

NEAR_BEST_SHARE = 0.8
"""Share of the best savings above which the set that moves the fewest pods wins."""
MAX_SOLVED_SETS = 6
"""Maximum sets passed to the solver, most promising first."""
MAX_DROPS = 4
"""Maximum attempts to leave a node of the best set in place."""

MAX_REPLACED, MAX_WORST = 3, 12
"""Maximum nodes replaced by the replacement search, and the number of nodes with the highest excess cost it chooses
from.
"""
MAX_NODE_CHECKS = 4000
"""Limit of nodes checked by the replacement search over all sets: with more nodes, fewer sets are tried."""


def repack_consolidation(
    snapshot: DisruptionSnapshot,
    settings: DisruptionSettings,
    karpenter_decision: DisruptionDecision,
    stop: StopFunction = never_stop,
) -> DisruptionDecision:
    ordered, _, totals_by_pool = eligible_candidates(snapshot)
    sets, limited = _candidate_sets(ordered, allowed_disruptions(snapshot, UNDERUTILIZED), settings.max_pods)
    options = [] if karpenter_decision.command is None else [karpenter_decision.command]
    simulations: list[tuple[float, Sequence[Candidate], SchedulingSimulation]] = []
    pod_costs, pools = _PodCosts(), snapshot.pools()
    for subset in sets:
        if stop():
            break
        simulation = simulate_scheduling(snapshot, subset)
        if simulation.error:
            continue
        options += _commands_for(simulation, simulation.results, subset, settings)
        if simulation.results.new_node_claims:
            min_cost = sum(
                pod_costs.pod_cost(pod_requests(pod), pools[c.pool])
                for c in simulation.results.new_node_claims
                for pod in c.pods
            )
            simulations.append((sum(each.price for each in subset) - min_cost, subset, simulation))
    options = [each for each in options if is_approved(each, totals_by_pool)]
    for potential, subset, simulation in sorted(simulations, key=lambda each: -each[0])[:MAX_SOLVED_SETS]:
        if stop() or potential <= max((each.savings for each in options), default=0.0):
            break
        plan, _ = improve(simulation.inputs, simulation.results, iterations=settings.solver_iterations, stop=stop)
        options += [
            each for each in _commands_for(simulation, plan, subset, settings) if is_approved(each, totals_by_pool)
        ]
    max_sets = max(MAX_NODE_CHECKS // max(len(snapshot.inputs.existing_nodes), 1), 1)
    for potential, subset in _small_sets(ordered, allowed_disruptions(snapshot, UNDERUTILIZED))[:max_sets]:
        if stop() or potential <= max((each.savings for each in options), default=0.0):
            break
        simulation = simulate_scheduling(snapshot, subset)
        options += [
            each for each in _replacement_commands(simulation, subset, settings) if is_approved(each, totals_by_pool)
        ]
    if not options:
        return replace(karpenter_decision, budget_limited=karpenter_decision.budget_limited or limited)
    best_savings = max(each.savings for each in options)
    best = min((each for each in options if each.savings >= best_savings * NEAR_BEST_SHARE), key=_effort_key)
    return replace(
        karpenter_decision,
        command=_drop_unneeded(snapshot, settings, best, stop),
        budget_limited=karpenter_decision.budget_limited or limited,
    )


def repack_candidates(
    snapshot: DisruptionSnapshot,
    subset: Sequence[Candidate],
    settings: DisruptionSettings,
    stop: StopFunction = never_stop,
) -> Command | None:
    """Best command that removes all of them and saves something; None if there is none."""
    simulation = simulate_scheduling(snapshot, subset)
    if simulation.error:
        return None
    options = _commands_for(simulation, simulation.results, subset, settings)
    if simulation.results.new_node_claims:
        plan, _ = improve(simulation.inputs, simulation.results, iterations=settings.solver_iterations, stop=stop)
        options += _commands_for(simulation, plan, subset, settings)
    options += _replacement_commands(simulation, subset, settings)
    return max(options, key=lambda each: each.savings, default=None)


def _replacement_commands(
    simulation: SchedulingSimulation, subset: Sequence[Candidate], settings: DisruptionSettings
) -> list[Command]:
    plan = (
        search_replacements(simulation, subset, settings)
        if len(subset) <= MAX_REPLACED and not simulation.error
        else None
    )
    return _commands_for(simulation, plan, subset, settings) if plan is not None else []


def _small_sets(ordered: Sequence[Candidate], remaining: dict[str, int]) -> list[tuple[float, Sequence[Candidate]]]:
    """All small sets of the nodes with the highest excess cost, with their maximum savings."""
    pod_costs = _PodCosts()
    excess = {each.name: pod_costs.excess_cost(each) for each in ordered}
    worst = sorted(ordered, key=lambda each: (-excess[each.name], each.name))[:MAX_WORST]
    sets = (subset for count in range(1, MAX_REPLACED + 1) for subset in itertools.combinations(worst, count))
    allowed_sets = (subset for subset in sets if not within_budget(subset, remaining)[1])
    return sorted(
        ((sum(excess[each.name] for each in subset), subset) for subset in allowed_sets), key=lambda each: -each[0]
    )


def _commands_for(
    simulation: SchedulingSimulation, plan: Results, subset: Sequence[Candidate], settings: DisruptionSettings
) -> list[Command]:
    """Empty if it saves nothing."""
    pools = {pool.name: pool for pool in simulation.inputs.node_pools}
    claims = _affordable_claims(plan, pools, subset, settings)
    if claims is None:
        return []
    command = Command(
        UNDERUTILIZED, "repack", tuple(subset), tuple(with_replacement_name(each, subset) for each in claims), plan
    )
    predicted = predict(command, simulation.inputs, settings)
    return [predicted] if predicted is not None else []


def _affordable_claims(
    plan: Results, pools: dict[str, NodePoolInput], subset: Sequence[Candidate], settings: DisruptionSettings
) -> list[NewNodeClaim] | None:
    """Claims restricted to types whose total worst price saves enough; None if impossible."""
    if not plan.new_node_claims:
        return []
    spot = all(each.capacity_type == SPOT for each in subset)
    claims: list[NewNodeClaim] = []
    for each in plan.new_node_claims:
        claim = _pin_capacity_type(each, pools[each.pool], settings, spot=spot)
        if claim is None:
            return None
        claims.append(claim)
    worst_prices = [
        min((each.worst_price for each in priced_types(c, pools[c.pool])), default=math.inf) for c in claims
    ]
    max_cost = sum(each.price for each in subset) * (1.0 - settings.min_saving_share)
    if not sum(worst_prices) < max_cost:
        return None
    # The remaining savings allow slightly more expensive types, in case the cheapest are unavailable.
    slack = (max_cost - sum(worst_prices)) / len(claims)
    narrowed = [
        with_types_below(claim, pools[claim.pool], worst + slack)
        for claim, worst in zip(claims, worst_prices, strict=True)
    ]
    affordable = [claim for claim in narrowed if claim is not None]
    return affordable if len(affordable) == len(narrowed) else None


def _pin_capacity_type(
    claim: NewNodeClaim, pool: NodePoolInput, settings: DisruptionSettings, *, spot: bool
) -> NewNodeClaim | None:
    if not (spot and allows(claim, SPOT)):
        return pin_to_spot(claim, pool)
    return pin_capacity_type(claim, pool, SPOT) if settings.spot_to_spot_consolidation else None


def _drop_unneeded(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings, command: Command, stop: StopFunction
) -> Command:
    """Drops nodes that need not be disrupted: fewer pods move, and no less is saved."""
    if command.method != "repack":
        return command
    for each in sorted(command.candidates, key=lambda each: (-len(each.pods), each.name))[:MAX_DROPS]:
        rest = [other for other in command.candidates if other.name != each.name]
        if not rest or stop():
            break
        fewer = repack_candidates(snapshot, rest, settings, stop)
        if fewer is not None and fewer.savings >= command.savings - 1e-9:
            command = fewer
    return command


def _candidate_sets(
    ordered: Sequence[Candidate], remaining: dict[str, int], max_pods: int
) -> tuple[list[Sequence[Candidate]], bool]:
    """Prefixes of several orders within the budgets, and whether a budget excluded candidates."""
    sets: dict[frozenset[str], Sequence[Candidate]] = {}
    limited = False
    for order in _orders(ordered):
        kept, is_short = within_budget(order, remaining)
        limited |= is_short
        for subset in _prefixes(kept, max_pods):
            sets.setdefault(frozenset(each.name for each in subset), subset)
    return list(sets.values()), limited


def _orders(ordered: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """By price per disruption cost, by excess cost, and by excess cost per pod to move."""
    pod_costs = _PodCosts()
    excess = {each.name: pod_costs.excess_cost(each) for each in ordered}
    yield list(ordered)
    yield sorted(ordered, key=lambda each: (-excess[each.name], each.name))
    yield sorted(ordered, key=lambda each: (-excess[each.name] / (1 + len(each.pods)), each.name))


def _prefixes(order: Sequence[Candidate], max_pods: int) -> Iterator[Sequence[Candidate]]:
    size, last = 1, min(len(order), MAX_CANDIDATES)
    while last:
        prefix = order[: min(size, last)]
        if sum(len(each.pods) for each in prefix) > max_pods:
            return
        yield prefix
        if size >= last:
            return
        size = max(size + 1, size * 3 // 2)


class _PodCosts:
    """Minimum cost of pods: each one's share of the cheapest type for it. Cached for equal requests."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, tuple[tuple[str, int], ...]], float] = {}

    def excess_cost(self, candidate: Candidate) -> float:
        """Price of a node beyond the minimum cost of its pods."""
        return candidate.price - sum(self.pod_cost(pod_requests(pod), candidate.pool) for pod in candidate.pods)

    def pod_cost(self, requests: Resources, pool: NodePoolInput) -> float:
        key = (pool.name, tuple(sorted(requests.items())))
        if key not in self._cache:
            lowest = min((_share_cost(requests, kind) for kind in pool.types), default=math.inf)
            self._cache[key] = 0.0 if math.isinf(lowest) else lowest
        return self._cache[key]


def _share_cost(requests: Resources, kind: InstanceType) -> float:
    share = max((_fraction(amount, kind.allocatable.get(name, 0)) for name, amount in requests.items()), default=0.0)
    return min((each.price * share for each in kind.offerings if each.available and share <= 1.0), default=math.inf)


def _fraction(amount: int, capacity: int) -> float:
    return amount / capacity if capacity > 0 else math.inf if amount > 0 else 0.0


def _effort_key(command: Command) -> tuple[int, int, float, list[str]]:
    return (
        command.pods_moved,
        len(command.candidates) + len(command.replacements),
        -command.savings,
        sorted(each.name for each in command.candidates),
    )
