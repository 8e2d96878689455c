"""Rolling steps towards a target: no replica is lost, availability holds, and the target is reached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.placement.cluster_info import CurrentShare
from shoal.placement.decide import rolling_step

NAMES = "abcde"


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, CurrentShare], int]:
    parts = {}
    for name in draw(st.sets(st.sampled_from(NAMES))):
        replicas = draw(st.integers(0, 8))
        parts[name] = CurrentShare(replicas, draw(st.integers(0, replicas)))
    wanted = {name: draw(st.integers(0, 8)) for name in draw(st.sets(st.sampled_from(NAMES)))}
    return wanted, parts, draw(st.integers(0, sum(wanted.values())))


@given(situations())
def test_nothing_is_lost_and_the_floor_stands(given: tuple[dict[str, int], dict[str, CurrentShare], int]) -> None:
    wanted, parts, floor = given
    shares = rolling_step(wanted, parts, floor)
    assert sum(shares.values()) == sum(wanted.values())
    assert 0 <= sum(rolling_step(wanted, parts, floor, 2).values()) - sum(wanted.values()) <= 2
    left = sum(min(part.available, shares[name]) for name, part in parts.items())
    assert left >= min(floor, sum(part.available for part in parts.values()))


@given(situations())
def test_steps_arrive_by_the_fewest_moves(given: tuple[dict[str, int], dict[str, CurrentShare], int]) -> None:
    """When all that was placed runs before the next look, and one at least may move or be there in addition."""
    wanted, parts, floor = given
    surge = int(floor == sum(wanted.values()))
    moved, fewest = 0, sum(max(part.replicas - wanted.get(name, 0), 0) for name, part in parts.items())
    for _ in range(50):
        shares = rolling_step(wanted, parts, floor, surge)
        moved += sum(max(part.replicas - shares[name], 0) for name, part in parts.items())
        if all(share == wanted.get(name, 0) for name, share in shares.items()):
            break
        parts = {name: CurrentShare(share, share) for name, share in shares.items()}
    assert {name: share for name, share in shares.items() if share} == {name: n for name, n in wanted.items() if n}
    idle_elsewhere = any(part.available < part.replicas for part in given[1].values())
    assert moved == fewest or idle_elsewhere


@given(situations())
def test_who_is_there_stays(given: tuple[dict[str, int], dict[str, CurrentShare], int]) -> None:
    wanted, _, floor = given
    assert rolling_step(wanted, {name: CurrentShare(size, size) for name, size in wanted.items()}, floor) == wanted


@pytest.mark.parametrize(
    ("wanted", "parts", "floor", "found"),
    [
        ({"a": 5, "b": 5}, {}, 8, {"a": 5, "b": 5}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(10, 10)}, 8, {"a": 8, "b": 2}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(8, 8), "b": CurrentShare(2, 0)}, 8, {"a": 8, "b": 2}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(8, 8), "b": CurrentShare(2, 2)}, 8, {"a": 6, "b": 4}),
        ({"b": 10}, {"a": CurrentShare(5, 0), "b": CurrentShare(5, 5)}, 8, {"b": 10, "a": 0}),
        ({"a": 2, "b": 3}, {"a": CurrentShare(5, 5), "b": CurrentShare(5, 0)}, 4, {"a": 4, "b": 1}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(10, 10)}, 10, {"a": 10, "b": 0}),
    ],
)
def test_steps(wanted: dict[str, int], parts: dict[str, CurrentShare], floor: int, found: dict[str, int]) -> None:
    assert rolling_step(wanted, parts, floor) == found


def test_where_nothing_may_be_missing_the_successor_comes_first() -> None:
    parts = {"a": CurrentShare(2, 2)}
    for found in ({"a": 2, "b": 1}, {"a": 1, "b": 1}):
        shares = rolling_step({"a": 1, "b": 1}, parts, 2, 1)
        assert shares == found
        parts = {name: CurrentShare(share, share) for name, share in shares.items()}
    waiting = {"a": CurrentShare(2, 2), "b": CurrentShare(1, 0)}
    assert rolling_step({"a": 1, "b": 1}, waiting, 2, 1) == {"a": 2, "b": 1}
