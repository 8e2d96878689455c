"""Upper bounds on the value of a node of each option, given item duals.

Resources get dual prices. For any dual prices, a node is worth at most the price of its resources plus the excess of
its items over their resource prices. The best ones are the duals of the LP knapsack; options that are not `active`
borrow those of another option.
"""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.instance import UNBOUNDED, Floats, Ints, PackingInstance
from shoal.provision.solver.knapsack import CardinalityGroups, Knapsack, KnapsackSolution

_MAX_LENDERS = 12
"""Options whose duals are borrowed by options without their own."""


class DualBounds:
    def __init__(self, instance: PackingInstance) -> None:
        self._instance = instance
        self._requests = instance.requests.astype(np.float64)
        self._capacity = np.maximum(instance.capacity, 0).astype(np.float64)
        self._item_limits, self._groups = _cardinality_groups(instance)
        self._knapsacks: dict[int, Knapsack] = {}
        self.resource_duals: Floats = 1.0 / np.maximum(self._capacity, 1.0)
        """k x m: dual price of one unit of each resource, by option."""

    def update_duals(self, values: Floats, bounds: Ints, active: Ints) -> None:
        """Updates the duals of the active options for these item values and upper bounds."""
        item_bounds = np.minimum(bounds, self._item_limits)
        for option in active.tolist():
            self.resource_duals[option] = self._knapsack(option).resource_duals(values, item_bounds)

    def upper_bounds(self, values: Floats, bounds: Ints, active: Ints) -> Floats:
        """k: upper bound of the value of a node of each option."""
        options = np.arange(self._instance.options)
        others = np.setdiff1d(options, active)
        lenders = active[np.linspace(0, len(active) - 1, min(len(active), _MAX_LENDERS)).astype(np.int64)]
        best = np.full(len(others), np.inf)
        for lender in lenders.tolist() if len(others) else ():
            value = self._max_value(
                others, np.repeat(self.resource_duals[[lender]], len(others), axis=0), values, bounds
            )
            self.resource_duals[others[value < best]] = self.resource_duals[lender]
            best = np.minimum(best, value)
        return self._max_value(options, self.resource_duals, values, bounds)

    def solve_knapsack(self, values: Floats, bounds: Ints, option: int) -> KnapsackSolution:
        """Integer knapsack of one option."""
        return self._knapsack(option).solve(values, np.minimum(bounds, self._item_limits))

    def _max_value(self, options: Ints, duals: Floats, values: Floats, bounds: Ints) -> Floats:
        excess = np.maximum(values - duals @ self._requests.T, 0.0) * self._instance.allowed[options]
        limited = np.minimum(bounds, self._item_limits) * excess
        value: Floats = (duals * self._capacity[options]).sum(axis=1) + limited.sum(axis=1)
        for members, most in self._groups:
            total = limited[:, members].sum(axis=1)
            value += np.minimum(total, most * excess[:, members].max(axis=1)) - total
        return value

    def _knapsack(self, option: int) -> Knapsack:
        knapsack = self._knapsacks.get(option)
        if knapsack is None:
            allowed, capacity = self._instance.allowed[option], self._capacity[option]
            knapsack = self._knapsacks[option] = Knapsack(self._requests, capacity, allowed, self._groups)
        return knapsack


def _cardinality_groups(instance: PackingInstance) -> tuple[Ints, CardinalityGroups]:
    """Limit of each item by itself, and cardinality groups. An item is in one group only."""
    item_limits = np.full(instance.items, UNBOUNDED, np.int64)
    groups: CardinalityGroups = []
    grouped = np.zeros(instance.items, np.bool_)
    for counted, most in zip(instance.counted, instance.node_limits, strict=True):
        item_limits = np.where(counted, np.minimum(item_limits, most), item_limits)
        members = np.flatnonzero(counted & (most < UNBOUNDED) & ~grouped)
        if len(members) > 1:
            grouped[members] = True
            groups.append((members, int(most[members].max())))
    return item_limits, groups
