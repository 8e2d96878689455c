"""Finds the cheapest packing of an instance, starting from an incumbent, and a lower bound.

Column generation provides the bound and good columns; then rounding and local search. The cheapest packing seen wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.provision.solver.column_generation import ColumnGenerator, StepBudget
from shoal.provision.solver.instance import (
    Packing,
    PackingInstance,
    contents_of,
    packing_cost,
    packing_error,
    packing_price,
)
from shoal.provision.solver.local_search import local_search
from shoal.provision.solver.merge import merge_pairs
from shoal.provision.solver.rounding import diving_heuristic, downsize_nodes

ITERATIONS = 300
"""About two seconds for a thousand pods of thirty kinds."""
_HEURISTIC_SHARE, _EXACT_SHARE = 0.25, 0.35
"""Shares of the budget for columns found heuristically and for exact pricing."""
_MANY_ITEMS, _LOCAL_SEARCH_SHARE = 160, 0.8
"""With more items than this, this share of the budget goes to local search, which then comes first."""


@dataclass(frozen=True, slots=True)
class Solution:
    nodes: Packing
    price: float
    bound: float
    """0: unknown."""
    iterations: int


def solve(
    instance: PackingInstance,
    incumbent: Packing,
    *,
    iterations: int = ITERATIONS,
    stop: Callable[[], bool] = lambda: False,
) -> Solution:
    """Never more expensive than the incumbent, which must be a valid packing. Deterministic as long as `stop` returns
    False.
    """
    budget = StepBudget(iterations, stop)
    columns = ColumnGenerator(instance, budget)
    for each, _ in incumbent:
        columns.master.add(each.option, contents_of(instance, each))
    columns.pricer.activate(np.asarray([each.option for each, _ in incumbent], np.int64))
    packings = [downsize_nodes(instance, incumbent, instance.limits)]
    if instance.items > _MANY_ITEMS:
        # The linear program does not converge in time: it runs last, only for the bound.
        packings.append(local_search(columns, packings[0], int(iterations * _LOCAL_SEARCH_SHARE)))
        columns.generate_full(iterations, exact=False)
    else:
        for share, exact in ((_HEURISTIC_SHARE, False), (_EXACT_SHARE, True)):
            columns.generate_full(int(iterations * share), exact=exact)
            rounded = diving_heuristic(columns, instance.counts, instance.limits)
            packings += [rounded] if rounded is not None else []
        packings.append(local_search(columns, min(packings, key=lambda each: packing_cost(instance, each)), iterations))
    packings.append(merge_pairs(instance, packings[-1], stop))
    incumbent_price = packing_price(instance, incumbent)
    feasible = [
        each
        for each in reversed(packings)
        if packing_price(instance, each) <= incumbent_price and not packing_error(instance, each)
    ]
    nodes = feasible[0] if feasible else incumbent
    best_price = packing_price(instance, nodes)
    return Solution(nodes, best_price, min(columns.bound, best_price), budget.used)
