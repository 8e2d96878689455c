"""Restricted master problem: LP over the columns known so far, solved with HiGHS. Its duals price the items.

Every row has a slack column at a prohibitive cost, so the LP is always feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from shoal.provision.solver.instance import Floats, Ints, PackingInstance


@dataclass(frozen=True, slots=True)
class MasterSolution:
    column_amounts: Floats
    """Amount of each column."""
    item_duals: Floats
    """n: dual value of one more unit of an item."""
    limit_duals: Floats
    """q: dual value of one less unit of a limit."""
    uncovered: float
    """Units that no column covers."""


class RestrictedMaster:
    def __init__(self, instance: PackingInstance, penalty: float) -> None:
        """`penalty`: cost of the slack columns."""
        self._instance = instance
        self._highs = new_highs()
        inf = highspy.kHighsInf
        rows = instance.items + len(instance.limits)
        none, numbers = np.zeros(0, np.int32), np.zeros(0)
        lower = np.concatenate([instance.counts.astype(np.float64), np.full(len(instance.limits), -inf)])
        upper = np.concatenate([np.full(instance.items, inf), instance.limits.astype(np.float64)])
        self._highs.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), none, numbers)
        each = np.arange(instance.items, dtype=np.int32)
        self._highs.addCols(
            instance.items,
            np.full(instance.items, penalty),
            np.zeros(instance.items),
            np.full(instance.items, inf),
            instance.items,
            each,
            each,
            np.ones(instance.items),
        )
        self.options: list[int] = []
        self.contents: list[Ints] = []
        self._column_keys: set[tuple[int, bytes]] = set()

    def add(self, option: int, contents: Ints) -> bool:
        key = (option, contents.tobytes())
        if key in self._column_keys or not contents.any():
            return False
        self._column_keys.add(key)
        self.options.append(option)
        self.contents.append(contents)
        instance = self._instance
        column = np.concatenate([contents, instance.limit_usage[:, option]]) if len(instance.limits) else contents
        rows = np.flatnonzero(column)
        cost = float(instance.prices[option])
        self._highs.addCol(
            cost, 0.0, highspy.kHighsInf, len(rows), rows.astype(np.int32), column[rows].astype(np.float64)
        )
        return True

    def set_demand(self, counts: Ints, limits: Ints) -> None:
        for item, count in enumerate(counts.tolist()):
            self._highs.changeRowBounds(item, float(count), highspy.kHighsInf)
        for limit, amount in enumerate(limits.tolist()):
            self._highs.changeRowBounds(len(counts) + limit, -highspy.kHighsInf, float(amount))

    def solve(self) -> MasterSolution:
        self._highs.run()
        solution = self._highs.getSolution()
        columns = np.asarray(solution.col_value, np.float64)
        duals = np.asarray(solution.row_dual, np.float64)
        items = self._instance.items
        return MasterSolution(
            column_amounts=columns[items:],
            item_duals=np.maximum(duals[:items], 0.0),
            limit_duals=np.maximum(-duals[items:], 0.0),
            uncovered=float(columns[:items].sum()),
        )


def fluid_bound(instance: PackingInstance) -> float:
    """Lower bound: cost of covering the total demand of every resource, ignoring packing."""
    demand = (instance.counts @ instance.requests).astype(np.float64)
    requested = demand > 0
    shares = np.maximum(instance.capacity, 0)[:, requested] / demand[requested]
    options, rows = shares.shape
    if not rows:
        return 0.0
    highs = new_highs()
    infinite, each = highspy.kHighsInf, np.arange(options, dtype=np.int32)
    empty = np.zeros(rows, np.int32)
    highs.addRows(rows, np.ones(rows), np.full(rows, infinite), 0, empty, empty[:0], np.zeros(0))
    where = np.tile(np.arange(rows, dtype=np.int32), options)
    starts, upper = each * np.int32(rows), np.full(options, infinite)
    highs.addCols(options, instance.prices, np.zeros(options), upper, shares.size, starts, where, shares.ravel())
    highs.run()
    prices = np.maximum(np.asarray(highs.getSolution().row_dual, np.float64), 0.0)
    # Scaled down so that no node is worth more than its price.
    scale = max(1.0, float((shares @ prices / np.maximum(instance.prices, 1e-12)).max()))
    return float(prices.sum()) / scale if np.isfinite(scale) else 0.0


def new_highs() -> highspy.Highs:
    highs: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 0)
    return highs
