"""Consolidation policy Balanced: the relative savings of a command must justify its relative disruption. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shoal.kinds.karpenter.karpenter import BALANCED, nodepool_of
from shoal.provision.disruption.budgets import disruption_spec
from shoal.provision.disruption.model import Candidate, Command, DisruptionSnapshot
from shoal.provision.evictability import eviction_cost, is_reschedulable

THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """Total cost and disruption of a NodePool."""

    cost: float
    disruption: float


def totals(snapshot: DisruptionSnapshot, all_candidates: Iterable[Candidate]) -> dict[str, PoolTotals]:
    """Disruption includes nodes that are not candidates."""
    costs: dict[str, float] = {}
    for each in all_candidates:
        costs[each.pool.name] = costs.get(each.pool.name, 0.0) + each.price
    disruptions: dict[str, float] = {}
    for state_node in snapshot.nodes:
        pool = nodepool_of(state_node.claim)
        pods = (pod for pod in state_node.pods if is_reschedulable(pod))
        disruptions[pool] = disruptions.get(pool, 0.0) + 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in pods)
    return {name: PoolTotals(costs[name], disruptions.get(name, 0.0)) for name in costs}


def score(savings: float, disruption: float, totals_by_pool: PoolTotals) -> float:
    if totals_by_pool.cost <= 0 or totals_by_pool.disruption <= 0 or savings <= 0:
        return 0.0
    return (savings / totals_by_pool.cost) / (disruption / totals_by_pool.disruption)


def is_approved(command: Command, totals_by_pool: Mapping[str, PoolTotals]) -> bool:
    """True if every NodePool with the policy approves. Savings are attributed by the cost of the pool's nodes."""
    by_pool: dict[str, list[Candidate]] = {}
    for each in command.candidates:
        by_pool.setdefault(each.pool.name, []).append(each)
    for name, pool_candidates in by_pool.items():
        if not _is_balanced(pool_candidates[0]):
            continue
        share = (
            sum(each.price for each in pool_candidates) / command.cost if len(by_pool) > 1 and command.cost > 0 else 1.0
        )
        disruption = sum(each.disruption_cost for each in pool_candidates)
        if score(command.savings * share, disruption, totals_by_pool.get(name, PoolTotals(0.0, 0.0))) < THRESHOLD:
            return False
    return True


def may_be_approved(candidate: Candidate, totals_by_pool: Mapping[str, PoolTotals]) -> bool:
    """True if removing the node without a replacement would be approved."""
    pool_totals = totals_by_pool.get(candidate.pool.name)
    if not _is_balanced(candidate) or pool_totals is None or pool_totals.cost <= 0:
        return True
    return score(candidate.price, candidate.disruption_cost, pool_totals) >= THRESHOLD


def _is_balanced(candidate: Candidate) -> bool:
    return disruption_spec(candidate.pool.node_pool).get("consolidationPolicy") == BALANCED
