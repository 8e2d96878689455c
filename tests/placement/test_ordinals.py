"""Ordinal ranges over clusters: never shifted, never duplicated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.room import NO_DEMAND
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import decide_placement
from shoal.placement.division import ShareBounds, divide_replicas
from shoal.placement.interpreter import ORDINAL
from shoal.placement.ordinals import OrdinalRange, assign_ranges
from shoal.placement.policy import DEFAULT_POLICY
from shoal.placement.rollout import RolloutStrategy
from shoal.placement.splitter.decide import effective_policy

MANY = 1000
ONE_BY_ONE = RolloutStrategy(1, 0, is_exclusive=True)


def even(names: str, total: int) -> dict[str, int]:
    return divide_replicas(total, [ShareBounds(name) for name in names])


@pytest.mark.parametrize(
    ("total", "held", "rooms", "found"),
    [
        (6, {}, "ab", {"a": (0, 3), "b": (3, 3)}),
        (8, {"a": (0, 3), "b": (3, 3)}, "ab", {"a": (0, 3), "b": (3, 5)}),
        (5, {"a": (0, 3), "b": (3, 3)}, "ab", {"a": (0, 3), "b": (3, 2)}),
        (2, {"a": (0, 3), "b": (3, 3)}, "ab", {"a": (0, 2)}),
        (6, {"a": (0, 3)}, "abc", {"a": (0, 6)}),
        (6, {"b": (3, 3)}, "abc", {"a": (0, 3), "b": (3, 3)}),
        (6, {"a": (0, 2), "b": (4, 2)}, "b", {"a": (0, 2), "b": (2, 4)}),
        (6, {"a": (0, 2), "b": (4, 2)}, "abc", {"a": (0, 4), "b": (4, 2)}),
        (6, {"a": (0, 2), "b": (4, 2)}, "bc", {"a": (0, 2), "c": (2, 2), "b": (4, 2)}),
        (0, {"a": (0, 2)}, "ab", {}),
    ],
)
def test_ranges(total: int, held: dict[str, tuple[int, int]], rooms: str, found: dict[str, tuple[int, int]]) -> None:
    there = {name: OrdinalRange(*one) for name, one in held.items()}
    made = assign_ranges(OrdinalRange(0, total), there, dict.fromkeys(rooms, MANY), lambda n: even(rooms, n))
    assert made == {name: OrdinalRange(*one) for name, one in found.items()}


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=5),
    st.integers(0, 20),
    st.sets(st.sampled_from("abcdefg")),
)
def test_no_ordinal_is_twice_and_none_is_shifted(sizes: list[tuple[int, int]], total: int, open_: set[str]) -> None:
    held, place_ = {}, 0
    for name, (count, gap) in zip("abcde", sizes, strict=False):
        if count:
            held[name] = OrdinalRange(place_ + gap, count)
            place_ += gap + count
    rooms = dict.fromkeys(sorted(open_), 7)
    found = assign_ranges(
        OrdinalRange(0, total),
        held,
        rooms,
        lambda n: divide_replicas(n, [ShareBounds(name, maximum=7) for name in rooms]),
    )
    ordinals = [number for one in found.values() for number in range(one.start, one.end)]
    assert len(ordinals) == len(set(ordinals))
    assert all(0 <= number < total for number in ordinals)
    for name, one in held.items():
        kept = set(range(one.start, min(one.end, total)))
        assert kept <= set(range(found[name].start, found[name].end)) if kept else True


def test_what_a_cluster_had_goes_elsewhere_when_it_is_left_and_not_when_it_is_silent() -> None:
    now = 1000.0
    sites = [ClusterInfo("a"), ClusterInfo("b", until=now), ClusterInfo("c")]
    parts = {
        "a": CurrentShare(2, 2),
        "b": CurrentShare(2, 2, first_ordinal=2),
        "c": CurrentShare(2, 2, first_ordinal=4),
    }
    found = decide_placement(6, sites, DEFAULT_POLICY, parts, NO_DEMAND, now, 0, strategy=ONE_BY_ONE)
    assert ({**found.shares}, {**found.first_ordinals}) == ({"a": 2, "b": 1, "c": 2}, {"a": 0, "b": 3, "c": 4})
    dead = [ClusterInfo("a"), ClusterInfo("b", ready=False, until=now), ClusterInfo("c")]
    found = decide_placement(6, dead, DEFAULT_POLICY, parts, NO_DEMAND, now, 0, strategy=ONE_BY_ONE)
    assert ({**found.shares}, {**found.first_ordinals}) == ({"a": 4, "c": 2}, {"a": 0, "c": 4})
    silent = [ClusterInfo("a"), ClusterInfo("b", ready=False), ClusterInfo("c")]
    kept = decide_placement(
        6, silent, effective_policy(DEFAULT_POLICY, {"spec": {}}, ORDINAL), parts, NO_DEMAND, now, 0
    )
    assert {**kept.shares} == {"a": 2, "b": 2, "c": 2}, "the same pod would run twice"
    leaf = ORDINAL.leaf_content({"metadata": {}, "spec": {"replicas": 6}}, 2, 4)
    assert leaf["spec"] == {"replicas": 2, "ordinals": {"start": 4}}


@given(st.integers(1, 12), st.lists(st.sampled_from("abc"), max_size=3), st.integers(1, 3), st.integers(0, 4))
def test_an_ordinal_goes_down_before_it_comes_up_elsewhere(
    total: int, leaving: list[str], at_once: int, delay: int
) -> None:
    """Clusters are left while pods take `delay` looks to stop, and start at once."""
    strategy = RolloutStrategy(at_once, 0, is_exclusive=True)
    open_, now = dict.fromkeys("abcd", 0.0), 1000.0
    stopping: dict[tuple[int, str], int] = {}
    parts: dict[str, CurrentShare] = {}
    running: dict[int, set[str]] = {number: set() for number in range(total)}
    left = list(leaving)
    for look in range(80):
        if look % 20 == 10 and left:
            open_.pop(left.pop(), None)
        sites = [ClusterInfo(name, until=None if name in open_ else now) for name in "abcd"]
        found = decide_placement(total, sites, DEFAULT_POLICY, parts, NO_DEMAND, now, 0, strategy=strategy)
        wanted = {
            name: range(found.first_ordinals[name], found.first_ordinals[name] + share)
            for name, share in found.shares.items()
        }
        for number, owners in running.items():
            for name in [*owners]:
                if number not in wanted.get(name, ()) and stopping.setdefault((number, name), look) + delay <= look:
                    owners.discard(name)
                    del stopping[number, name]
            owners |= {name for name, span in wanted.items() if number in span}
            assert len(owners) <= 1, f"{number} runs in {owners}"
        available = sum(bool(owners) and not any((n, o) in stopping for o in owners) for n, owners in running.items())
        assert not look or available >= total - at_once
        parts = {
            name: CurrentShare(
                len(span),
                len(span),
                pods=len(span) + any(name in owners and number not in span for number, owners in running.items()),
                first_ordinal=span.start,
            )
            for name, span in wanted.items()
        }
    assert all(len(owners) == 1 and owners <= open_.keys() for owners in running.values())
