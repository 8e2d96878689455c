"""Decides which ManagedClusters move where, so that Workers are about equally full, with as few moves as possible.
Pure.

Workers are even when their used shares of slots differ by no more than the threshold. A move is a step on a shortest
path to that state: after it one fewer is needed, and when Workers are even nothing is moved. So no cluster is moved
twice, and none back. Where requirements keep Workers apart, only the others are evened out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from shoal.fleet.rebalance.flow import Flow

BANDS = 200
"""The most share bands that are tried. Up to there the number of moves is the minimum."""
EDGES = 20_000
"""The largest graph that is solved as a whole; a larger fleet is balanced greedily."""
STEPS = 20
"""The most moves that are planned greedily; the rest follows when those are done."""
MUST = 1_000_000
"""The reward for bringing a Worker into the band: more than all moves cost."""


@dataclass(frozen=True, slots=True)
class Place:
    """A Worker that takes part."""

    name: str
    capacity: int
    taken: int
    """Used slots. A cluster that is being migrated counts on its target."""

    @property
    def share(self) -> Fraction:
        return Fraction(self.taken, self.capacity)


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """A ManagedCluster that may be moved."""

    name: str
    where: str
    allowed: frozenset[str]
    """Workers it may move to."""


@dataclass(frozen=True, slots=True)
class Move:
    name: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class _Band:
    """How many clusters each Worker may have for all Workers to be even."""

    least: dict[str, int]
    most: dict[str, int]
    moves: int
    """Lower bound of the moves needed."""


def spread(places: Collection[Place]) -> Fraction:
    shares = [place.share for place in places]
    return max(shares) - min(shares) if shares else Fraction(0)


def decide(places: Sequence[Place], items: Sequence[Item], threshold: Fraction) -> list[Move]:
    """Returns the moves in an order in which each finds capacity, as far as there is one. `loads` have a capacity above
    0.
    """
    if spread(places) <= threshold:
        return []
    groups = _groups(places, items)
    if len(places) * (len(groups) + 2) <= EDGES:
        found = _fewest(places, groups, threshold)
        if found is not None:
            return _ordered(places, found)
    return _step_by_step(places, items, threshold)


Groups = dict[tuple[str, frozenset[str]], list[Item]]


def _groups(places: Sequence[Place], items: Sequence[Item]) -> Groups:
    """Groups clusters that are on the same Worker and have the same targets."""
    there, found = {place.name for place in places}, defaultdict(list)
    for item in sorted(items):
        allowed = (item.allowed & there) - {item.where}
        if item.where in there and allowed:
            found[item.where, allowed].append(item)
    return found


def _fewest(places: Sequence[Place], groups: Groups, threshold: Fraction) -> list[Move] | None:
    """Returns the fewest moves; None if Workers cannot be made even."""
    best: list[Move] | None = None
    for band in sorted(_bands(places, threshold), key=lambda each: each.moves):
        if best is not None and band.moves >= len(best):
            break
        found = _into(places, groups, band)
        if found is not None and (best is None or len(found) < len(best)):
            best = found
    return best


def _bands(places: Sequence[Place], threshold: Fraction) -> list[_Band]:
    total = sum(place.taken for place in places)
    mean = Fraction(total, sum(place.capacity for place in places))
    lows = {Fraction(k, place.capacity) for place in places for k in range(place.capacity + 1)}
    low_ones = sorted(low for low in lows if mean - threshold <= low <= mean)
    if len(low_ones) > BANDS:
        low_ones = [low_ones[index * len(low_ones) // BANDS] for index in range(BANDS)]
    found = []
    for low in low_ones:
        least = {place.name: ceil(low * place.capacity) for place in places}
        most = {place.name: min(place.capacity, floor((low + threshold) * place.capacity)) for place in places}
        if any(least[name] > most[name] for name in least) or not sum(least.values()) <= total <= sum(most.values()):
            continue
        over = sum(max(0, place.taken - most[place.name]) for place in places)
        under = sum(max(0, least[place.name] - place.taken) for place in places)
        found.append(_Band(least, most, max(over, under)))
    return found


def _into(places: Sequence[Place], groups: Groups, band: _Band) -> list[Move] | None:
    """Returns the fewest moves into that band; None if it cannot be reached."""
    number = {place.name: index for index, place in enumerate(places)}
    source, sink = len(places), len(places) + 1
    flow, musts = Flow(len(places) + 2 + len(groups)), []
    for place in places:
        here, least, most = number[place.name], band.least[place.name], band.most[place.name]
        over, under = max(0, place.taken - most), max(0, least - place.taken)
        musts += [(flow.add(source, here, over, -MUST), over), (flow.add(here, sink, under, -MUST), under)]
        flow.add(source, here, max(0, place.taken - least) - over)
        flow.add(here, sink, max(0, most - place.taken) - under)
    ways = []
    for index, ((start, allowed), items) in enumerate(groups.items()):
        middle = len(places) + 2 + index
        flow.add(number[start], middle, len(items), 1)
        ways += [(items, end, flow.add(middle, number[end], len(items))) for end in sorted(allowed)]
    flow.run(source, sink)
    if any(flow.used(edge) < wanted for edge, wanted in musts):
        return None
    taken: dict[int, int] = defaultdict(int)
    found = []
    for items, end, edge in ways:
        for _ in range(flow.used(edge)):
            item = items[taken[id(items)]]
            taken[id(items)] += 1
            found.append(Move(item.name, item.where, end))
    return found


def _ordered(places: Sequence[Place], moves: list[Move]) -> list[Move]:
    """Orders moves so that each finds a free slot."""
    room = {place.name: place.capacity - place.taken for place in places}
    left, found = list(moves), []
    while left:
        move = next((each for each in left if room[each.end] > 0), left[0])
        left.remove(move)
        room[move.end] -= 1
        room[move.start] += 1
        found.append(move)
    return found


def _step_by_step(places: Sequence[Place], items: Sequence[Item], threshold: Fraction) -> list[Move]:
    """Moves clusters from the fullest Worker to the emptiest allowed one, while their shares differ by more than the
    threshold and the move does not reverse their order.
    """
    taken = {place.name: place.taken for place in places}
    size, there = {place.name: place.capacity for place in places}, frozenset(taken)
    on: dict[str, dict[frozenset[str], list[Item]]] = {name: defaultdict(list) for name in taken}
    for item in sorted(items, reverse=True):
        if item.where in on:
            on[item.where][(item.allowed | {item.where}) & there].append(item)
    now: dict[Item, str] = {}

    def share(name: str, more: int = 0) -> Fraction:
        return Fraction(taken[name] + more, size[name])

    def step() -> tuple[str, frozenset[str], str] | None:
        for start in sorted(taken, key=lambda name: (-share(name), name)):
            ends = ((min(allowed, key=lambda name: (share(name), name)), allowed) for allowed in on[start])
            for end, allowed in sorted(ends, key=lambda each: (share(each[0]), each[0], sorted(each[1]))):
                if share(start) - share(end) > threshold and share(start, -1) >= share(end, 1):
                    return start, allowed, end
        return None

    while len(now) < STEPS and (found := step()) is not None:
        start, allowed, end = found
        item = on[start][allowed].pop()
        if not on[start][allowed]:
            del on[start][allowed]
        on[end][allowed].append(item)
        taken[start], taken[end] = taken[start] - 1, taken[end] + 1
        now[item] = end
    return [Move(item.name, item.where, end) for item, end in now.items() if item.where != end]
