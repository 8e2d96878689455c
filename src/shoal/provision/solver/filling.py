"""Greedy fill of many nodes at once, each in its own item order: as many units of each item as fit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.provision.solver.instance import MANY, Floats, Instance, Ints

_OUT = 1 << 60


@dataclass(frozen=True, slots=True)
class Filled:
    """c nodes. Only the items in question are stored."""

    size: int
    """Number of all items."""
    items: Ints
    """s: the items in question."""
    options: Ints
    """c."""
    contents: Ints
    """c x s."""

    def worth(self, values: Floats) -> Floats:
        found: Floats = self.contents.astype(np.float64) @ values[self.items]
        return found

    def whole(self, row: int) -> Ints:
        """n: contents of one node over all items."""
        found = np.zeros(self.size, np.int64)
        found[self.items] = self.contents[row]
        return found


class Filler:
    """Instance data prepared for filling."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._divisors = np.maximum(instance.requests, 1)
        self._free = instance.requests == 0
        self._ruled = bool(len(instance.counted))
        self._counted = instance.counted.T.astype(np.int64) if self._ruled else np.zeros((instance.items, 0), np.int64)
        self._most = instance.most.T if self._ruled else np.zeros((instance.items, 0), np.int64)

    def fill(self, items: Ints, options: Ints, orders: Ints, bounds: Ints, start: Ints | None = None) -> Filled:
        """`orders`: c x s, positions in `items`. `bounds`: s or c x s, maximum units beyond the contents at `start`,
        which is c x s.
        """
        instance = self._instance
        rows = np.arange(len(options))
        left, ceilings = instance.capacity[options], np.where(instance.allowed[np.ix_(options, items)], bounds, 0)
        if start is None:
            contents = np.zeros(ceilings.shape, np.int64)
        else:
            contents = start.copy()
            left = left - contents @ instance.requests[items]
        count, most = self._rules(items, contents, empty=start is None)
        for place in range(orders.shape[1]):
            at = orders[:, place]
            item = items[at]
            fitting = np.where(self._free[item], _OUT, left // self._divisors[item]).min(axis=1)
            amount = np.minimum(ceilings[rows, at], np.maximum(fitting, 0))
            if self._ruled:
                amount = self._within(amount, item, count, most)
            contents[rows, at] += amount
            left -= instance.requests[item] * amount[:, None]
        return Filled(instance.items, items, options, contents)

    def _rules(self, items: Ints, contents: Ints, *, empty: bool) -> tuple[Ints, Ints]:
        most = np.full((len(contents), self._most.shape[1]), MANY, np.int64)
        if not self._ruled or empty:
            return np.zeros(most.shape, np.int64), most
        for place, item in enumerate(items.tolist()):
            np.minimum(most, self._most[item], out=most, where=(contents[:, place] > 0)[:, None])
        return contents @ self._counted[items], most

    def _within(self, amount: Ints, item: Ints, count: Ints, most: Ints) -> Ints:
        """Limits the amounts by the host rules and updates the counts."""
        counted, own = self._counted[item], self._most[item]
        # An item that does not count for a rule only limits the number of counted units.
        room = np.where(counted > 0, np.minimum(most, own) - count, np.where(own >= count, MANY, 0))
        amount = np.minimum(amount, np.maximum(room.min(axis=1), 0))
        count += counted * amount[:, None]
        np.copyto(most, np.minimum(most, own), where=(amount > 0)[:, None])
        return amount
