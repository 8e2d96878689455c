"""Finds the cheapest packing of an instance, starting from an incumbent, and a lower bound.

Column generation provides the bound and good columns; then rounding and local search. The cheapest packing seen wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.provision.solver.columns import Budget, Columns
from shoal.provision.solver.improving import improved
from shoal.provision.solver.instance import Instance, Packing, amounts, cost, price, problem
from shoal.provision.solver.merging import merged
from shoal.provision.solver.rounding import dive, shrunk

ITERATIONS = 300
"""About two seconds for a thousand pods of thirty kinds."""
_EASY, _HARD = 0.25, 0.35
"""Shares of the budget for columns found heuristically and for exact pricing."""
_MANY, _STEPS = 160, 0.8
"""With more items than this, this share of the budget goes to local search, which then comes first."""


@dataclass(frozen=True, slots=True)
class Solution:
    nodes: Packing
    price: float
    bound: float
    """0: unknown."""
    iterations: int


def solve(
    instance: Instance, incumbent: Packing, *, iterations: int = ITERATIONS, stop: Callable[[], bool] = lambda: False
) -> Solution:
    """Never more expensive than the incumbent, which must be a valid packing. Deterministic as long as `stop` returns
    False.
    """
    budget = Budget(iterations, stop)
    columns = Columns(instance, budget)
    for each, _ in incumbent:
        columns.master.add(each.option, amounts(instance, each))
    columns.pricer.activate(np.asarray([each.option for each, _ in incumbent], np.int64))
    known = [shrunk(instance, incumbent, instance.limits)]
    if instance.items > _MANY:
        # The linear program does not converge in time: it runs last, only for the bound.
        known.append(improved(columns, known[0], int(iterations * _STEPS)))
        columns.generate_whole(iterations, hard=False)
    else:
        for share, hard in ((_EASY, False), (_HARD, True)):
            columns.generate_whole(int(iterations * share), hard=hard)
            found = dive(columns, instance.counts, instance.limits)
            known += [found] if found is not None else []
        known.append(improved(columns, min(known, key=lambda each: cost(instance, each)), iterations))
    known.append(merged(instance, known[-1], stop))
    most = price(instance, incumbent)
    right = [each for each in reversed(known) if price(instance, each) <= most and not problem(instance, each)]
    nodes = right[0] if right else incumbent
    least = price(instance, nodes)
    return Solution(nodes, least, min(columns.bound, least), budget.used)
