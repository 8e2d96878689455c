"""Local search: empties a few nodes and repacks their items. Pure.

Nodes are chosen at random with a fixed seed.
"""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.column_generation import ColumnGenerator
from shoal.provision.solver.greedy_fill import FilledNodes
from shoal.provision.solver.instance import (
    Floats,
    Ints,
    PackedNode,
    Packing,
    PackingInstance,
    limits_used,
    merge_equal_nodes,
    options_holding,
    packed_node,
)
from shoal.provision.solver.rounding import diving_heuristic

_MAX_NEIGHBOURHOOD = 7
"""Maximum nodes emptied at once."""
_MAX_IDLE_STEPS = 120
"""Steps without an improvement before the search stops."""
_BOUND_TOLERANCE = 1.0003
"""Ratio to the bound at which the search stops."""
_MAX_CANDIDATES = 4
"""Filled nodes for which the cheapest option is looked up."""
_MAX_FILL_WORK = 6_000
"""Approximate limit of nodes filled at once times items."""
_MAX_DIVE_ITEMS = 60
"""Maximum number of items for which the diving heuristic is tried."""


def local_search(columns: ColumnGenerator, nodes: Packing, steps: int) -> Packing:
    """Never more expensive than the given packing."""
    return _LocalSearch(columns, nodes).run(steps)


class _LocalSearch:
    def __init__(self, columns: ColumnGenerator, nodes: Packing) -> None:
        self._columns, self._instance = columns, columns.instance
        self._random = np.random.default_rng(0)
        self._nodes = [each for each, times in nodes for _ in range(times)]
        self._waste: Floats = np.asarray([self._waste_of(each) for each in self._nodes], np.float64)
        self._costs = columns.instance.prices + columns.instance.node_fee
        self._by_price = np.argsort(columns.instance.prices, kind="stable")
        self._remaining = columns.instance.limits - limits_used(columns.instance, nodes)

    def run(self, steps: int) -> Packing:
        total = sum(float(self._costs[each.option]) for each in self._nodes)
        budget, idle = self._columns.budget, 0
        step_limit = budget.used + steps
        while (
            idle < _MAX_IDLE_STEPS
            and total > self._columns.bound * _BOUND_TOLERANCE
            and budget.used < step_limit
            and budget.spend()
        ):
            chosen = self._choose_nodes()
            removed = [self._nodes[at] for at in chosen]
            old_cost = sum(float(self._costs[each.option]) for each in removed)
            replacements = self._repack(removed, old_cost - 1e-9 * max(1.0, total), allow_dive=idle % 3 == 2)
            if replacements is None:
                idle += 1
                continue
            idle = 0
            total += sum(float(self._costs[each.option]) for each in replacements) - old_cost
            self._replace_nodes(chosen, replacements)
        return merge_equal_nodes((each, 1) for each in self._nodes)

    def _choose_nodes(self) -> list[int]:
        """Chooses a few nodes, preferring those with high waste."""
        waste = self._waste - self._waste.min()
        keys = (0.2 + waste / max(float(waste.max()), 1e-12)) * self._random.random(len(waste))
        size = int(self._random.integers(min(2, len(waste)), min(_MAX_NEIGHBOURHOOD, len(waste)) + 1))
        chosen: list[int] = np.argsort(-keys, kind="stable")[:size].tolist()
        return chosen

    def _replace_nodes(self, chosen: list[int], replacements: list[PackedNode]) -> None:
        for each, sign in (*((self._nodes[at], 1) for at in chosen), *((each, -1) for each in replacements)):
            self._remaining = self._remaining + sign * self._instance.limit_usage[:, each.option]
        for at in sorted(chosen, reverse=True):
            del self._nodes[at]
        self._nodes += replacements
        more = [self._waste_of(each) for each in replacements]
        self._waste = np.concatenate([np.delete(self._waste, chosen), np.asarray(more, np.float64)])

    def _waste_of(self, held: PackedNode) -> float:
        worth = sum(float(self._columns.item_duals[item]) * amount for item, amount in held.contents)
        return float(self._instance.prices[held.option]) - worth

    def _repack(self, removed: list[PackedNode], max_cost: float, *, allow_dive: bool) -> list[PackedNode] | None:
        """Nodes for the same items that cost less than `max_cost`; None if none were found."""
        instance = self._instance
        counts, remaining = np.zeros(instance.items, np.int64), self._remaining
        for each in removed:
            remaining = remaining + instance.limit_usage[:, each.option]
            for item, amount in each.contents:
                counts[item] += amount
        replacements = self._pack_greedily(counts, remaining, max_cost)
        if replacements is None and allow_dive and int((counts > 0).sum()) <= _MAX_DIVE_ITEMS:
            dived = diving_heuristic(self._columns, counts, remaining)
            replacements = None if dived is None else [each for each, times in dived for _ in range(times)]
        if replacements is None or sum(float(self._costs[each.option]) for each in replacements) >= max_cost:
            return None
        return replacements

    def _pack_greedily(self, counts: Ints, remaining: Ints, max_cost: float) -> list[PackedNode] | None:
        """Adds nodes one by one, each with the lowest cost per value."""
        columns, instance = self._columns, self._instance
        demand, remaining, spent = counts.copy(), remaining.copy(), 0.0
        nodes: list[PackedNode] = []
        values = np.maximum(columns.item_duals * np.exp(self._random.normal(0.0, 0.15, instance.items)), 1e-9)
        while demand.any():
            best = self._best_node(
                columns.pricer.fill_nodes(values, demand, max_cost - spent, _MAX_FILL_WORK), remaining
            )
            if best is None:
                return None
            option, contents = best
            nodes.append(packed_node(option, contents))
            demand -= contents
            remaining -= instance.limit_usage[:, option]
            spent += float(self._costs[option])
            if spent >= max_cost:
                return None
        return nodes

    def _best_node(self, filled: FilledNodes, remaining: Ints) -> tuple[int, Ints] | None:
        """Node with the lowest cost per value, with the cheapest option for its contents."""
        worth = filled.values(np.maximum(self._columns.item_duals, 1e-9))
        ratio = np.where(worth > 0, self._costs[filled.options] / np.maximum(worth, 1e-12), np.inf)
        best: tuple[float, int, Ints] | None = None
        for row in np.argsort(ratio, kind="stable")[:_MAX_CANDIDATES].tolist():
            if not np.isfinite(ratio[row]):
                break
            contents = filled.full_contents(row)
            option = _cheapest_option(self._instance, self._by_price, contents, remaining)
            if option is not None and (best is None or self._costs[option] / worth[row] < best[0]):
                best = float(self._costs[option] / worth[row]), option, contents
        return None if best is None else best[1:]


def _cheapest_option(instance: PackingInstance, by_price: Ints, contents: Ints, remaining: Ints) -> int | None:
    """Cheapest option that holds the contents."""
    feasible = options_holding(instance, by_price, contents)
    if len(remaining):
        feasible &= (instance.limit_usage[:, by_price] <= remaining[:, None]).all(axis=0)
    first = int(feasible.argmax())
    return int(by_price[first]) if feasible[first] else None
