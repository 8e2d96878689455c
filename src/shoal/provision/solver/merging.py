"""Merges two nodes into one option that holds both for no higher cost. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.provision.solver.instance import Instance, Ints, Packing, amounts, holds, node, packing, taken

_MOST = 400
"""With more nodes, checking all pairs takes too long."""


def merged(instance: Instance, nodes: Packing, stop: Callable[[], bool] = lambda: False) -> Packing:
    """Never more expensive, node fees included."""
    single = [each for each, times in nodes for _ in range(times)]
    if not 1 < len(single) <= _MOST:
        return nodes
    options = np.asarray([each.option for each in single], np.int64)
    contents = np.stack([amounts(instance, each) for each in single])
    room = instance.limits - taken(instance, nodes)
    at = 0
    while at + 1 < len(options) and not stop():
        found = _partner(instance, options[at:], contents[at:], room)
        if found is None:
            at += 1
            continue
        pair, option = [at, at + found[0]], found[1]
        room = room + instance.takes[:, options[pair]].sum(axis=1) - instance.takes[:, option]
        options = np.append(np.delete(options, pair), option)
        contents = np.concatenate([np.delete(contents, pair, axis=0), contents[pair].sum(axis=0)[None]])
    return packing((node(int(option), held), 1) for option, held in zip(options, contents, strict=True))


def _partner(instance: Instance, options: Ints, contents: Ints, room: Ints) -> tuple[int, int] | None:
    """Which of the other nodes to merge with the first, and the option for both."""
    used = contents @ instance.requests
    prices = instance.prices[options]
    both, most = used[1:] + used[0], prices[1:] + prices[0] + instance.fee
    cheap = np.flatnonzero(instance.prices <= most.max())
    fitting = (both[:, None, :] <= instance.capacity[cheap][None]).all(axis=2)
    fitting &= instance.prices[cheap] <= most[:, None]
    for number in np.flatnonzero(fitting.any(axis=1)).tolist():
        able = cheap[fitting[number]]
        able = able[holds(instance, able, contents[0] + contents[number + 1])]
        free = room + instance.takes[:, options[0]] + instance.takes[:, options[number + 1]]
        able = able[(instance.takes[:, able] <= free[:, None]).all(axis=0)]
        if len(able):
            return number + 1, int(able[instance.prices[able].argmin()])
    return None
