"""Merges two nodes into one option that holds both for no higher cost. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.provision.solver.instance import (
    Ints,
    Packing,
    PackingInstance,
    contents_of,
    limits_used,
    merge_equal_nodes,
    options_holding,
    packed_node,
)

_MAX_NODES = 400
"""With more nodes, checking all pairs takes too long."""


def merge_pairs(instance: PackingInstance, nodes: Packing, stop: Callable[[], bool] = lambda: False) -> Packing:
    """Never more expensive, node fees included."""
    single = [each for each, times in nodes for _ in range(times)]
    if not 1 < len(single) <= _MAX_NODES:
        return nodes
    options = np.asarray([each.option for each in single], np.int64)
    contents = np.stack([contents_of(instance, each) for each in single])
    remaining = instance.limits - limits_used(instance, nodes)
    first = 0
    while first + 1 < len(options) and not stop():
        partner = _partner(instance, options[first:], contents[first:], remaining)
        if partner is None:
            first += 1
            continue
        pair, option = [first, first + partner[0]], partner[1]
        remaining = remaining + instance.limit_usage[:, options[pair]].sum(axis=1) - instance.limit_usage[:, option]
        options = np.append(np.delete(options, pair), option)
        contents = np.concatenate([np.delete(contents, pair, axis=0), contents[pair].sum(axis=0)[None]])
    return merge_equal_nodes(
        (packed_node(int(option), held), 1) for option, held in zip(options, contents, strict=True)
    )


def _partner(instance: PackingInstance, options: Ints, contents: Ints, remaining: Ints) -> tuple[int, int] | None:
    """Which of the other nodes to merge with the first, and the option for both."""
    used = contents @ instance.requests
    prices = instance.prices[options]
    combined, max_price = used[1:] + used[0], prices[1:] + prices[0] + instance.node_fee
    cheap = np.flatnonzero(instance.prices <= max_price.max())
    fitting = (combined[:, None, :] <= instance.capacity[cheap][None]).all(axis=2)
    fitting &= instance.prices[cheap] <= max_price[:, None]
    for number in np.flatnonzero(fitting.any(axis=1)).tolist():
        feasible = cheap[fitting[number]]
        feasible = feasible[options_holding(instance, feasible, contents[0] + contents[number + 1])]
        free = remaining + instance.limit_usage[:, options[0]] + instance.limit_usage[:, options[number + 1]]
        feasible = feasible[(instance.limit_usage[:, feasible] <= free[:, None]).all(axis=0)]
        if len(feasible):
            return number + 1, int(feasible[instance.prices[feasible].argmin()])
    return None
