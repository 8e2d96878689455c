"""Column generation: adds columns with negative reduced cost until none is found, and maintains a lower bound."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.provision.solver.greedy_fill import FilledNodes
from shoal.provision.solver.instance import Floats, Ints, PackingInstance
from shoal.provision.solver.master import MasterSolution, RestrictedMaster, fluid_bound
from shoal.provision.solver.pricing import MAX_ACTIVE, PricingProblem

_MIN_REDUCED_COST = 1e-7
"""Relative margin by which a column must be worth more than its cost."""
_NEAR_MISS = 0.03
"""Relative margin below cost within which a node is retried with an item swapped."""
_BOUND_INTERVAL = 5
"""Rounds between two updates of the bound."""
_GAP_TOLERANCE = 5e-4
"""Relative gap to the LP at which the bound is good enough."""
_ITEMS_PER_STEP = 80
"""A round counts as one step more for each multiple of this many items."""
_EXACT_STEPS = 4
"""Steps that one exact pricing counts as."""
_MAX_EXACT, _ENOUGH_COLUMNS = 12, 4
"""Maximum options priced exactly in a row, and number of columns found at which that stops."""


@dataclass(slots=True)
class StepBudget:
    """Step budget. Counting steps instead of time makes the result deterministic until `stop` returns True."""

    steps: int
    stop: Callable[[], bool] = lambda: False
    used: int = 0

    def spend(self, steps: int = 1) -> bool:
        """Spends `steps` and returns True if any budget is left."""
        if self.used >= self.steps or self.stop():
            return False
        self.used += steps
        return True


class ColumnGenerator:
    def __init__(self, instance: PackingInstance, budget: StepBudget) -> None:
        self.instance, self.budget, self.pricer = instance, budget, PricingProblem(instance)
        positive = instance.prices[instance.prices > 0]
        penalty = 100.0 * float(positive.max(initial=1.0))
        self.master = RestrictedMaster(instance, penalty)
        self.bound = fluid_bound(instance)
        self.item_duals: Floats = _initial_duals(instance)
        """Item duals: initially shares of node prices, then duals of the full LP."""
        self.round_steps = 1 + instance.items // _ITEMS_PER_STEP
        """Steps that a round counts as."""

    def generate(self, counts: Ints, limits: Ints, steps: int) -> MasterSolution:
        """LP solution for this demand, with new columns found heuristically."""
        return self._generate(counts, limits, steps, full=False, exact=False)

    def generate_full(self, steps: int, *, exact: bool) -> MasterSolution:
        """LP solution for the full demand, with bound updates. `exact`: also exact pricing."""
        answer = self._generate(self.instance.counts, self.instance.limits, steps, full=True, exact=exact)
        self.item_duals = answer.item_duals
        return answer

    def _generate(self, counts: Ints, limits: Ints, steps: int, *, full: bool, exact: bool) -> MasterSolution:
        self.master.set_demand(counts, limits)
        answer = self.master.solve()
        step_limit = self.budget.used + steps
        for number in itertools.count():
            if self.budget.used >= step_limit or not self.budget.spend(self.round_steps):
                break
            self.pricer.update_duals(answer.item_duals, counts)
            added = self._price_heuristically(answer, counts)
            if not added and not full:
                break
            if full and (not added or number % _BOUND_INTERVAL == 0):
                ceilings = self.pricer.dual_bounds.upper_bounds(answer.item_duals, counts, self.pricer.active)
                self._update_bound(answer, counts, limits, ceilings)
                if self._is_gap_closed(answer, counts, limits):
                    break
                if not added and not (
                    self._activate_options(answer, ceilings)
                    or (exact and self._price_exactly(answer, counts, limits, ceilings))
                ):
                    break
            answer = self.master.solve()
        return answer

    def _price_heuristically(self, answer: MasterSolution, counts: Ints) -> int:
        """Returns the number of columns added."""
        values, costs = answer.item_duals, self._costs(answer)
        filled = self.pricer.fill_nodes(values, counts)
        if not len(filled.items):
            return 0
        worth = filled.values(values)
        best = _best_rows(filled.options, worth)
        added = self._add_columns(values, costs, filled, best)
        if added:
            return added
        near = best[worth[best] >= costs[filled.options[best]] * (1 - _NEAR_MISS)]
        filled = self.pricer.swap_items(values, counts, filled, near)
        return self._add_columns(values, costs, filled, _best_rows(filled.options, filled.values(values)))

    def _add_columns(self, values: Floats, costs: Floats, filled: FilledNodes, rows: Ints) -> int:
        """Adds the nodes that are worth more than they cost."""
        worth, options = filled.values(values)[rows], filled.options[rows]
        improving = rows[worth > costs[options] * (1 + _MIN_REDUCED_COST)]
        return sum(self.master.add(int(filled.options[row]), filled.full_contents(row)) for row in improving.tolist())

    def _is_gap_closed(self, answer: MasterSolution, counts: Ints, limits: Ints) -> bool:
        """True if the bound has reached the LP value."""
        return self.bound >= float(answer.item_duals @ counts - answer.limit_duals @ limits) * (1 - _GAP_TOLERANCE)

    def _activate_options(self, answer: MasterSolution, ceilings: Floats) -> bool:
        """Activates options whose upper bound exceeds their cost, most promising first."""
        ratio = ceilings / np.maximum(self._costs(answer), 1e-12)
        ratio[self.pricer.active] = 0.0
        best = np.argsort(-ratio, kind="stable")[: MAX_ACTIVE // 4]
        return self.pricer.activate(best[ratio[best] > 1 + _MIN_REDUCED_COST])

    def _costs(self, answer: MasterSolution) -> Floats:
        instance = self.instance
        return instance.prices + answer.limit_duals @ instance.limit_usage if len(instance.limits) else instance.prices

    def _update_bound(self, answer: MasterSolution, counts: Ints, limits: Ints, ceilings: Floats) -> None:
        """Farley bound: duals scaled so that no node is worth more than its price bound any packing."""
        instance = self.instance
        total = float(answer.item_duals @ counts - answer.limit_duals @ limits)
        net_value = ceilings - (answer.limit_duals @ instance.limit_usage if len(limits) else 0.0)
        free = instance.prices <= 0
        if total <= 0 or (net_value[free] > 1e-9).any():
            return
        scale = float((net_value[~free] / instance.prices[~free]).max(initial=0.0))
        if scale > 0:
            self.bound = max(self.bound, total / scale)

    def _price_exactly(self, answer: MasterSolution, counts: Ints, limits: Ints, ceilings: Floats) -> int:
        """Prices the most promising options exactly and returns the number of columns added. If none is found, the
        bound improves.
        """
        costs, ceilings = self._costs(answer), ceilings.copy()
        added = attempts = 0
        while attempts < _MAX_EXACT and added < _ENOUGH_COLUMNS:
            option = int((ceilings / np.maximum(costs, 1e-12)).argmax())
            threshold = float(costs[option]) * (1 + _MIN_REDUCED_COST)
            if ceilings[option] <= threshold or not self.budget.spend(_EXACT_STEPS):
                break
            attempts += 1
            contents, bound = self.pricer.best_contents(answer.item_duals, counts, option)
            worth = float(contents @ answer.item_duals)
            gains = worth > threshold and self.master.add(option, contents)
            added += gains
            if not gains and bound >= ceilings[option] * (1 - 1e-6):
                break
            ceilings[option] = min(bound, ceilings[option]) if not gains else threshold
        if not added:
            self._update_bound(answer, counts, limits, ceilings)
        return added


def _initial_duals(instance: PackingInstance) -> Floats:
    """Cheapest price share of each item over all options."""
    capacity = np.maximum(instance.capacity, 1).astype(np.float64)
    lowest = np.full(instance.items, np.inf)
    for option in range(instance.options):
        share = (instance.requests / capacity[option]).max(axis=1) * instance.prices[option]
        lowest = np.where(instance.allowed[option], np.minimum(lowest, share), lowest)
    return np.where(np.isfinite(lowest), lowest, 0.0)


def _best_rows(options: Ints, worth: Floats) -> Ints:
    """Row with the highest value, by option."""
    order = np.lexsort((-worth, options))
    _, first = np.unique(options[order], return_index=True)
    return order[first]
