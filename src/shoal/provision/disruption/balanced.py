"""Consolidation policy Balanced: the relative savings of a command must justify its relative disruption. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shoal.kinds.karpenter import BALANCED, pool_of
from shoal.provision.disruption.budgets import disruption_of
from shoal.provision.disruption.evicting import cost, is_reschedulable
from shoal.provision.disruption.model import Candidate, Command, Snapshot

THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class Totals:
    """Total cost and disruption of a NodePool."""

    cost: float
    disruption: float


def totals(snapshot: Snapshot, found: Iterable[Candidate]) -> dict[str, Totals]:
    """Disruption includes nodes that are not candidates."""
    costs: dict[str, float] = {}
    for each in found:
        costs[each.pool.name] = costs.get(each.pool.name, 0.0) + each.price
    disruptions: dict[str, float] = {}
    for standing in snapshot.nodes:
        pool = pool_of(standing.claim)
        pods = (pod for pod in standing.pods if is_reschedulable(pod))
        disruptions[pool] = disruptions.get(pool, 0.0) + 1.0 + sum(max(0.0, cost(pod)) for pod in pods)
    return {name: Totals(costs[name], disruptions.get(name, 0.0)) for name in costs}


def score(savings: float, disruption: float, sums: Totals) -> float:
    if sums.cost <= 0 or sums.disruption <= 0 or savings <= 0:
        return 0.0
    return (savings / sums.cost) / (disruption / sums.disruption)


def approved(command: Command, sums: Mapping[str, Totals]) -> bool:
    """True if every NodePool with the policy approves. Savings are attributed by the cost of the pool's nodes."""
    by_pool: dict[str, list[Candidate]] = {}
    for each in command.candidates:
        by_pool.setdefault(each.pool.name, []).append(each)
    for name, mine in by_pool.items():
        if not _is_balanced(mine[0]):
            continue
        share = sum(each.price for each in mine) / command.cost if len(by_pool) > 1 and command.cost > 0 else 1.0
        disruption = sum(each.disruption for each in mine)
        if score(command.savings * share, disruption, sums.get(name, Totals(0.0, 0.0))) < THRESHOLD:
            return False
    return True


def can_pass(candidate: Candidate, sums: Mapping[str, Totals]) -> bool:
    """True if removing the node without a replacement would be approved."""
    known = sums.get(candidate.pool.name)
    if not _is_balanced(candidate) or known is None or known.cost <= 0:
        return True
    return score(candidate.price, candidate.disruption, known) >= THRESHOLD


def _is_balanced(candidate: Candidate) -> bool:
    return disruption_of(candidate.pool.pool).get("consolidationPolicy") == BALANCED
