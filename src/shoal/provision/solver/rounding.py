"""Diving heuristic: fixes the nearly integral columns of the LP and solves again for the rest, until all items are
packed. Pure.
"""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.columns import Columns
from shoal.provision.solver.instance import Floats, Instance, Ints, Node, Packing, amounts, holds, node, packing, taken

_ROUNDS = 6
"""Rounds of column generation after each fixing."""
_SURE = 0.95
"""Fraction from which a column is rounded up."""
_MANY = 40
"""One more fractional column is fixed for each multiple of this many columns."""


def dive(columns: Columns, counts: Ints, limits: Ints) -> Packing | None:
    """Returns None if the limits or the budget do not suffice."""
    left, room = counts.copy(), limits.copy()
    found: list[tuple[Node, int]] = []
    while left.any():
        if columns.budget.stop():
            return None
        answer = columns.generate(left, room, _ROUNDS)
        chosen = _whole(columns, answer.amounts, left, room)
        if not chosen:
            return None
        for held, times in chosen:
            contents = amounts(columns.instance, held)
            left -= contents * times
            room -= columns.instance.takes[:, held.option] * times
            found.append((held, times))
    return shrunk(columns.instance, packing(found), limits)


def _whole(columns: Columns, fractions: Floats, left: Ints, room: Ints) -> list[tuple[Node, int]]:
    """Columns to fix now: all nearly integral ones, else the largest fractions."""
    left, room = left.copy(), room.copy()
    found: list[tuple[Node, int]] = []
    order = np.argsort(-fractions, kind="stable")
    few = 1 + int((fractions > 1e-9).sum()) // _MANY
    for column in order.tolist():
        if fractions[column] < _SURE and (len(found) >= few or fractions[column] <= 1e-9):
            break
        option, contents = columns.master.options[column], columns.master.contents[column]
        times = max(1, int(fractions[column] + 1 - _SURE))
        takes = columns.instance.takes[:, option]
        while times and ((takes * times > room).any() or (contents * times > left).any()):
            times -= 1
        if not times and not (takes > room).any():
            # The column exceeds the remaining demand: reduce it to that.
            contents, times = np.minimum(contents, left), 1
        if times and contents.any():
            left -= contents * times
            room -= takes * times
            found.append((node(option, contents), times))
    return found


def shrunk(instance: Instance, nodes: Packing, limits: Ints) -> Packing:
    """Replaces each node by the cheapest option that holds the same contents, within the limits."""
    room = limits - taken(instance, nodes)
    by_price = np.argsort(instance.prices, kind="stable")
    found = []
    for each, times in nodes:
        able = by_price[holds(instance, by_price, amounts(instance, each))]
        for option in able.tolist():
            if instance.prices[option] >= instance.prices[each.option]:
                found.append((each, times))
                break
            more = (instance.takes[:, option] - instance.takes[:, each.option]) * times
            if (more <= room).all():
                room -= more
                found.append((Node(option, each.contents), times))
                break
        else:
            found.append((each, times))
    return packing(found)
