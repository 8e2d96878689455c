"""Greedy fill of many nodes at once, each in its own item order: as many units of each item as fit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.provision.solver.instance import UNBOUNDED, Floats, Ints, PackingInstance

_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class FilledNodes:
    """c nodes. Only the items in question are stored."""

    size: int
    """Number of all items."""
    items: Ints
    """s: the items in question."""
    options: Ints
    """c."""
    contents: Ints
    """c x s."""

    def values(self, item_values: Floats) -> Floats:
        values: Floats = self.contents.astype(np.float64) @ item_values[self.items]
        return values

    def full_contents(self, row: int) -> Ints:
        """n: contents of one node over all items."""
        contents = np.zeros(self.size, np.int64)
        contents[self.items] = self.contents[row]
        return contents


class GreedyFiller:
    """Instance data prepared for filling."""

    def __init__(self, instance: PackingInstance) -> None:
        self._instance = instance
        self._divisors = np.maximum(instance.requests, 1)
        self._not_requested = instance.requests == 0
        self._has_rules = bool(len(instance.counted))
        self._counted = (
            instance.counted.T.astype(np.int64) if self._has_rules else np.zeros((instance.items, 0), np.int64)
        )
        self._node_limits = instance.node_limits.T if self._has_rules else np.zeros((instance.items, 0), np.int64)

    def fill(self, items: Ints, options: Ints, orders: Ints, bounds: Ints, start: Ints | None = None) -> FilledNodes:
        """`orders`: c x s, positions in `items`. `bounds`: s or c x s, maximum units beyond the contents at `start`,
        which is c x s.
        """
        instance = self._instance
        rows = np.arange(len(options))
        remaining, ceilings = instance.capacity[options], np.where(instance.allowed[np.ix_(options, items)], bounds, 0)
        if start is None:
            contents = np.zeros(ceilings.shape, np.int64)
        else:
            contents = start.copy()
            remaining = remaining - contents @ instance.requests[items]
        count, limits = self._rule_state(items, contents, empty=start is None)
        for position in range(orders.shape[1]):
            item_column = orders[:, position]
            item = items[item_column]
            fit = np.where(self._not_requested[item], _UNLIMITED, remaining // self._divisors[item]).min(axis=1)
            amount = np.minimum(ceilings[rows, item_column], np.maximum(fit, 0))
            if self._has_rules:
                amount = self._limit_by_rules(amount, item, count, limits)
            contents[rows, item_column] += amount
            remaining -= instance.requests[item] * amount[:, None]
        return FilledNodes(instance.items, items, options, contents)

    def _rule_state(self, items: Ints, contents: Ints, *, empty: bool) -> tuple[Ints, Ints]:
        limits = np.full((len(contents), self._node_limits.shape[1]), UNBOUNDED, np.int64)
        if not self._has_rules or empty:
            return np.zeros(limits.shape, np.int64), limits
        for position, item in enumerate(items.tolist()):
            np.minimum(limits, self._node_limits[item], out=limits, where=(contents[:, position] > 0)[:, None])
        return contents @ self._counted[items], limits

    def _limit_by_rules(self, amount: Ints, item: Ints, count: Ints, limits: Ints) -> Ints:
        """Limits the amounts by the host rules and updates the counts."""
        counted, item_limits = self._counted[item], self._node_limits[item]
        # An item that does not count for a rule only limits the number of counted units.
        allowed = np.where(
            counted > 0, np.minimum(limits, item_limits) - count, np.where(item_limits >= count, UNBOUNDED, 0)
        )
        amount = np.minimum(amount, np.maximum(allowed.min(axis=1), 0))
        count += counted * amount[:, None]
        np.copyto(limits, np.minimum(limits, item_limits), where=(amount > 0)[:, None])
        return amount
