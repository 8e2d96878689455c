"""Knapsack of one node: LP relaxation for resource duals, or integer solution. Uses HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from shoal.provision.solver.instance import Bools, Floats, Ints
from shoal.provision.solver.master import quiet

Groups = list[tuple[Ints, int]]
"""Items of which a node holds at most this many together."""

_GAP, _NODES = 0.002, 20
"""Relative MIP gap, and limit of branch-and-bound nodes."""


@dataclass(frozen=True, slots=True)
class Found:
    contents: Ints
    """May violate rules that are not cardinality groups."""
    bound: float
    """Upper bound of the value."""


class Knapsack:
    def __init__(self, requests: Floats, capacity: Floats, allowed: Bools, groups: Groups) -> None:
        self._items = np.arange(len(requests), dtype=np.int32)
        self._allowed, self._resources = allowed, len(capacity)
        # Scaled to shares of the node: bytes beside millicores are numerically bad.
        self._scale = np.maximum(capacity, 1.0)
        self._limits = np.concatenate([capacity / self._scale, [float(most) for _, most in groups]])
        self._dense = np.zeros((len(requests), len(self._limits)))
        self._dense[:, : len(capacity)] = requests / self._scale
        for number, (members, _) in enumerate(groups):
            self._dense[members, len(capacity) + number] = 1.0
        self._fractions: highspy.Highs | None = None
        self._wanted: Ints | None = None

    def rates(self, values: Floats, wanted: Ints) -> Floats:
        """Dual value of one unit of each resource."""
        size = len(self._items)
        if self._fractions is None:
            self._fractions = self._program()
        if self._wanted is None or (self._wanted != wanted).any():
            self._wanted = wanted
            self._fractions.changeColsBounds(size, self._items, np.zeros(size), self._upper(wanted))
        self._fractions.changeColsCost(size, self._items, -values)
        self._fractions.run()
        duals = np.asarray(self._fractions.getSolution().row_dual[: self._resources], np.float64)
        return np.maximum(-duals, 0.0) / self._scale

    def best(self, values: Floats, wanted: Ints) -> Found:
        size = len(self._items)
        highs = self._program()
        highs.setOptionValue("mip_rel_gap", _GAP)
        highs.setOptionValue("mip_max_nodes", _NODES)
        highs.changeColsBounds(size, self._items, np.zeros(size), self._upper(wanted))
        highs.changeColsCost(size, self._items, -values)
        highs.changeColsIntegrality(size, self._items, np.full(size, highspy.HighsVarType.kInteger))
        highs.run()
        contents = np.rint(np.asarray(highs.getSolution().col_value, np.float64)).astype(np.int64)
        bound = -float(highs.getInfo().mip_dual_bound)
        return Found(np.maximum(contents, 0), bound * (1 + 1e-6))

    def _upper(self, wanted: Ints) -> Floats:
        return np.where(self._allowed, wanted, 0).astype(np.float64)

    def _program(self) -> highspy.Highs:
        highs = quiet()
        rows, size = len(self._limits), len(self._items)
        empty = np.zeros(rows, np.int32)
        highs.addRows(rows, np.full(rows, -highspy.kHighsInf), self._limits, 0, empty, empty[:0], np.zeros(0))
        at, where = np.nonzero(self._dense)
        starts = np.searchsorted(at, self._items).astype(np.int32)
        none = np.zeros(size)
        highs.addCols(size, none, none, none, len(at), starts, where.astype(np.int32), self._dense[at, where])
        return highs
