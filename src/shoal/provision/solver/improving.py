"""Local search: empties a few nodes and repacks their items. Pure.

Nodes are chosen at random with a fixed seed.
"""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.columns import Columns
from shoal.provision.solver.filling import Filled
from shoal.provision.solver.instance import Floats, Instance, Ints, Node, Packing, holds, node, packing, taken
from shoal.provision.solver.rounding import dive

_NODES = 7
"""Maximum nodes emptied at once."""
_IDLE = 120
"""Steps without an improvement before the search stops."""
_NEAR = 1.0003
"""Ratio to the bound at which the search stops."""
_CANDIDATES = 4
"""Filled nodes for which the cheapest option is looked up."""
_WORK = 6_000
"""Approximate limit of nodes filled at once times items."""
_DIVE_ITEMS = 60
"""Maximum number of items for which the diving heuristic is tried."""


def improved(columns: Columns, nodes: Packing, steps: int) -> Packing:
    """Never more expensive than the given packing."""
    return _Improving(columns, nodes).run(steps)


class _Improving:
    def __init__(self, columns: Columns, nodes: Packing) -> None:
        self._columns, self._instance = columns, columns.instance
        self._dice = np.random.default_rng(0)
        self._nodes = [each for each, times in nodes for _ in range(times)]
        self._waste: Floats = np.asarray([self._wasted(each) for each in self._nodes], np.float64)
        self._costs = columns.instance.prices + columns.instance.fee
        self._by_price = np.argsort(columns.instance.prices, kind="stable")
        self._room = columns.instance.limits - taken(columns.instance, nodes)

    def run(self, steps: int) -> Packing:
        total = sum(float(self._costs[each.option]) for each in self._nodes)
        budget, idle = self._columns.budget, 0
        end = budget.used + steps
        while idle < _IDLE and total > self._columns.bound * _NEAR and budget.used < end and budget.spend():
            chosen = self._chosen()
            before = [self._nodes[at] for at in chosen]
            old = sum(float(self._costs[each.option]) for each in before)
            found = self._again(before, old - 1e-9 * max(1.0, total), diving=idle % 3 == 2)
            if found is None:
                idle += 1
                continue
            idle = 0
            total += sum(float(self._costs[each.option]) for each in found) - old
            self._exchange(chosen, found)
        return packing((each, 1) for each in self._nodes)

    def _chosen(self) -> list[int]:
        """Chooses a few nodes, preferring those with high waste."""
        waste = self._waste - self._waste.min()
        keys = (0.2 + waste / max(float(waste.max()), 1e-12)) * self._dice.random(len(waste))
        size = int(self._dice.integers(min(2, len(waste)), min(_NODES, len(waste)) + 1))
        found: list[int] = np.argsort(-keys, kind="stable")[:size].tolist()
        return found

    def _exchange(self, chosen: list[int], found: list[Node]) -> None:
        for each, sign in (*((self._nodes[at], 1) for at in chosen), *((each, -1) for each in found)):
            self._room = self._room + sign * self._instance.takes[:, each.option]
        for at in sorted(chosen, reverse=True):
            del self._nodes[at]
        self._nodes += found
        more = [self._wasted(each) for each in found]
        self._waste = np.concatenate([np.delete(self._waste, chosen), np.asarray(more, np.float64)])

    def _wasted(self, held: Node) -> float:
        worth = sum(float(self._columns.values[item]) * amount for item, amount in held.contents)
        return float(self._instance.prices[held.option]) - worth

    def _again(self, before: list[Node], most: float, *, diving: bool) -> list[Node] | None:
        """Nodes for the same items that cost less than `max_cost`; None if none were found."""
        instance = self._instance
        counts, room = np.zeros(instance.items, np.int64), self._room
        for each in before:
            room = room + instance.takes[:, each.option]
            for item, amount in each.contents:
                counts[item] += amount
        found = self._greedy(counts, room, most)
        if found is None and diving and int((counts > 0).sum()) <= _DIVE_ITEMS:
            dived = dive(self._columns, counts, room)
            found = None if dived is None else [each for each, times in dived for _ in range(times)]
        if found is None or sum(float(self._costs[each.option]) for each in found) >= most:
            return None
        return found

    def _greedy(self, counts: Ints, room: Ints, most: float) -> list[Node] | None:
        """Adds nodes one by one, each with the lowest cost per value."""
        columns, instance = self._columns, self._instance
        left, room, spent = counts.copy(), room.copy(), 0.0
        found: list[Node] = []
        values = np.maximum(columns.values * np.exp(self._dice.normal(0.0, 0.15, instance.items)), 1e-9)
        while left.any():
            best = self._cheapest(columns.pricer.fill(values, left, most - spent, _WORK), room)
            if best is None:
                return None
            option, held = best
            found.append(node(option, held))
            left -= held
            room -= instance.takes[:, option]
            spent += float(self._costs[option])
            if spent >= most:
                return None
        return found

    def _cheapest(self, filled: Filled, room: Ints) -> tuple[int, Ints] | None:
        """Node with the lowest cost per value, with the cheapest option for its contents."""
        worth = filled.worth(np.maximum(self._columns.values, 1e-9))
        ratio = np.where(worth > 0, self._costs[filled.options] / np.maximum(worth, 1e-12), np.inf)
        best: tuple[float, int, Ints] | None = None
        for row in np.argsort(ratio, kind="stable")[:_CANDIDATES].tolist():
            if not np.isfinite(ratio[row]):
                break
            contents = filled.whole(row)
            option = _holder(self._instance, self._by_price, contents, room)
            if option is not None and (best is None or self._costs[option] / worth[row] < best[0]):
                best = float(self._costs[option] / worth[row]), option, contents
        return None if best is None else best[1:]


def _holder(instance: Instance, by_price: Ints, contents: Ints, room: Ints) -> int | None:
    """Cheapest option that holds the contents."""
    able = holds(instance, by_price, contents)
    if len(room):
        able &= (instance.takes[:, by_price] <= room[:, None]).all(axis=0)
    at = int(able.argmax())
    return int(by_price[at]) if able[at] else None
