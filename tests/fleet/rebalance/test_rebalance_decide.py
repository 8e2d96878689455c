"""Rebalancing against brute force: even afterwards, with the fewest moves, each of them allowed."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.rebalance import decide as rebalance
from shoal.fleet.rebalance.decide import ClusterMove, MovableCluster, WorkerLoad, decide, share_spread
from shoal.fleet.rebalance.min_cost_flow import MinCostFlow

ALL = frozenset("abcd")


def world(counts: dict[str, tuple[int, int]], pinned: int = 0) -> tuple[list[WorkerLoad], list[MovableCluster]]:
    """By Worker: how many it has, and its capacity. All may go anywhere but for the first so many of each."""
    places = [WorkerLoad(name, capacity, number) for name, (number, capacity) in counts.items()]
    items = [
        MovableCluster(f"{name}{index}", name, frozenset(counts) if index >= pinned else frozenset())
        for name, (number, _) in counts.items()
        for index in range(number)
    ]
    return places, items


def after(
    places: list[WorkerLoad], items: list[MovableCluster], moves: list[ClusterMove]
) -> tuple[list[WorkerLoad], list[MovableCluster]]:
    ends = {move.name: move.end for move in moves}
    change = {place.name: 0 for place in places}
    for move in moves:
        change[move.start] -= 1
        change[move.end] += 1
    moved = [WorkerLoad(place.name, place.capacity, place.used + change[place.name]) for place in places]
    return moved, [
        MovableCluster(item.name, ends.get(item.name, item.worker), item.targets | {item.worker}) for item in items
    ]


@pytest.mark.parametrize(
    ("counts", "threshold", "number"),
    [
        ({"a": (5, 10), "b": (5, 10)}, "0.2", 0),
        ({"a": (6, 10), "b": (4, 10)}, "0.2", 0),
        ({"a": (10, 10), "b": (0, 10)}, "0.2", 4),
        ({"a": (10, 10), "b": (0, 10)}, "0", 5),
        ({"a": (10, 10), "b": (0, 100)}, "0", -1),
        ({"a": (9, 10), "b": (0, 10), "c": (0, 10)}, "0.1", 6),
        ({"a": (3, 10), "b": (3, 10), "c": (0, 10)}, "0.2", 1),
        ({"a": (1, 1), "b": (0, 1)}, "0.2", 0),
        ({"a": (12, 10), "b": (0, 10)}, "0.2", 5),
    ],
)
def test_tables(counts: dict[str, tuple[int, int]], threshold: str, number: int) -> None:
    places, items = world(counts)
    moves = decide(places, items, Fraction(threshold))
    if number >= 0:
        assert len(moves) == number
    assert decide(*after(places, items, moves), Fraction(threshold)) == []


def test_a_chain_is_found_where_there_is_no_direct_way() -> None:
    """The full one's may go to b only, and b's to c: two moves for one."""
    places = [WorkerLoad("a", 4, 4), WorkerLoad("b", 4, 2), WorkerLoad("c", 4, 0)]
    items = [
        *(MovableCluster(f"a{n}", "a", frozenset("b")) for n in range(4)),
        *(MovableCluster(f"b{n}", "b", frozenset("c")) for n in "12"),
    ]
    moves = decide(places, items, Fraction("0.5"))
    assert sorted((move.start, move.end) for move in moves) == [("a", "b"), ("b", "c")]
    assert share_spread(after(places, items, moves)[0]) <= Fraction("0.5")


def test_those_are_evened_out_that_can_be_where_not_all_can() -> None:
    places, items = world({"a": (9, 10), "b": (1, 10), "c": (0, 10)})
    kept = [MovableCluster(item.name, item.worker, item.targets - {"c"}) for item in items]
    moves = decide(places, kept, Fraction("0.2"))
    assert {(move.start, move.end) for move in moves} == {("a", "b")}
    now, then = after(places, kept, moves)
    assert sorted(place.used for place in now) == [0, 4, 6]
    assert decide(now, then, Fraction("0.2")) == []


def test_an_order_in_which_each_finds_a_slot() -> None:
    places = [WorkerLoad("a", 4, 4), WorkerLoad("b", 2, 2), WorkerLoad("c", 4, 0)]
    items = [
        *(MovableCluster(f"a{n}", "a", frozenset("b")) for n in range(4)),
        *(MovableCluster(f"b{n}", "b", frozenset("c")) for n in "12"),
    ]
    free = {place.name: place.capacity - place.used for place in places}
    moves = decide(places, items, Fraction("0.25"))
    assert moves
    for move in moves:
        assert free[move.end] > 0
        free[move.end] -= 1
        free[move.start] += 1


def test_a_large_fleet_is_done_step_by_step_and_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "EDGES", 0)
    places, items = world({"a": (40, 50), "b": (0, 50), "c": (10, 50)})
    threshold, number = Fraction("0.1"), 0
    while moves := decide(places, items, threshold):
        number += len(moves)
        assert len({move.name for move in moves}) == len(moves) <= rebalance.MAX_GREEDY_MOVES
        places, items = after(places, items, moves)
    assert share_spread(places) <= threshold
    assert number <= 40


@st.composite
def small(draw: st.DrawFn) -> tuple[list[WorkerLoad], list[MovableCluster], Fraction]:
    names = "abc"[: draw(st.integers(2, 3))]
    places, items = [], []
    for name in names:
        capacity = draw(st.integers(1, 4))
        number = draw(st.integers(0, min(3, capacity)))
        places.append(WorkerLoad(name, capacity, number))
        for index in range(number):
            items.append(MovableCluster(f"{name}{index}", name, draw(st.frozensets(st.sampled_from(names)))))
    return places, items, draw(st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)]))


def fewest(places: list[WorkerLoad], items: list[MovableCluster], threshold: Fraction) -> int | None:
    """By trying everything."""
    best = None
    for ends in product(*([item.worker, *sorted(item.targets - {item.worker})] for item in items)):
        taken = {place.name: place.used for place in places}
        for item, end in zip(items, ends, strict=True):
            taken[item.worker] -= 1
            taken[end] += 1
        now = [WorkerLoad(place.name, place.capacity, taken[place.name]) for place in places]
        if all(place.used <= place.capacity for place in now) and share_spread(now) <= threshold:
            number = sum(item.worker != end for item, end in zip(items, ends, strict=True))
            best = number if best is None else min(best, number)
    return best


@given(small())
def test_the_fewest_moves_there_are(case: tuple[list[WorkerLoad], list[MovableCluster], Fraction]) -> None:
    places, items, threshold = case
    moves, wanted = decide(places, items, threshold), fewest(places, items, threshold)
    by_name = {item.name: item for item in items}
    for move in moves:
        item = by_name[move.name]
        assert move.start == item.worker != move.end
        assert move.end in item.targets
    assert len({move.name for move in moves}) == len(moves)
    now, then = after(places, items, moves)
    if wanted is not None:
        assert len(moves) == wanted
        assert share_spread(now) <= threshold
    else:
        assert share_spread(now) <= share_spread(places)
    assert decide(now, then, threshold) == []


@given(small())
def test_one_move_after_the_other_each_decided_anew_is_as_few(
    case: tuple[list[WorkerLoad], list[MovableCluster], Fraction],
) -> None:
    """As the loop does it: no cluster is moved twice, and the number is the same."""
    places, items, threshold = case
    wanted = fewest(places, items, threshold)
    if wanted is None:
        return
    everywhere = {item.name: item.targets | {item.worker} for item in items}
    moved: list[str] = []
    while moves := decide(places, items, threshold):
        places, items = after(places, items, moves[:1])
        items = [MovableCluster(item.name, item.worker, everywhere[item.name]) for item in items]
        moved.append(moves[0].name)
        assert len(moved) <= wanted
    assert len(moved) == wanted
    assert len(set(moved)) == len(moved)


def test_a_flow_takes_back_what_was_not_the_best() -> None:
    flow = MinCostFlow(4)
    edges = [
        flow.add_edge(0, 1, 1, -10),
        flow.add_edge(0, 2, 1, -10),
        flow.add_edge(1, 3, 1, 1),
        flow.add_edge(2, 3, 1, 5),
    ]
    cross = flow.add_edge(2, 1, 1, 0)
    flow.run(0, 3)
    assert [flow.flow_on(edge) for edge in edges] == [1, 1, 1, 1]
    assert flow.flow_on(cross) == 0
