"""Packing instances: Karpenter's benchmark mixes on KWOK's catalogue, small random ones, and reference solutions."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from shoal.provision.solver.instance import (
    UNBOUNDED,
    Ints,
    PackedNode,
    Packing,
    PackingInstance,
    merge_equal_nodes,
    options_holding,
    packed_node,
)

MI, GI = 1 << 20, 1 << 30
MIXES = ("generic", "basic", "wide")


def shapes(mix: str, number: int) -> Counter[tuple[int, int]]:
    dice = random.Random(42)
    if mix == "generic":
        cpus, memories = [100, 250, 500, 1000, 1500], [100, 256, 512, 1024, 2048, 4096]
        return Counter((dice.choice(cpus), dice.choice(memories) * MI) for _ in range(number))
    if mix == "basic":
        return Counter({(900, 3100 * MI): number // 2, (3500, 28 * GI): number - number // 2})
    cpus, memories = [100, 250, 500, 750, 1000, 1500, 2000, 3000, 4000], [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    wide = [(dice.choice(cpus), dice.choice(memories) * MI) for _ in range(30)]
    return Counter(wide[at % 30] for at in range(number))


def benchmark(mix: str, number: int, largest: int = 256) -> PackingInstance:
    found = shapes(mix, number)
    kinds = sorted(found, reverse=True)
    sizes = [each for each in (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256) if each <= largest]
    nodes = [(cpu, cpu * ratio * GI) for cpu in sizes for ratio in (2, 4, 8)]
    capacity = [(cpu * 1000 - 100, memory - 10 * MI, min(16 * cpu, 1024)) for cpu, memory in nodes]
    prices = np.asarray([0.025 * cpu + memory / 1e12 for cpu, memory in nodes])
    return PackingInstance(
        requests=np.asarray([(*each, 1) for each in kinds], np.int64),
        counts=np.asarray([found[each] for each in kinds], np.int64),
        capacity=np.asarray(capacity, np.int64),
        prices=prices,
        allowed=np.ones((len(nodes), len(kinds)), np.bool_),
        limit_usage=np.zeros((0, len(nodes)), np.int64),
        node_fee=0.02 * float(prices.min()),
    )


def by_rule(instance: PackingInstance) -> Packing:
    """Karpenter's: the largest first, onto the node with the fewest pods that can be one of some type."""
    claims: list[tuple[Ints, Ints]] = []
    for item in [item for item, count in enumerate(instance.counts.tolist()) for _ in range(count)]:
        claims.sort(key=lambda claim: int(claim[1].sum()))
        able = (one for one in claims if (one[0] + instance.requests[item] <= instance.capacity).all(axis=1).any())
        claim = next(able, None)
        if claim is None:
            claim = (np.zeros(instance.requests.shape[1], np.int64), np.zeros(instance.items, np.int64))
            claims.append(claim)
        claim[0][:] += instance.requests[item]
        claim[1][item] += 1
    return merge_equal_nodes((packed_node(cheapest(instance, held), held), 1) for _, held in claims)


def cheapest(instance: PackingInstance, held: Ints) -> int:
    able = np.flatnonzero(options_holding(instance, np.arange(instance.options), held))
    return int(able[instance.prices[able].argmin()])


@st.composite
def small(draw: st.DrawFn) -> tuple[PackingInstance, Packing]:
    """A few pods, and a packing of them."""
    items, options, rules = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(0, 2))
    few = st.integers(0, 6)
    requests = [[draw(few), draw(few), 1] for _ in range(items)]
    counts = [draw(st.integers(1, 2)) for _ in range(items)]
    counts = counts[:3] + [0] * (len(counts) - 3) if sum(counts) > 5 else counts
    largest = [12, 12, 6]
    capacity = [[draw(st.integers(4, 12)), draw(st.integers(4, 12)), draw(st.integers(1, 6))] for _ in range(options)]
    allowed = [[draw(st.integers(0, 3)) > 0 for _ in range(items)] for _ in range(options)]
    # One that takes everything, so that there is an answer.
    prices = [draw(st.integers(0, 9)) / 4 for _ in range(options)] + [6.0]
    counted = [[draw(st.booleans()) for _ in range(items)] for _ in range(rules)]
    most = [[draw(st.sampled_from((UNBOUNDED, UNBOUNDED, 1, 2))) for _ in range(items)] for _ in range(rules)]
    limited = draw(st.booleans())
    takes = [[draw(st.integers(0, 1)) for _ in range(options)] + [0]] if limited else []
    instance = PackingInstance(
        requests=np.asarray(requests, np.int64),
        counts=np.asarray(counts, np.int64),
        capacity=np.asarray([*capacity, largest], np.int64),
        prices=np.asarray(prices),
        allowed=np.asarray([*allowed, [True] * items], np.bool_),
        counted=np.asarray(counted, np.bool_).reshape(rules, items),
        node_limits=np.asarray(most, np.int64).reshape(rules, items),
        limit_usage=np.asarray(takes, np.int64).reshape(len(takes), options + 1),
        limits=np.asarray([draw(st.integers(0, 2))] * len(takes), np.int64),
        node_fee=draw(st.sampled_from((0.0, 0.001))),
    )
    alone = [(PackedNode(options, ((item, 1),)), count) for item, count in enumerate(counts)]
    return instance, merge_equal_nodes(alone)


def least(instance: PackingInstance) -> float:
    """What the cheapest packing costs: all of them are tried. For one limit at most, of which a node takes one."""
    pods = [item for item, count in enumerate(instance.counts.tolist()) for _ in range(count)]
    takes = instance.limit_usage.sum(axis=0)
    room = int(instance.limits.sum()) if len(instance.limits) else 0
    best = float("inf")
    for parts in _partitions(len(pods)):
        choices = []
        for part in parts:
            contents = np.zeros(instance.items, np.int64)
            for at in part:
                contents[pods[at]] += 1
            able = np.flatnonzero(options_holding(instance, np.arange(instance.options), contents)).tolist()
            choices.append(
                [(min((instance.prices[o] for o in able if takes[o] == each), default=np.inf), each) for each in (0, 1)]
            )
        for chosen in itertools.product(*choices):
            if sum(each for _, each in chosen) <= room:
                best = min(best, float(sum(cost for cost, _ in chosen)))
    return best


def _partitions(size: int) -> Iterator[list[list[int]]]:
    if size == 0:
        yield []
        return
    for parts in _partitions(size - 1):
        for at in range(len(parts)):
            yield [[*part, size - 1] if at == number else part for number, part in enumerate(parts)]
        yield [*parts, [size - 1]]
