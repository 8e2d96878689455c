"""Upper bounds on the value of a node of each option, given item duals.

Resources get dual prices. For any dual prices, a node is worth at most the price of its resources plus the excess of
its items over their resource prices. The best ones are the duals of the LP knapsack; options that are not `active`
borrow those of another option.
"""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.instance import MANY, Floats, Instance, Ints
from shoal.provision.solver.knapsack import Found, Groups, Knapsack

_LENDERS = 12
"""Options whose duals are borrowed by options without their own."""


class Bounder:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._requests = instance.requests.astype(np.float64)
        self._capacity = np.maximum(instance.capacity, 0).astype(np.float64)
        self._own, self._groups = _groups(instance)
        self._programs: dict[int, Knapsack] = {}
        self.rates: Floats = 1.0 / np.maximum(self._capacity, 1.0)
        """k x m: dual price of one unit of each resource, by option."""

    def weigh(self, values: Floats, bounds: Ints, active: Ints) -> None:
        """Updates the duals of the active options for these item values and upper bounds."""
        wanted = np.minimum(bounds, self._own)
        for option in active.tolist():
            self.rates[option] = self._program(option).rates(values, wanted)

    def bound(self, values: Floats, bounds: Ints, active: Ints) -> Floats:
        """k: upper bound of the value of a node of each option."""
        options = np.arange(self._instance.options)
        others = np.setdiff1d(options, active)
        lenders = active[np.linspace(0, len(active) - 1, min(len(active), _LENDERS)).astype(np.int64)]
        best = np.full(len(others), np.inf)
        for lender in lenders.tolist() if len(others) else ():
            worth = self._worth(others, np.repeat(self.rates[[lender]], len(others), axis=0), values, bounds)
            self.rates[others[worth < best]] = self.rates[lender]
            best = np.minimum(best, worth)
        return self._worth(options, self.rates, values, bounds)

    def best(self, values: Floats, bounds: Ints, option: int) -> Found:
        """Integer knapsack of one option."""
        return self._program(option).best(values, np.minimum(bounds, self._own))

    def _worth(self, options: Ints, rates: Floats, values: Floats, bounds: Ints) -> Floats:
        beyond = np.maximum(values - rates @ self._requests.T, 0.0) * self._instance.allowed[options]
        own = np.minimum(bounds, self._own) * beyond
        worth: Floats = (rates * self._capacity[options]).sum(axis=1) + own.sum(axis=1)
        for members, most in self._groups:
            total = own[:, members].sum(axis=1)
            worth += np.minimum(total, most * beyond[:, members].max(axis=1)) - total
        return worth

    def _program(self, option: int) -> Knapsack:
        found = self._programs.get(option)
        if found is None:
            allowed, capacity = self._instance.allowed[option], self._capacity[option]
            found = self._programs[option] = Knapsack(self._requests, capacity, allowed, self._groups)
        return found


def _groups(instance: Instance) -> tuple[Ints, Groups]:
    """Limit of each item by itself, and cardinality groups. An item is in one group only."""
    own = np.full(instance.items, MANY, np.int64)
    sets: Groups = []
    seen = np.zeros(instance.items, np.bool_)
    for counted, most in zip(instance.counted, instance.most, strict=True):
        own = np.where(counted, np.minimum(own, most), own)
        members = np.flatnonzero(counted & (most < MANY) & ~seen)
        if len(members) > 1:
            seen[members] = True
            sets.append((members, int(most[members].max())))
    return own, sets
