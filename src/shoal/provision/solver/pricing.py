"""Pricing problem: finds node contents worth more than the node costs, given item duals.

First greedy filling in many orders at once; near misses are retried with one item swapped; exact pricing of one option
only if that finds nothing.
"""

from __future__ import annotations

import itertools

import numpy as np

from shoal.provision.solver.bounds import DualBounds
from shoal.provision.solver.greedy_fill import FilledNodes, GreedyFiller
from shoal.provision.solver.instance import Floats, Ints, PackingInstance, options_holding

_MAX_FILL_WORK = 40_000
"""Approximate limit of nodes filled at once times items."""
_GRID_PARTS = {1: 1, 2: 6, 3: 4}
"""Grid resolution of resource weights, by number of resources."""
_MAX_DUAL_WORK = 6_000
"""Approximate limit of LP knapsacks per round times items."""
MAX_ACTIVE = 48
"""Options priced closely at the start."""


class PricingProblem:
    def __init__(self, instance: PackingInstance) -> None:
        self.instance, self.greedy, self.dual_bounds = instance, GreedyFiller(instance), DualBounds(instance)
        self._weight_grid = _resource_weights(instance)
        self._requests = instance.requests.astype(np.float64)
        self._capacity = np.maximum(instance.capacity, 1).astype(np.float64)
        self.active: Ints = _initial_options(instance) if instance.options > MAX_ACTIVE else np.arange(instance.options)
        self._next_active = 0

    def activate(self, options: Ints) -> bool:
        """Returns True if some of them were not active before."""
        before = len(self.active)
        self.active = np.union1d(self.active, options)
        return len(self.active) > before

    def update_duals(self, values: Floats, bounds: Ints) -> None:
        """Updates the duals of the active options: all of them, or in turns if that takes too long."""
        count = min(len(self.active), max(4, _MAX_DUAL_WORK // max(1, self.instance.items)))
        self.dual_bounds.update_duals(values, bounds, np.roll(self.active, -self._next_active)[:count])
        self._next_active = (self._next_active + count) % len(self.active)

    def fill_nodes(
        self, values: Floats, bounds: Ints, max_price: float = np.inf, work: int = _MAX_FILL_WORK
    ) -> FilledNodes:
        """Fills several nodes of each active option that costs at most `max_price`."""
        items = np.flatnonzero((bounds > 0) & (values > 0))
        affordable = self.active[self.instance.prices[self.active] <= max_price]
        options, weights = self._weights(affordable, work // max(1, len(items)))
        return self.greedy.fill(items, options, self._orders(values, weights, items), bounds[items])

    def swap_items(self, values: Floats, bounds: Ints, filled: FilledNodes, rows: Ints) -> FilledNodes:
        """Removes one unit of one item from these nodes and fills them again without that item."""
        items = filled.items
        contained = np.argwhere(filled.contents[rows] > 0)[: max(1, 2 * _MAX_FILL_WORK // max(1, len(items)))]
        source_rows, removed = rows[contained[:, 0]], contained[:, 1]
        start = filled.contents[source_rows]
        start[np.arange(len(source_rows)), removed] -= 1
        bounds_left = bounds[items] - start
        bounds_left[np.arange(len(source_rows)), removed] = 0
        options = filled.options[source_rows]
        orders = self._orders(values, self.dual_bounds.resource_duals[options], items)
        return self.greedy.fill(items, options, orders, bounds_left, start)

    def best_contents(self, values: Floats, bounds: Ints, option: int) -> tuple[Ints, float]:
        """Approximately best contents of one node, and an upper bound of its value."""
        solution = self.dual_bounds.solve_knapsack(values, bounds, option)
        option_index, contents = np.asarray([option]), np.minimum(solution.contents, bounds)
        if not options_holding(self.instance, option_index, contents)[0]:
            items = np.flatnonzero(contents)
            orders = self._orders(values, self.dual_bounds.resource_duals[option_index], items)
            contents = self.greedy.fill(items, option_index, orders, contents[items]).full_contents(0)
        return contents, solution.bound

    def _weights(self, option_indices: Ints, rows: int) -> tuple[Ints, Floats]:
        """Resource weights for these options: the duals, variations of them, and a grid; about `rows` rows."""
        rates = self.dual_bounds.resource_duals[option_indices] * self._capacity[option_indices]
        rates = rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-12)
        near = [rates * np.where(np.arange(rates.shape[1]) == each, 1.3, 1.0) for each in range(rates.shape[1])]
        grid = np.repeat(self._weight_grid[None], len(option_indices), axis=0)
        weights = np.concatenate([rates[:, None], np.stack(near, axis=1), grid], axis=1)
        weights = weights[:, : max(2, rows // max(1, len(option_indices)))]
        scaled = weights / self._capacity[option_indices][:, None]
        return np.repeat(option_indices, weights.shape[1]), scaled.reshape(-1, weights.shape[2])

    def _orders(self, values: Floats, weights: Floats, items: Ints) -> Ints:
        density = values[items] / np.maximum(weights @ self._requests[items].T, 1e-12)
        return np.argsort(-density, axis=1, kind="stable")


def _initial_options(instance: PackingInstance) -> Ints:
    """Initial active options: of each set of allowed items some of every size, more of the small ones."""
    options_by_items: dict[bytes, list[int]] = {}
    for option, row in enumerate(np.packbits(instance.allowed, axis=1)):
        options_by_items.setdefault(row.tobytes(), []).append(option)
    each = max(6, MAX_ACTIVE // len(options_by_items))
    chosen = []
    for members in options_by_items.values():
        prices = np.sort(np.maximum(instance.prices[members], 1e-9))
        order = np.asarray(members)[np.argsort(instance.prices[members], kind="stable")]
        steps = np.searchsorted(prices, np.geomspace(prices[0], prices[-1], each))
        chosen.append(order[np.minimum(steps, len(order) - 1)])
    return np.unique(np.concatenate(chosen))


def _resource_weights(instance: PackingInstance) -> Floats:
    """Grid of resource weights that sum to 1, over the resources with the highest load."""
    demand = instance.counts @ instance.requests
    loads = (demand / np.maximum(instance.capacity, 1)).max(axis=0, initial=0.0)
    main_resources = np.argsort(-loads, kind="stable")[: max(1, min(3, int((loads > 0).sum())))]
    parts = _GRID_PARTS[len(main_resources)]
    grid = [each for each in itertools.product(range(parts + 1), repeat=len(main_resources)) if sum(each) == parts]
    weights = np.zeros((len(grid), instance.requests.shape[1]))
    weights[:, main_resources] = np.asarray(grid, np.float64) / parts
    return weights
