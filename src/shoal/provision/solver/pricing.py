"""Pricing problem: finds node contents worth more than the node costs, given item duals.

First greedy filling in many orders at once; near misses are retried with one item swapped; exact pricing of one option
only if that finds nothing.
"""

from __future__ import annotations

import itertools

import numpy as np

from shoal.provision.solver.bounding import Bounder
from shoal.provision.solver.filling import Filled, Filler
from shoal.provision.solver.instance import Floats, Instance, Ints, holds

_WORK = 40_000
"""Approximate limit of nodes filled at once times items."""
_FINENESS = {1: 1, 2: 6, 3: 4}
"""Grid resolution of resource weights, by number of resources."""
_WEIGHED = 6_000
"""Approximate limit of LP knapsacks per round times items."""
ACTIVE = 48
"""Options priced closely at the start."""


class Pricer:
    def __init__(self, instance: Instance) -> None:
        self.instance, self.filler, self.bounder = instance, Filler(instance), Bounder(instance)
        self._mixes = _mixes(instance)
        self._requests = instance.requests.astype(np.float64)
        self._capacity = np.maximum(instance.capacity, 1).astype(np.float64)
        self.active: Ints = _some(instance) if instance.options > ACTIVE else np.arange(instance.options)
        self._turn = 0

    def activate(self, options: Ints) -> bool:
        """Returns True if some of them were not active before."""
        before = len(self.active)
        self.active = np.union1d(self.active, options)
        return len(self.active) > before

    def weigh(self, values: Floats, bounds: Ints) -> None:
        """Updates the duals of the active options: all of them, or in turns if that takes too long."""
        few = min(len(self.active), max(4, _WEIGHED // max(1, self.instance.items)))
        self.bounder.weigh(values, bounds, np.roll(self.active, -self._turn)[:few])
        self._turn = (self._turn + few) % len(self.active)

    def fill(self, values: Floats, bounds: Ints, most: float = np.inf, work: int = _WORK) -> Filled:
        """Fills several nodes of each active option that costs at most `max_price`."""
        items = np.flatnonzero((bounds > 0) & (values > 0))
        which = self.active[self.instance.prices[self.active] <= most]
        options, weights = self._weights(which, work // max(1, len(items)))
        return self.filler.fill(items, options, self._orders(values, weights, items), bounds[items])

    def exchange(self, values: Floats, bounds: Ints, filled: Filled, rows: Ints) -> Filled:
        """Removes one unit of one item from these nodes and fills them again without that item."""
        items = filled.items
        held = np.argwhere(filled.contents[rows] > 0)[: max(1, 2 * _WORK // max(1, len(items)))]
        which, without = rows[held[:, 0]], held[:, 1]
        start = filled.contents[which]
        start[np.arange(len(which)), without] -= 1
        more = bounds[items] - start
        more[np.arange(len(which)), without] = 0
        options = filled.options[which]
        orders = self._orders(values, self.bounder.rates[options], items)
        return self.filler.fill(items, options, orders, more, start)

    def best(self, values: Floats, bounds: Ints, option: int) -> tuple[Ints, float]:
        """Approximately best contents of one node, and an upper bound of its value."""
        found = self.bounder.best(values, bounds, option)
        which, contents = np.asarray([option]), np.minimum(found.contents, bounds)
        if not holds(self.instance, which, contents)[0]:
            items = np.flatnonzero(contents)
            orders = self._orders(values, self.bounder.rates[which], items)
            contents = self.filler.fill(items, which, orders, contents[items]).whole(0)
        return contents, found.bound

    def _weights(self, which: Ints, rows: int) -> tuple[Ints, Floats]:
        """Resource weights for these options: the duals, variations of them, and a grid; about `rows` rows."""
        rates = self.bounder.rates[which] * self._capacity[which]
        rates = rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-12)
        near = [rates * np.where(np.arange(rates.shape[1]) == each, 1.3, 1.0) for each in range(rates.shape[1])]
        grid = np.repeat(self._mixes[None], len(which), axis=0)
        weights = np.concatenate([rates[:, None], np.stack(near, axis=1), grid], axis=1)
        weights = weights[:, : max(2, rows // max(1, len(which)))]
        scaled = weights / self._capacity[which][:, None]
        return np.repeat(which, weights.shape[1]), scaled.reshape(-1, weights.shape[2])

    def _orders(self, values: Floats, weights: Floats, items: Ints) -> Ints:
        density = values[items] / np.maximum(weights @ self._requests[items].T, 1e-12)
        return np.argsort(-density, axis=1, kind="stable")


def _some(instance: Instance) -> Ints:
    """Initial active options: of each set of allowed items some of every size, more of the small ones."""
    kinds: dict[bytes, list[int]] = {}
    for option, row in enumerate(np.packbits(instance.allowed, axis=1)):
        kinds.setdefault(row.tobytes(), []).append(option)
    each = max(6, ACTIVE // len(kinds))
    found = []
    for members in kinds.values():
        prices = np.sort(np.maximum(instance.prices[members], 1e-9))
        order = np.asarray(members)[np.argsort(instance.prices[members], kind="stable")]
        steps = np.searchsorted(prices, np.geomspace(prices[0], prices[-1], each))
        found.append(order[np.minimum(steps, len(order) - 1)])
    return np.unique(np.concatenate(found))


def _mixes(instance: Instance) -> Floats:
    """Grid of resource weights that sum to 1, over the resources with the highest load."""
    demand = instance.counts @ instance.requests
    loads = (demand / np.maximum(instance.capacity, 1)).max(axis=0, initial=0.0)
    main = np.argsort(-loads, kind="stable")[: max(1, min(3, int((loads > 0).sum())))]
    parts = _FINENESS[len(main)]
    grid = [each for each in itertools.product(range(parts + 1), repeat=len(main)) if sum(each) == parts]
    found = np.zeros((len(grid), instance.requests.shape[1]))
    found[:, main] = np.asarray(grid, np.float64) / parts
    return found
