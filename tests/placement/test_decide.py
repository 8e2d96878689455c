"""Placement decisions: tables of single rules, and properties of all of them together."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.room import NO_DEMAND, ClusterRoom, NodeGroup, PodDemand
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import PlacementDecision, decide_placement
from shoal.placement.policy import (
    DEFAULT_POLICY,
    ClusterSelector,
    PlacementPolicy,
    PlacementRule,
    ReplicaLimit,
    SpreadConstraint,
    matching_placements,
    parse_policy,
)
from shoal.placement.rollout import move_budget

NOW = 1_000_000.0
ASKS = PodDemand({"cpu": 500, "pods": 1})


def site(name: str, cpu: float | None = 10_000, **given: Any) -> ClusterInfo:
    free = None if cpu is None else {"cpu": int(cpu * 1000), "pods": 1000}
    labels = given.pop("labels", {})
    return ClusterInfo(name, labels={"name": name, **labels}, free=free, **given)


def run(
    total: int,
    sites: list[ClusterInfo],
    policy: PlacementPolicy = DEFAULT_POLICY,
    parts: dict[str, int] | None = None,
    now: float = NOW,
) -> dict[str, int]:
    """What it comes to when everything placed runs before the next look."""
    held = {name: CurrentShare(size, size, was_evicted=not size) for name, size in (parts or {}).items()}
    for _ in range(100):
        found = decide_placement(total, sites, policy, held, ASKS, now)
        shares = found.shares
        after = {name: CurrentShare(share, share, was_evicted=name in found.evicted) for name, share in shares.items()}
        if after == held:
            return dict(shares)
        sites = [_taken(one, held.get(one.name), after.get(one.name)) for one in sites]
        held = after
    raise AssertionError(f"it does not come to rest: {held}")


def _taken(one: ClusterInfo, before: CurrentShare | None, after: CurrentShare | None) -> ClusterInfo:
    if one.free is None:
        return one
    more = (after or CurrentShare()).replicas - (before or CurrentShare()).replicas
    return replace(one, free={"cpu": one.free["cpu"] - 500 * more, "pods": 1000})


def names(text: str) -> ClusterSelector:
    return ClusterSelector(frozenset(text.split()))


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
def test_without_a_policy(total: int, sites: list[ClusterInfo], parts: dict[str, int], found: dict[str, int]) -> None:
    assert run(total, sites, parts=parts) == found


EAST, WEST = {"region": "east"}, {"region": "west"}
GPU = ({"key": "gpu", "effect": "NoSchedule"},)


@pytest.mark.parametrize(
    ("policy", "total", "sites", "found"),
    [
        (PlacementPolicy(cluster_names=frozenset("ab")), 6, [site("a"), site("b"), site("c")], {"a": 3, "b": 3}),
        (PlacementPolicy(weights=((names("a"), 2),)), 9, [site("a"), site("b")], {"a": 6, "b": 3}),
        (PlacementPolicy(limits=(ReplicaLimit(names("a"), 4, 5),)), 4, [site("a"), site("b")], {"a": 4}),
        (PlacementPolicy(limits=(ReplicaLimit(names("a"), 4, 5),)), 20, [site("a"), site("b")], {"a": 5, "b": 15}),
        (PlacementPolicy(divide_by="Capacity"), 6, [site("a", 4), site("b", 2)], {"a": 4, "b": 2}),
        (PlacementPolicy(divide_by="Capacity"), 20, [site("a", 4), site("b", 2)], {"a": 8, "b": 4}),
        (PlacementPolicy(divide_by="Price"), 6, [site("a", 2, price=3), site("b", 2, price=1)], {"b": 4, "a": 2}),
        (PlacementPolicy(overflow=(names("b"),)), 6, [site("a", 9), site("b", 2)], {"b": 4, "a": 2}),
        (PlacementPolicy(is_duplicate=True), 6, [site("a"), site("b")], {"a": 6, "b": 6}),
        (PlacementPolicy(max_clusters=1), 6, [site("a"), site("b")], {"a": 6}),
        (PlacementPolicy(min_clusters=3), 6, [site("a"), site("b")], {}),
        (PlacementPolicy(), 6, [site("a", taints=GPU), site("b")], {"b": 6}),
        (PlacementPolicy(tolerations=({"key": "gpu", "operator": "Exists"},)), 6, [site("a", taints=GPU)], {"a": 6}),
        (
            PlacementPolicy(spread=SpreadConstraint("region")),
            9,
            [site("a", labels=EAST), site("b", labels=EAST), site("c", labels=WEST)],
            {"a": 3, "b": 2, "c": 4},
        ),
        (
            PlacementPolicy(spread=SpreadConstraint("region"), divide_by="Capacity"),
            9,
            [site("a", 9, labels=EAST), site("c", 1, labels=WEST)],
            {"a": 3, "c": 2},
        ),
        (
            PlacementPolicy(spread=SpreadConstraint("region", place_anyway=True), divide_by="Capacity"),
            9,
            [site("a", 9, labels=EAST), site("c", 1, labels=WEST)],
            {"a": 7, "c": 2},
        ),
        (
            PlacementPolicy(spread=SpreadConstraint("region", 2), weights=((names("a"), 9),)),
            10,
            [site("a", labels=EAST), site("c", labels=WEST)],
            {"a": 6, "c": 4},
        ),
    ],
)
def test_policies(policy: PlacementPolicy, total: int, sites: list[ClusterInfo], found: dict[str, int]) -> None:
    assert run(total, sites, policy) == found


def test_what_finds_no_node_goes_elsewhere_and_does_not_wander() -> None:
    sites = [site("a"), site("b")]
    held = {"a": CurrentShare(5, 3, capacity_limit=3), "b": CurrentShare(5, 5)}
    assert decide_placement(10, sites, DEFAULT_POLICY, held, ASKS, NOW).shares == {"a": 3, "b": 7}
    held = {"a": CurrentShare(5, 3, capacity_limit=3), "b": CurrentShare(5, 2, capacity_limit=2)}
    assert decide_placement(10, sites, DEFAULT_POLICY, held, ASKS, NOW).shares == {"a": 5, "b": 5}, (
        "there is no room anywhere"
    )


def test_what_runs_stays_when_its_new_pod_template_fits_nowhere() -> None:
    """The rollout in each cluster has ended one replica for three new ones that find no node."""
    room = ClusterRoom((NodeGroup({"disk": "hdd"}, (), ASKS.requests, ASKS.requests),))
    sites = [replace(site(name), room=room) for name in "ab"]
    demand = PodDemand(ASKS.requests, {"nodeSelector": {"disk": "nvme"}})
    held = {name: CurrentShare(6, 5, capacity_limit=3) for name in "ab"}
    found = decide_placement(12, sites, DEFAULT_POLICY, held, demand, NOW)
    assert (found.shares, found.unassigned) == ({"a": 6, "b": 6}, 0)
    pending = {name: CurrentShare(6, 0, capacity_limit=0) for name in "ab"}
    assert decide_placement(12, sites, DEFAULT_POLICY, pending, demand, NOW).unassigned == 12


def test_it_says_why_not_and_when_to_look_again() -> None:
    dark = site("b", ready=False, since=NOW - 10)
    found = decide_placement(4, [site("a"), dark], DEFAULT_POLICY, {"b": CurrentShare(2, 2)}, ASKS, NOW)
    assert (found.filter_failures["b"].reason, found.requeue_after) == ("GracePeriod", 290)
    assert found.shares == {"a": 2, "b": 2}


@pytest.mark.parametrize("weight", [0, 1])
def test_a_cluster_that_keeps_its_replicas_keeps_no_more_than_are_requested(weight: int) -> None:
    policy = PlacementPolicy(weights=((names("b"), weight),))
    sites = [site("a", ready=False, since=NOW), site("b")]
    found = decide_placement(5, sites, policy, {"a": CurrentShare(6, 6)}, ASKS, NOW)
    assert {name: share for name, share in found.target_shares.items() if share} == {"a": 5}


def test_a_move_stays_within_the_budget() -> None:
    found = decide_placement(10, [site("a"), site("b")], DEFAULT_POLICY, {"a": CurrentShare(10, 10)}, ASKS, NOW)
    assert (found.shares, found.target_shares) == ({"a": 10, "b": 3}, {"a": 5, "b": 5}), "successors come first"


def test_a_placement_reads_as_it_is_written() -> None:
    spec = {
        "priority": 3,
        "clusters": {"affinity": {"matchLabels": EAST}, "minClusters": 2, "spread": [{"label": "zone", "maxSkew": 2}]},
        "replicas": {"by": "Capacity", "weights": [{"clusters": {"names": ["a"]}, "weight": 7}]},
        "disruption": {"maxUnavailable": 1, "gracePeriod": "90s", "failBackAfter": "Never"},
    }
    read = parse_policy({"metadata": {"name": "p"}, "spec": spec})
    assert (read.name, read.priority, read.min_clusters, read.spread) == ("p", 3, 2, SpreadConstraint("zone", 2))
    assert (read.divide_by, read.weight_of("a", {}), read.weight_of("b", {})) == ("Capacity", 7, 1)
    assert (move_budget(10, read).min_available, read.grace_seconds, read.fail_back_seconds) == (9, 90, float("inf"))


@st.composite
def fleets(draw: st.DrawFn) -> tuple[int, list[ClusterInfo], PlacementPolicy, dict[str, CurrentShare]]:
    sites, parts = [], {}
    for name in "abcdef"[: draw(st.integers(0, 6))]:
        labels = {"region": draw(st.sampled_from(["east", "west", "north"]))}
        cpu = draw(st.one_of(st.none(), st.integers(0, 8)))
        ready, price = draw(st.booleans()) or draw(st.booleans()), draw(st.one_of(st.none(), st.integers(0, 3)))
        sites.append(site(name, cpu, labels=labels, ready=ready, price=price, since=NOW - draw(st.integers(0, 400))))
        if draw(st.booleans()):
            size = draw(st.integers(0, 9))
            parts[name] = CurrentShare(size, draw(st.integers(0, size)))
    policy = PlacementPolicy(
        divide_by=draw(st.sampled_from(["Weight", "Capacity", "Price"])),
        spread=draw(
            st.sampled_from(
                [
                    None,
                    SpreadConstraint("region"),
                    SpreadConstraint("region", 3),
                    SpreadConstraint("region", place_anyway=True),
                ]
            )
        ),
        max_clusters=draw(st.sampled_from([None, 1, 2, 4])),
        weights=((ClusterSelector(frozenset("ab")), draw(st.integers(0, 5))),),
        limits=((ReplicaLimit(names("c"), 1, 3),) if draw(st.booleans()) else ()),
        overflow=((names("b d"),) if draw(st.booleans()) else ()),
    )
    return draw(st.integers(0, 20)), sites, policy, parts


@given(fleets())
def test_replicas_are_never_more_nor_lost_and_bounds_hold(
    given: tuple[int, list[ClusterInfo], PlacementPolicy, dict[str, CurrentShare]],
) -> None:
    total, sites, policy, parts = given
    found = decide_placement(total, sites, policy, parts, ASKS, NOW)
    assert sum(found.target_shares.values()) + found.unassigned == total
    if sum(found.target_shares.values()):
        moving = sum(found.shares.values()) - sum(found.target_shares.values())
        assert 0 <= moving <= move_budget(total, policy).max_surge
    for one in sites:
        if one.name in found.filter_failures:
            assert found.target_shares.get(one.name, 0) <= parts.get(one.name, CurrentShare()).replicas
        else:
            most = policy.limit_of(one.name, one.labels)[1]
            assert most is None or found.target_shares.get(one.name, 0) <= most
    assert found == decide_placement(total, sites, policy, parts, ASKS, NOW)


@given(fleets())
def test_it_comes_to_rest(given: tuple[int, list[ClusterInfo], PlacementPolicy, dict[str, CurrentShare]]) -> None:
    """Once there, a second look changes nothing: `run` fails when it goes on for ever."""
    total, sites, policy, parts = given
    run(total, sites, policy, {name: part.replicas for name, part in parts.items()})


@given(fleets(), st.integers(0, 6))
def test_growing_never_shrinks_a_share(
    given: tuple[int, list[ClusterInfo], PlacementPolicy, dict[str, CurrentShare]], more: int
) -> None:
    total, sites, policy, _ = given
    before = run(total, sites, policy)
    rest = [_taken(one, None, CurrentShare(before.get(one.name, 0))) for one in sites]
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
    assert isinstance(decide_placement(1, [site("a")], DEFAULT_POLICY, {}, NO_DEMAND, NOW), PlacementDecision)


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [("ConfigMap", "settings", 1), ("ConfigMap", "kube-root-ca.crt", 0), ("ServiceAccount", "default", 0)],
)
def test_what_every_namespace_has_by_itself_is_not_placed(kind: str, name: str, count: int) -> None:
    spec = {"selects": [{"kind": "ConfigMap"}, {"kind": "ServiceAccount"}]}
    rule = PlacementRule({"metadata": {"name": "all", "namespace": "default"}, "spec": spec})
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
    assert len(matching_placements([rule], obj)) == count
