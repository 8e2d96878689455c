"""Column generation: adds columns with negative reduced cost until none is found, and maintains a lower bound."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.provision.solver.filling import Filled
from shoal.provision.solver.instance import Floats, Instance, Ints
from shoal.provision.solver.master import Answer, Master, fluid
from shoal.provision.solver.pricing import ACTIVE, Pricer

_WORTH = 1e-7
"""Relative margin by which a column must be worth more than its cost."""
_NEAR = 0.03
"""Relative margin below cost within which a node is retried with an item swapped."""
_NOTED = 5
"""Rounds between two updates of the bound."""
_CLOSED = 5e-4
"""Relative gap to the LP at which the bound is good enough."""
_ITEMS = 80
"""A round counts as one step more for each multiple of this many items."""
_SEARCH_STEPS = 4
"""Steps that one exact pricing counts as."""
_SEARCHES, _ADDED = 12, 4
"""Maximum options priced exactly in a row, and number of columns found at which that stops."""


@dataclass(slots=True)
class Budget:
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


class Columns:
    def __init__(self, instance: Instance, budget: Budget) -> None:
        self.instance, self.budget, self.pricer = instance, budget, Pricer(instance)
        positive = instance.prices[instance.prices > 0]
        dear = 100.0 * float(positive.max(initial=1.0))
        self.master = Master(instance, dear)
        self.bound = fluid(instance)
        self.values: Floats = _shares(instance)
        """Item duals: initially shares of node prices, then duals of the full LP."""
        self.weight = 1 + instance.items // _ITEMS
        """Steps that a round counts as."""

    def generate(self, counts: Ints, limits: Ints, steps: int) -> Answer:
        """LP solution for this demand, with new columns found heuristically."""
        return self._generate(counts, limits, steps, whole=False, hard=False)

    def generate_whole(self, steps: int, *, hard: bool) -> Answer:
        """LP solution for the full demand, with bound updates. `exact`: also exact pricing."""
        answer = self._generate(self.instance.counts, self.instance.limits, steps, whole=True, hard=hard)
        self.values = answer.values
        return answer

    def _generate(self, counts: Ints, limits: Ints, steps: int, *, whole: bool, hard: bool) -> Answer:
        self.master.demand(counts, limits)
        answer = self.master.solve()
        end = self.budget.used + steps
        for number in itertools.count():
            if self.budget.used >= end or not self.budget.spend(self.weight):
                break
            self.pricer.weigh(answer.values, counts)
            easy = self._price(answer, counts)
            if not easy and not whole:
                break
            if whole and (not easy or number % _NOTED == 0):
                ceilings = self.pricer.bounder.bound(answer.values, counts, self.pricer.active)
                self._note(answer, counts, limits, ceilings)
                if self._is_closed(answer, counts, limits):
                    break
                if not easy and not (
                    self._activate(answer, ceilings) or (hard and self._search(answer, counts, limits, ceilings))
                ):
                    break
            answer = self.master.solve()
        return answer

    def _price(self, answer: Answer, counts: Ints) -> int:
        """Returns the number of columns added."""
        values, costs = answer.values, self._costs(answer)
        filled = self.pricer.fill(values, counts)
        if not len(filled.items):
            return 0
        worth = filled.worth(values)
        best = _best(filled.options, worth)
        added = self._add(values, costs, filled, best)
        if added:
            return added
        near = best[worth[best] >= costs[filled.options[best]] * (1 - _NEAR)]
        filled = self.pricer.exchange(values, counts, filled, near)
        return self._add(values, costs, filled, _best(filled.options, filled.worth(values)))

    def _add(self, values: Floats, costs: Floats, filled: Filled, rows: Ints) -> int:
        """Adds the nodes that are worth more than they cost."""
        worth, options = filled.worth(values)[rows], filled.options[rows]
        good = rows[worth > costs[options] * (1 + _WORTH)]
        return sum(self.master.add(int(filled.options[row]), filled.whole(row)) for row in good.tolist())

    def _is_closed(self, answer: Answer, counts: Ints, limits: Ints) -> bool:
        """True if the bound has reached the LP value."""
        return self.bound >= float(answer.values @ counts - answer.tolls @ limits) * (1 - _CLOSED)

    def _activate(self, answer: Answer, ceilings: Floats) -> bool:
        """Activates options whose upper bound exceeds their cost, most promising first."""
        promise = ceilings / np.maximum(self._costs(answer), 1e-12)
        promise[self.pricer.active] = 0.0
        few = np.argsort(-promise, kind="stable")[: ACTIVE // 4]
        return self.pricer.activate(few[promise[few] > 1 + _WORTH])

    def _costs(self, answer: Answer) -> Floats:
        instance = self.instance
        return instance.prices + answer.tolls @ instance.takes if len(instance.limits) else instance.prices

    def _note(self, answer: Answer, counts: Ints, limits: Ints, ceilings: Floats) -> None:
        """Farley bound: duals scaled so that no node is worth more than its price bound any packing."""
        instance = self.instance
        total = float(answer.values @ counts - answer.tolls @ limits)
        beyond = ceilings - (answer.tolls @ instance.takes if len(limits) else 0.0)
        free = instance.prices <= 0
        if total <= 0 or (beyond[free] > 1e-9).any():
            return
        scale = float((beyond[~free] / instance.prices[~free]).max(initial=0.0))
        if scale > 0:
            self.bound = max(self.bound, total / scale)

    def _search(self, answer: Answer, counts: Ints, limits: Ints, ceilings: Floats) -> int:
        """Prices the most promising options exactly and returns the number of columns added. If none is found, the
        bound improves.
        """
        costs, ceilings = self._costs(answer), ceilings.copy()
        added = searched = 0
        while searched < _SEARCHES and added < _ADDED:
            option = int((ceilings / np.maximum(costs, 1e-12)).argmax())
            enough = float(costs[option]) * (1 + _WORTH)
            if ceilings[option] <= enough or not self.budget.spend(_SEARCH_STEPS):
                break
            searched += 1
            contents, bound = self.pricer.best(answer.values, counts, option)
            worth = float(contents @ answer.values)
            gains = worth > enough and self.master.add(option, contents)
            added += gains
            if not gains and bound >= ceilings[option] * (1 - 1e-6):
                break
            ceilings[option] = min(bound, ceilings[option]) if not gains else enough
        if not added:
            self._note(answer, counts, limits, ceilings)
        return added


def _shares(instance: Instance) -> Floats:
    """Cheapest price share of each item over all options."""
    capacity = np.maximum(instance.capacity, 1).astype(np.float64)
    found = np.full(instance.items, np.inf)
    for option in range(instance.options):
        share = (instance.requests / capacity[option]).max(axis=1) * instance.prices[option]
        found = np.where(instance.allowed[option], np.minimum(found, share), found)
    return np.where(np.isfinite(found), found, 0.0)


def _best(options: Ints, worth: Floats) -> Ints:
    """Row with the highest value, by option."""
    order = np.lexsort((-worth, options))
    _, first = np.unique(options[order], return_index=True)
    return order[first]
