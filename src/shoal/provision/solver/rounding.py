"""Diving heuristic: fixes the nearly integral columns of the LP and solves again for the rest, until all items are
packed. Pure.
"""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.column_generation import ColumnGenerator
from shoal.provision.solver.instance import (
    Floats,
    Ints,
    PackedNode,
    Packing,
    PackingInstance,
    contents_of,
    limits_used,
    merge_equal_nodes,
    options_holding,
    packed_node,
)

_GENERATION_ROUNDS = 6
"""Rounds of column generation after each fixing."""
_ROUND_UP_AT = 0.95
"""Fraction from which a column is rounded up."""
_COLUMNS_PER_FIX = 40
"""One more fractional column is fixed for each multiple of this many columns."""


def diving_heuristic(columns: ColumnGenerator, counts: Ints, limits: Ints) -> Packing | None:
    """Returns None if the limits or the budget do not suffice."""
    demand, remaining = counts.copy(), limits.copy()
    fixed: list[tuple[PackedNode, int]] = []
    while demand.any():
        if columns.budget.stop():
            return None
        answer = columns.generate(demand, remaining, _GENERATION_ROUNDS)
        newly_fixed = _fix_columns(columns, answer.column_amounts, demand, remaining)
        if not newly_fixed:
            return None
        for packed, times in newly_fixed:
            contents = contents_of(columns.instance, packed)
            demand -= contents * times
            remaining -= columns.instance.limit_usage[:, packed.option] * times
            fixed.append((packed, times))
    return downsize_nodes(columns.instance, merge_equal_nodes(fixed), limits)


def _fix_columns(
    columns: ColumnGenerator, fractions: Floats, demand: Ints, remaining: Ints
) -> list[tuple[PackedNode, int]]:
    """Columns to fix now: all nearly integral ones, else the largest fractions."""
    demand, remaining = demand.copy(), remaining.copy()
    fixed: list[tuple[PackedNode, int]] = []
    order = np.argsort(-fractions, kind="stable")
    max_fractional = 1 + int((fractions > 1e-9).sum()) // _COLUMNS_PER_FIX
    for column in order.tolist():
        if fractions[column] < _ROUND_UP_AT and (len(fixed) >= max_fractional or fractions[column] <= 1e-9):
            break
        option, contents = columns.master.options[column], columns.master.contents[column]
        times = max(1, int(fractions[column] + 1 - _ROUND_UP_AT))
        takes = columns.instance.limit_usage[:, option]
        while times and ((takes * times > remaining).any() or (contents * times > demand).any()):
            times -= 1
        if not times and not (takes > remaining).any():
            # The column exceeds the remaining demand: reduce it to that.
            contents, times = np.minimum(contents, demand), 1
        if times and contents.any():
            demand -= contents * times
            remaining -= takes * times
            fixed.append((packed_node(option, contents), times))
    return fixed


def downsize_nodes(instance: PackingInstance, nodes: Packing, limits: Ints) -> Packing:
    """Replaces each node by the cheapest option that holds the same contents, within the limits."""
    remaining = limits - limits_used(instance, nodes)
    by_price = np.argsort(instance.prices, kind="stable")
    result = []
    for each, times in nodes:
        feasible = by_price[options_holding(instance, by_price, contents_of(instance, each))]
        for option in feasible.tolist():
            if instance.prices[option] >= instance.prices[each.option]:
                result.append((each, times))
                break
            extra = (instance.limit_usage[:, option] - instance.limit_usage[:, each.option]) * times
            if (extra <= remaining).all():
                remaining -= extra
                result.append((PackedNode(option, each.contents), times))
                break
        else:
            result.append((each, times))
    return merge_equal_nodes(result)
