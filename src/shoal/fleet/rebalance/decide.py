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

from shoal.fleet.rebalance.min_cost_flow import MinCostFlow

MAX_BANDS = 200
"""The most share bands that are tried. Up to there the number of moves is the minimum."""
EDGES = 20_000
"""The largest graph that is solved as a whole; a larger fleet is balanced greedily."""
MAX_GREEDY_MOVES = 20
"""The most moves that are planned greedily; the rest follows when those are done."""
BAND_REWARD = 1_000_000
"""The reward for bringing a Worker into the band: more than all moves cost."""


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A Worker that takes part."""

    name: str
    capacity: int
    used: int
    """Used slots. A cluster that is being migrated counts on its target."""

    @property
    def share(self) -> Fraction:
        return Fraction(self.used, self.capacity)


@dataclass(frozen=True, slots=True, order=True)
class MovableCluster:
    """A ManagedCluster that may be moved."""

    name: str
    worker: str
    targets: frozenset[str]
    """Workers it may move to."""


@dataclass(frozen=True, slots=True)
class ClusterMove:
    name: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class _ShareBand:
    """How many clusters each Worker may have for all Workers to be even."""

    least: dict[str, int]
    most: dict[str, int]
    min_moves: int
    """Lower bound of the moves needed."""


def share_spread(loads: Collection[WorkerLoad]) -> Fraction:
    shares = [place.share for place in loads]
    return max(shares) - min(shares) if shares else Fraction(0)


def decide(loads: Sequence[WorkerLoad], clusters: Sequence[MovableCluster], threshold: Fraction) -> list[ClusterMove]:
    """Returns the moves in an order in which each finds capacity, as far as there is one. `loads` have a capacity above
    0.
    """
    if share_spread(loads) <= threshold:
        return []
    groups = _group_by_targets(loads, clusters)
    if len(loads) * (len(groups) + 2) <= EDGES:
        moves = _fewest_moves(loads, groups, threshold)
        if moves is not None:
            return _in_feasible_order(loads, moves)
    return _greedy_moves(loads, clusters, threshold)


Groups = dict[tuple[str, frozenset[str]], list[MovableCluster]]


def _group_by_targets(loads: Sequence[WorkerLoad], clusters: Sequence[MovableCluster]) -> Groups:
    """Groups clusters that are on the same Worker and have the same targets."""
    names, groups = {place.name for place in loads}, defaultdict(list)
    for item in sorted(clusters):
        allowed = (item.targets & names) - {item.worker}
        if item.worker in names and allowed:
            groups[item.worker, allowed].append(item)
    return groups


def _fewest_moves(loads: Sequence[WorkerLoad], groups: Groups, threshold: Fraction) -> list[ClusterMove] | None:
    """Returns the fewest moves; None if Workers cannot be made even."""
    best: list[ClusterMove] | None = None
    for band in sorted(_candidate_bands(loads, threshold), key=lambda each: each.min_moves):
        if best is not None and band.min_moves >= len(best):
            break
        moves = _moves_into_band(loads, groups, band)
        if moves is not None and (best is None or len(moves) < len(best)):
            best = moves
    return best


def _candidate_bands(loads: Sequence[WorkerLoad], threshold: Fraction) -> list[_ShareBand]:
    total = sum(place.used for place in loads)
    mean = Fraction(total, sum(place.capacity for place in loads))
    low_shares = {Fraction(k, place.capacity) for place in loads for k in range(place.capacity + 1)}
    candidates = sorted(low for low in low_shares if mean - threshold <= low <= mean)
    if len(candidates) > MAX_BANDS:
        candidates = [candidates[index * len(candidates) // MAX_BANDS] for index in range(MAX_BANDS)]
    bands = []
    for low in candidates:
        minimums = {place.name: ceil(low * place.capacity) for place in loads}
        maximums = {place.name: min(place.capacity, floor((low + threshold) * place.capacity)) for place in loads}
        if any(minimums[name] > maximums[name] for name in minimums) or not sum(minimums.values()) <= total <= sum(
            maximums.values()
        ):
            continue
        over = sum(max(0, place.used - maximums[place.name]) for place in loads)
        under = sum(max(0, minimums[place.name] - place.used) for place in loads)
        bands.append(_ShareBand(minimums, maximums, max(over, under)))
    return bands


def _moves_into_band(loads: Sequence[WorkerLoad], groups: Groups, band: _ShareBand) -> list[ClusterMove] | None:
    """Returns the fewest moves into that band; None if it cannot be reached."""
    number = {place.name: index for index, place in enumerate(loads)}
    source, sink = len(loads), len(loads) + 1
    graph, required = MinCostFlow(len(loads) + 2 + len(groups)), []
    for place in loads:
        worker_node, minimum, maximum = number[place.name], band.least[place.name], band.most[place.name]
        over, under = max(0, place.used - maximum), max(0, minimum - place.used)
        required += [
            (graph.add_edge(source, worker_node, over, -BAND_REWARD), over),
            (graph.add_edge(worker_node, sink, under, -BAND_REWARD), under),
        ]
        graph.add_edge(source, worker_node, max(0, place.used - minimum) - over)
        graph.add_edge(worker_node, sink, max(0, maximum - place.used) - under)
    routes = []
    for index, ((start, allowed), items) in enumerate(groups.items()):
        middle = len(loads) + 2 + index
        graph.add_edge(number[start], middle, len(items), 1)
        routes += [(items, end, graph.add_edge(middle, number[end], len(items))) for end in sorted(allowed)]
    graph.run(source, sink)
    if any(graph.flow_on(edge) < needed for edge, needed in required):
        return None
    assigned_count: dict[int, int] = defaultdict(int)
    moves = []
    for items, end, edge in routes:
        for _ in range(graph.flow_on(edge)):
            item = items[assigned_count[id(items)]]
            assigned_count[id(items)] += 1
            moves.append(ClusterMove(item.name, item.worker, end))
    return moves


def _in_feasible_order(loads: Sequence[WorkerLoad], moves: list[ClusterMove]) -> list[ClusterMove]:
    """Orders moves so that each finds a free slot."""
    free = {place.name: place.capacity - place.used for place in loads}
    remaining, ordered = list(moves), []
    while remaining:
        move = next((each for each in remaining if free[each.end] > 0), remaining[0])
        remaining.remove(move)
        free[move.end] -= 1
        free[move.start] += 1
        ordered.append(move)
    return ordered


def _greedy_moves(
    loads: Sequence[WorkerLoad], clusters: Sequence[MovableCluster], threshold: Fraction
) -> list[ClusterMove]:
    """Moves clusters from the fullest Worker to the emptiest allowed one, while their shares differ by more than the
    threshold and the move does not reverse their order.
    """
    used = {place.name: place.used for place in loads}
    capacities, names = {place.name: place.capacity for place in loads}, frozenset(used)
    by_worker: dict[str, dict[frozenset[str], list[MovableCluster]]] = {name: defaultdict(list) for name in used}
    for item in sorted(clusters, reverse=True):
        if item.worker in by_worker:
            by_worker[item.worker][(item.targets | {item.worker}) & names].append(item)
    assigned: dict[MovableCluster, str] = {}

    def share(name: str, more: int = 0) -> Fraction:
        return Fraction(used[name] + more, capacities[name])

    def step() -> tuple[str, frozenset[str], str] | None:
        for start in sorted(used, key=lambda name: (-share(name), name)):
            ends = ((min(allowed, key=lambda name: (share(name), name)), allowed) for allowed in by_worker[start])
            for end, allowed in sorted(ends, key=lambda each: (share(each[0]), each[0], sorted(each[1]))):
                if share(start) - share(end) > threshold and share(start, -1) >= share(end, 1):
                    return start, allowed, end
        return None

    while len(assigned) < MAX_GREEDY_MOVES and (chosen := step()) is not None:
        start, allowed, end = chosen
        item = by_worker[start][allowed].pop()
        if not by_worker[start][allowed]:
            del by_worker[start][allowed]
        by_worker[end][allowed].append(item)
        used[start], used[end] = used[start] - 1, used[end] + 1
        assigned[item] = end
    return [ClusterMove(item.name, item.worker, end) for item, end in assigned.items() if item.worker != end]
