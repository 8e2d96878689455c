"""Placement decisions: tables of single rules, and properties of all of them together."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.placement.decide import Placed, place
from shoal.placement.policy import DEFAULT, Group, Limit, Policy, Rule, Spread, policy_of, rivals
from shoal.placement.sites import Part, Site

NOW = 1_000_000.0
ASKS = {"cpu": 500, "pods": 1}


def site(name: str, cpu: float | None = None, **given: Any) -> Site:
    free = None if cpu is None else {"cpu": int(cpu * 1000), "pods": 1000}
    labels = given.pop("labels", {})
    return Site(name, labels={"name": name, **labels}, free=free, **given)


def run(
    total: int, sites: list[Site], policy: Policy = DEFAULT, parts: dict[str, int] | None = None, now: float = NOW
) -> dict[str, int]:
    """What it comes to when everything placed runs before the next look."""
    held = {name: Part(size, size, away=not size) for name, size in (parts or {}).items()}
    for _ in range(100):
        found = place(total, sites, policy, held, ASKS, now)
        shares = found.shares
        after = {name: Part(share, share, away=name in found.away) for name, share in shares.items()}
        if after == held:
            return dict(shares)
        sites = [_taken(one, held.get(one.name), after.get(one.name)) for one in sites]
        held = after
    raise AssertionError(f"it does not come to rest: {held}")


def _taken(one: Site, before: Part | None, after: Part | None) -> Site:
    if one.free is None:
        return one
    more = (after or Part()).replicas - (before or Part()).replicas
    return replace(one, free={"cpu": one.free["cpu"] - 500 * more, "pods": 1000})


def names(text: str) -> Group:
    return Group(frozenset(text.split()))


def test_the_seeds_demo() -> None:
    a, b, c = site("a"), site("b"), site("c")
    assert run(10, [a, b]) == {"a": 5, "b": 5}
    three = {"a": 4, "b": 3, "c": 3}
    assert run(10, [a, b, c], parts={"a": 5, "b": 5}) == three
    dark = replace(b, ready=False, since=NOW - 10)
    assert run(10, [a, dark, c], parts=three) == three
    without = {"a": 5, "b": 0, "c": 5}
    assert run(10, [a, dark, c], parts=three, now=NOW + 300) == without
    back = replace(b, since=NOW)
    assert run(10, [a, back, c], parts=without, now=NOW + 1) == without
    assert run(10, [a, back, c], parts=without, now=NOW + 60) == three
    assert run(10, [a, replace(b, until=0.0), c], parts=three) == {"a": 5, "c": 5}


@pytest.mark.parametrize(
    ("total", "sites", "parts", "found"),
    [
        (10, [], {}, {}),
        (10, [site("a", ready=False)], {}, {}),
        (10, [site("a")], {}, {"a": 10}),
        (10, [site("a")], {"a": 3}, {"a": 10}),
        (10, [site("a"), site("b")], {"a": 10}, {"a": 5, "b": 5}),
        (5, [site("a"), site("b")], {"a": 2, "b": 3}, {"a": 2, "b": 3}),
        (10, [site("a"), site("b"), site("c")], {}, {"a": 4, "b": 3, "c": 3}),
        (10, [site("a"), site("b", schedulable=False)], {"b": 2}, {"a": 8, "b": 2}),
        (2, [site("a"), site("b"), site("c")], {}, {"a": 1, "b": 1}),
        (4, [site("a"), site("b", until=NOW)], {"b": 4}, {"a": 4}),
    ],
)
def test_without_a_policy(total: int, sites: list[Site], parts: dict[str, int], found: dict[str, int]) -> None:
    assert run(total, sites, parts=parts) == found


EAST, WEST = {"region": "east"}, {"region": "west"}
GPU = ({"key": "gpu", "effect": "NoSchedule"},)


@pytest.mark.parametrize(
    ("policy", "total", "sites", "found"),
    [
        (Policy(names=frozenset("ab")), 6, [site("a"), site("b"), site("c")], {"a": 3, "b": 3}),
        (Policy(weights=((names("a"), 2),)), 9, [site("a"), site("b")], {"a": 6, "b": 3}),
        (Policy(limits=(Limit(names("a"), 4, 5),)), 4, [site("a"), site("b")], {"a": 4}),
        (Policy(limits=(Limit(names("a"), 4, 5),)), 20, [site("a"), site("b")], {"a": 5, "b": 15}),
        (Policy(by="Capacity"), 6, [site("a", 4), site("b", 2)], {"a": 4, "b": 2}),
        (Policy(by="Capacity"), 20, [site("a", 4), site("b", 2)], {"a": 8, "b": 4}),
        (Policy(by="Price"), 6, [site("a", 2, price=3), site("b", 2, price=1)], {"b": 4, "a": 2}),
        (Policy(overflow=(names("b"),)), 6, [site("a", 9), site("b", 2)], {"b": 4, "a": 2}),
        (Policy(duplicate=True), 6, [site("a"), site("b")], {"a": 6, "b": 6}),
        (Policy(max_clusters=1), 6, [site("a"), site("b")], {"a": 6}),
        (Policy(min_clusters=3), 6, [site("a"), site("b")], {}),
        (Policy(), 6, [site("a", taints=GPU), site("b")], {"b": 6}),
        (Policy(tolerations=({"key": "gpu", "operator": "Exists"},)), 6, [site("a", taints=GPU)], {"a": 6}),
        (
            Policy(spread=Spread("region")),
            9,
            [site("a", labels=EAST), site("b", labels=EAST), site("c", labels=WEST)],
            {"a": 3, "b": 2, "c": 4},
        ),
        (
            Policy(spread=Spread("region"), by="Capacity"),
            9,
            [site("a", 9, labels=EAST), site("c", 1, labels=WEST)],
            {"a": 3, "c": 2},
        ),
        (
            Policy(spread=Spread("region", anyway=True), by="Capacity"),
            9,
            [site("a", 9, labels=EAST), site("c", 1, labels=WEST)],
            {"a": 7, "c": 2},
        ),
        (
            Policy(spread=Spread("region", 2), weights=((names("a"), 9),)),
            10,
            [site("a", labels=EAST), site("c", labels=WEST)],
            {"a": 6, "c": 4},
        ),
    ],
)
def test_policies(policy: Policy, total: int, sites: list[Site], found: dict[str, int]) -> None:
    assert run(total, sites, policy) == found


def test_what_finds_no_node_goes_elsewhere_and_does_not_wander() -> None:
    sites = [site("a"), site("b")]
    held = {"a": Part(5, 3, most=3), "b": Part(5, 5)}
    assert place(10, sites, DEFAULT, held, ASKS, NOW).shares == {"a": 3, "b": 7}
    held = {"a": Part(5, 3, most=3), "b": Part(5, 2, most=2)}
    assert place(10, sites, DEFAULT, held, ASKS, NOW).shares == {"a": 5, "b": 5}, "there is no room anywhere"


def test_it_says_why_not_and_when_to_look_again() -> None:
    dark = site("b", ready=False, since=NOW - 10)
    found = place(4, [site("a"), dark], DEFAULT, {"b": Part(2, 2)}, ASKS, NOW)
    assert (found.refusals["b"].reason, found.later) == ("GracePeriod", 290)
    assert found.shares == {"a": 2, "b": 2}


def test_a_move_stays_within_the_budget() -> None:
    found = place(10, [site("a"), site("b")], DEFAULT, {"a": Part(10, 10)}, ASKS, NOW)
    assert (found.shares, found.target) == ({"a": 8, "b": 2}, {"a": 5, "b": 5})


def test_a_placement_reads_as_it_is_written() -> None:
    spec = {
        "priority": 3,
        "clusters": {"affinity": {"matchLabels": EAST}, "minClusters": 2, "spread": [{"label": "zone", "maxSkew": 2}]},
        "replicas": {"by": "Capacity", "weights": [{"clusters": {"names": ["a"]}, "weight": 7}]},
        "disruption": {"maxUnavailable": 1, "gracePeriod": "90s", "failBackAfter": "Never"},
    }
    read = policy_of({"metadata": {"name": "p"}, "spec": spec})
    assert (read.name, read.priority, read.min_clusters, read.spread) == ("p", 3, 2, Spread("zone", 2))
    assert (read.by, read.weight_of("a", {}), read.weight_of("b", {})) == ("Capacity", 7, 1)
    assert (read.floor(10), read.grace, read.fail_back) == (9, 90, float("inf"))


@st.composite
def fleets(draw: st.DrawFn) -> tuple[int, list[Site], Policy, dict[str, Part]]:
    sites, parts = [], {}
    for name in "abcdef"[: draw(st.integers(0, 6))]:
        labels = {"region": draw(st.sampled_from(["east", "west", "north"]))}
        cpu = draw(st.one_of(st.none(), st.integers(0, 8)))
        ready, price = draw(st.booleans()) or draw(st.booleans()), draw(st.one_of(st.none(), st.integers(0, 3)))
        sites.append(site(name, cpu, labels=labels, ready=ready, price=price, since=NOW - draw(st.integers(0, 400))))
        if draw(st.booleans()):
            size = draw(st.integers(0, 9))
            parts[name] = Part(size, draw(st.integers(0, size)))
    policy = Policy(
        by=draw(st.sampled_from(["Weight", "Capacity", "Price"])),
        spread=draw(st.sampled_from([None, Spread("region"), Spread("region", 3), Spread("region", anyway=True)])),
        max_clusters=draw(st.sampled_from([None, 1, 2, 4])),
        weights=((Group(frozenset("ab")), draw(st.integers(0, 5))),),
        limits=((Limit(names("c"), 1, 3),) if draw(st.booleans()) else ()),
        overflow=((names("b d"),) if draw(st.booleans()) else ()),
    )
    return draw(st.integers(0, 20)), sites, policy, parts


@given(fleets())
def test_replicas_are_never_more_nor_lost_and_bounds_hold(
    given: tuple[int, list[Site], Policy, dict[str, Part]],
) -> None:
    total, sites, policy, parts = given
    found = place(total, sites, policy, parts, ASKS, NOW)
    assert sum(found.target.values()) + found.unplaced == total
    assert 0 <= sum(found.shares.values()) - sum(found.target.values()) <= policy.surge(total)
    for one in sites:
        if one.name in found.refusals:
            assert found.target.get(one.name, 0) <= parts.get(one.name, Part()).replicas
        else:
            most = policy.limit_of(one.name, one.labels)[1]
            assert most is None or found.target.get(one.name, 0) <= most
    assert found == place(total, sites, policy, parts, ASKS, NOW)


@given(fleets())
def test_it_comes_to_rest(given: tuple[int, list[Site], Policy, dict[str, Part]]) -> None:
    """Once there, a second look changes nothing: `run` fails when it goes on for ever."""
    total, sites, policy, parts = given
    run(total, sites, policy, {name: part.replicas for name, part in parts.items()})


@given(fleets(), st.integers(0, 6))
def test_growing_never_shrinks_a_share(given: tuple[int, list[Site], Policy, dict[str, Part]], more: int) -> None:
    total, sites, policy, _ = given
    before = run(total, sites, policy)
    rest = [_taken(one, None, Part(before.get(one.name, 0))) for one in sites]
    after = run(total + more, rest, policy, before)
    assert all(after.get(name, 0) >= share for name, share in before.items())


def _all_ways(total: int, count: int) -> set[tuple[int, ...]]:
    ways = combinations_with_replacement(range(total + 1), count)
    return {way for some in ways if sum(some) == total for way in permutations(some)}


@given(st.integers(0, 6), st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_even_moves_are_the_fewest(total: int, held: list[int]) -> None:
    """Among all even divisions, by brute force, none is nearer to what is there."""
    letters = "abc"[: len(held)]
    found = run(total, [site(name) for name in letters], parts=dict(zip(letters, held, strict=True)))
    even = [way for way in _all_ways(total, len(held)) if max(way) - min(way) <= 1]
    fewest = min(sum(max(was - is_, 0) for was, is_ in zip(held, way, strict=True)) for way in even)
    moved = sum(max(was - found.get(name, 0), 0) for name, was in zip(letters, held, strict=True))
    assert moved == fewest


def test_the_first_answer_is_a_value() -> None:
    assert isinstance(place(1, [site("a")], DEFAULT, {}, {}, NOW), Placed)


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [("ConfigMap", "settings", 1), ("ConfigMap", "kube-root-ca.crt", 0), ("ServiceAccount", "default", 0)],
)
def test_what_every_namespace_has_by_itself_is_not_placed(kind: str, name: str, count: int) -> None:
    spec = {"selects": [{"kind": "ConfigMap"}, {"kind": "ServiceAccount"}]}
    rule = Rule({"metadata": {"name": "all", "namespace": "default"}, "spec": spec})
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
    assert len(rivals([rule], obj)) == count
