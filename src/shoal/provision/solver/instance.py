"""The packing problem in numbers: items (pod kinds), options (node kinds), limits, and packings. Pure.

Amounts are integers, so feasibility never depends on rounding. Only `optimize` maps them to pods and nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

UNBOUNDED = 1 << 40
"""Effectively unbounded."""


@dataclass(frozen=True, slots=True, eq=False)
class PackingInstance:
    """n items (kinds of pods), k options (kinds of nodes), m resources, g rules of a host, q limits."""

    requests: Ints
    """n x m: requests of one unit of each item."""
    counts: Ints
    """n: number of units."""
    capacity: Ints
    """k x m: capacity of a node."""
    prices: Floats
    """k."""
    allowed: Bools
    """k x n: the option may hold the item."""
    counted: Bools = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    """g x n: the item counts for the host rule."""
    node_limits: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """g x n: a node with the item holds at most this many units that count for the rule; UNBOUNDED: no limit."""
    limit_usage: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """q x k: usage of a limit by one node."""
    limits: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """q."""
    node_fee: float = 0.0
    """Added to each node's price when packings are compared, to avoid many small nodes without a benefit. The linear
    program, and so the bound, ignore it.
    """

    @property
    def items(self) -> int:
        return len(self.counts)

    @property
    def options(self) -> int:
        return len(self.prices)


@dataclass(frozen=True, slots=True)
class PackedNode:
    option: int
    contents: tuple[tuple[int, int], ...]
    """Item and number of units, by item."""


Packing = tuple[tuple[PackedNode, int], ...]
"""Nodes and how many of each."""


def packed_node(option: int, contents: Ints) -> PackedNode:
    items = np.flatnonzero(contents)
    return PackedNode(option, tuple(zip(items.tolist(), contents[items].tolist(), strict=True)))


def contents_of(instance: PackingInstance, node: PackedNode) -> Ints:
    contents = np.zeros(instance.items, np.int64)
    for item, amount in node.contents:
        contents[item] = amount
    return contents


def merge_equal_nodes(nodes: Iterable[tuple[PackedNode, int]]) -> Packing:
    """Merges equal nodes and sorts them, independent of the order in which they were found."""
    counts: dict[PackedNode, int] = {}
    for each, number in nodes:
        if number and each.contents:
            counts[each] = counts.get(each, 0) + number
    nonzero = ((each, number) for each, number in counts.items() if number)
    return tuple(sorted(nonzero, key=lambda each: (each[0].option, each[0].contents)))


def packing_price(instance: PackingInstance, nodes: Packing) -> float:
    return float(sum(instance.prices[each.option] * number for each, number in nodes))


def packing_cost(instance: PackingInstance, nodes: Packing) -> float:
    """Price with node fees: the objective."""
    return packing_price(instance, nodes) + instance.node_fee * sum(number for _, number in nodes)


def limits_used(instance: PackingInstance, nodes: Packing) -> Ints:
    """Usage of the limits."""
    total = np.zeros(len(instance.limits), np.int64)
    for each, number in nodes:
        total += instance.limit_usage[:, each.option] * number
    return total


def options_holding(instance: PackingInstance, options: Sequence[int] | Ints, contents: Ints) -> Bools:
    """Which of the options can hold these contents in one node."""
    option_indices = np.asarray(options, np.int64)
    present = contents > 0
    requests = contents @ instance.requests
    fitting = ((requests <= instance.capacity[option_indices]) | (requests == 0)).all(axis=1)
    feasible: Bools = fitting & instance.allowed[np.ix_(option_indices, present)].all(axis=1)
    if (
        len(instance.counted)
        and (instance.counted @ contents > instance.node_limits[:, present].min(axis=1, initial=UNBOUNDED)).any()
    ):
        feasible[:] = False
    return feasible


def packing_error(instance: PackingInstance, nodes: Packing) -> str:
    """Returns the first constraint of the instance that a packing violates; "" if none."""
    total = np.zeros(instance.items, np.int64)
    for each, number in nodes:
        contents = contents_of(instance, each)
        if number < 1 or (contents < 0).any() or not options_holding(instance, [each.option], contents)[0]:
            return f"option {each.option} cannot contain {each.contents} ({number} times)"
        total += contents * number
    if (total != instance.counts).any():
        return f"contains {total.tolist()} of {instance.counts.tolist()}"
    exceeded = np.flatnonzero(limits_used(instance, nodes) > instance.limits)
    return f"exceeds limits {exceeded.tolist()}" if len(exceeded) else ""
