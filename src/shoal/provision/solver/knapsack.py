"""Knapsack of one node: LP relaxation for resource duals, or integer solution. Uses HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from shoal.provision.solver.instance import Bools, Floats, Ints
from shoal.provision.solver.master import new_highs

CardinalityGroups = list[tuple[Ints, int]]
"""Items of which a node holds at most this many together."""

_RELATIVE_GAP, _MAX_BRANCH_NODES = 0.002, 20
"""Relative MIP gap, and limit of branch-and-bound nodes."""


@dataclass(frozen=True, slots=True)
class KnapsackSolution:
    contents: Ints
    """May violate rules that are not cardinality groups."""
    bound: float
    """Upper bound of the value."""


class Knapsack:
    def __init__(self, requests: Floats, capacity: Floats, allowed: Bools, groups: CardinalityGroups) -> None:
        self._items = np.arange(len(requests), dtype=np.int32)
        self._allowed, self._resources = allowed, len(capacity)
        # Scaled to shares of the node: bytes beside millicores are numerically bad.
        self._scale = np.maximum(capacity, 1.0)
        self._limits = np.concatenate([capacity / self._scale, [float(most) for _, most in groups]])
        self._dense = np.zeros((len(requests), len(self._limits)))
        self._dense[:, : len(capacity)] = requests / self._scale
        for number, (members, _) in enumerate(groups):
            self._dense[members, len(capacity) + number] = 1.0
        self._relaxation: highspy.Highs | None = None
        self._bounds: Ints | None = None

    def resource_duals(self, values: Floats, bounds: Ints) -> Floats:
        """Dual value of one unit of each resource."""
        size = len(self._items)
        if self._relaxation is None:
            self._relaxation = self._program()
        if self._bounds is None or (self._bounds != bounds).any():
            self._bounds = bounds
            self._relaxation.changeColsBounds(size, self._items, np.zeros(size), self._upper_bounds(bounds))
        self._relaxation.changeColsCost(size, self._items, -values)
        self._relaxation.run()
        duals = np.asarray(self._relaxation.getSolution().row_dual[: self._resources], np.float64)
        return np.maximum(-duals, 0.0) / self._scale

    def solve(self, values: Floats, bounds: Ints) -> KnapsackSolution:
        size = len(self._items)
        highs = self._program()
        highs.setOptionValue("mip_rel_gap", _RELATIVE_GAP)
        highs.setOptionValue("mip_max_nodes", _MAX_BRANCH_NODES)
        highs.changeColsBounds(size, self._items, np.zeros(size), self._upper_bounds(bounds))
        highs.changeColsCost(size, self._items, -values)
        highs.changeColsIntegrality(size, self._items, np.full(size, highspy.HighsVarType.kInteger))
        highs.run()
        contents = np.rint(np.asarray(highs.getSolution().col_value, np.float64)).astype(np.int64)
        bound = -float(highs.getInfo().mip_dual_bound)
        return KnapsackSolution(np.maximum(contents, 0), bound * (1 + 1e-6))

    def _upper_bounds(self, bounds: Ints) -> Floats:
        return np.where(self._allowed, bounds, 0).astype(np.float64)

    def _program(self) -> highspy.Highs:
        highs = new_highs()
        rows, size = len(self._limits), len(self._items)
        empty = np.zeros(rows, np.int32)
        highs.addRows(rows, np.full(rows, -highspy.kHighsInf), self._limits, 0, empty, empty[:0], np.zeros(0))
        item_rows, limit_columns = np.nonzero(self._dense)
        starts = np.searchsorted(item_rows, self._items).astype(np.int32)
        zeros = np.zeros(size)
        highs.addCols(
            size,
            zeros,
            zeros,
            zeros,
            len(item_rows),
            starts,
            limit_columns.astype(np.int32),
            self._dense[item_rows, limit_columns],
        )
        return highs
