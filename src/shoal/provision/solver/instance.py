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

MANY = 1 << 40
"""Effectively unbounded."""


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
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
    most: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """g x n: a node with the item holds at most this many units that count for the rule; UNBOUNDED: no limit."""
    takes: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """q x k: usage of a limit by one node."""
    limits: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """q."""
    fee: float = 0.0
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
class Node:
    option: int
    contents: tuple[tuple[int, int], ...]
    """Item and number of units, by item."""


Packing = tuple[tuple[Node, int], ...]
"""Nodes and how many of each."""


def node(option: int, contents: Ints) -> Node:
    held = np.flatnonzero(contents)
    return Node(option, tuple(zip(held.tolist(), contents[held].tolist(), strict=True)))


def amounts(instance: Instance, held: Node) -> Ints:
    found = np.zeros(instance.items, np.int64)
    for item, amount in held.contents:
        found[item] = amount
    return found


def packing(nodes: Iterable[tuple[Node, int]]) -> Packing:
    """Merges equal nodes and sorts them, independent of the order in which they were found."""
    times: dict[Node, int] = {}
    for each, number in nodes:
        if number and each.contents:
            times[each] = times.get(each, 0) + number
    found = ((each, number) for each, number in times.items() if number)
    return tuple(sorted(found, key=lambda each: (each[0].option, each[0].contents)))


def price(instance: Instance, nodes: Packing) -> float:
    return float(sum(instance.prices[each.option] * number for each, number in nodes))


def cost(instance: Instance, nodes: Packing) -> float:
    """Price with node fees: the objective."""
    return price(instance, nodes) + instance.fee * sum(number for _, number in nodes)


def taken(instance: Instance, nodes: Packing) -> Ints:
    """Usage of the limits."""
    total = np.zeros(len(instance.limits), np.int64)
    for each, number in nodes:
        total += instance.takes[:, each.option] * number
    return total


def holds(instance: Instance, options: Sequence[int] | Ints, contents: Ints) -> Bools:
    """Which of the options can hold these contents in one node."""
    which = np.asarray(options, np.int64)
    held = contents > 0
    wanted = contents @ instance.requests
    fitting = ((wanted <= instance.capacity[which]) | (wanted == 0)).all(axis=1)
    found: Bools = fitting & instance.allowed[np.ix_(which, held)].all(axis=1)
    if len(instance.counted) and (instance.counted @ contents > instance.most[:, held].min(axis=1, initial=MANY)).any():
        found[:] = False
    return found


def problem(instance: Instance, nodes: Packing) -> str:
    """Returns the first constraint of the instance that a packing violates; "" if none."""
    total = np.zeros(instance.items, np.int64)
    for each, number in nodes:
        contents = amounts(instance, each)
        if number < 1 or (contents < 0).any() or not holds(instance, [each.option], contents)[0]:
            return f"option {each.option} cannot hold {each.contents} ({number} times)"
        total += contents * number
    if (total != instance.counts).any():
        return f"holds {total.tolist()} of {instance.counts.tolist()}"
    over = np.flatnonzero(taken(instance, nodes) > instance.limits)
    return f"takes more than there is of limits {over.tolist()}" if len(over) else ""
