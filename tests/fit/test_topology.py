"""Tests of topology spread: counted pods, domains and skew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.podaffinity import Peer
from shoal.fit.topology import NO_DOMAIN, SCHEDULE_ANYWAY, UNEVEN, Spread, constraints

Object = dict[str, Any]
WEB = Peer("default", {"app": "web"})
DB = Peer("default", {"app": "db"})
SELECTOR = {"matchLabels": {"app": "web"}}


def one(key: str = "zone", skew: int = 1, **more: Any) -> Object:
    asked = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    return {**asked, **more}


def spread(*asked: Object, me: Peer = WEB) -> Spread:
    return Spread(constraints({"topologySpreadConstraints": list(asked)}, me.labels), me)


def zones(found: Spread, **pods: int) -> Spread:
    """A node in each zone with so many pods of WEB."""
    for name, number in pods.items():
        found.add({"zone": name, "host": name}, {WEB: number} if number else {}, True, True)
    return found


@pytest.mark.parametrize(
    ("asked", "pods", "allowed"),
    [
        (one(), {"a": 0, "b": 0}, "ab"),
        (one(), {"a": 1, "b": 0}, "b"),
        (one(skew=2), {"a": 1, "b": 0}, "ab"),
        (one(skew=2), {"a": 2, "b": 0}, "b"),
        (one(), {"a": 2, "b": 2, "c": 2}, "abc"),
        (one(minDomains=3), {"a": 1, "b": 1}, ""),
        (one(minDomains=2), {"a": 1, "b": 1}, "ab"),
        (one(minDomains=3), {"a": 0, "b": 1}, "a"),
        (one(labelSelector={}), {"a": 5, "b": 0}, "ab"),
        (one(labelSelector=None), {"a": 5, "b": 0}, "ab"),
    ],
)
def test_where_a_pod_may_go(asked: Object, pods: dict[str, int], allowed: str) -> None:
    found = zones(spread(asked), **pods)
    assert "".join(zone for zone in pods if not found.obstacle({"zone": zone})) == allowed
    assert all(found.obstacle({"zone": zone}) == UNEVEN for zone in pods if zone not in allowed)
    assert found.obstacle({"host": "a"}) == NO_DOMAIN


def test_a_pod_its_constraint_does_not_select_adds_nothing() -> None:
    assert zones(spread(one(), me=DB), a=1, b=0).obstacle({"zone": "a"}) == ""
    assert zones(spread(one(), me=DB), a=2, b=0).obstacle({"zone": "a"}) == UNEVEN


def test_which_pods_count() -> None:
    found = spread(one())
    assert found.concerns(WEB)
    assert not found.concerns(DB)
    assert not found.concerns(Peer("other", {"app": "web"}))
    assert not found.concerns(Peer("default", {"app": "web"}, leaving=True))


def test_only_nodes_that_count_make_a_domain() -> None:
    labels = {"zone": "far"}
    for policies, selected, tolerated, counts in [
        ({}, True, False, True),
        ({}, False, True, False),
        ({"nodeAffinityPolicy": "Ignore"}, False, True, True),
        ({"nodeTaintsPolicy": "Honor"}, True, False, False),
        ({"nodeTaintsPolicy": "Honor"}, True, True, True),
    ]:
        asked: Object = {**one(), **policies}
        found = zones(spread(asked), a=1)
        found.add(labels, {}, selected, tolerated)
        assert (found.obstacle({"zone": "a"}) == UNEVEN) is counts, policies


def test_a_node_needs_all_labels_to_count() -> None:
    found = zones(spread(one(), one("host", 5)), a=1)
    found.add({"zone": "b"}, {}, True, True)
    assert found.obstacle({"zone": "a", "host": "a"}) == ""
    assert found.obstacle({"zone": "b"}) == NO_DOMAIN


def test_keys_of_labels_narrow_the_selector() -> None:
    me = Peer("default", {"app": "web", "version": "2"})
    old = Peer("default", {"app": "web", "version": "1"})
    found = spread(one(matchLabelKeys=["version", "absent"]), me=me)
    assert found.concerns(me)
    assert not found.concerns(old)


def test_what_is_only_wished_for() -> None:
    spec = {"topologySpreadConstraints": [one(whenUnsatisfiable=SCHEDULE_ANYWAY), one("host")]}
    assert [each.key for each in constraints(spec, {})] == ["host"]
    found = zones(Spread(constraints(spec, {}, SCHEDULE_ANYWAY), WEB), a=4, b=1)
    light, heavy = found.weight({"zone": "b"}), found.weight({"zone": "a"})
    assert light is not None
    assert heavy is not None
    assert light < heavy
    assert found.weight({"host": "a"}) is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=8),
    st.integers(1, 2),
    st.integers(1, 3),
    st.data(),
)
def test_what_is_taken_away_was_never_there(
    nodes: list[tuple[str, int, bool]], skew: int, domains: int, data: st.DataObject
) -> None:
    counted = spread(one(skew=skew, minDomains=domains), one("host", 2))

    def add(to: Spread, index: int) -> Any:
        zone, pods, selected = nodes[index]
        return to.add({"zone": zone, "host": str(index)}, {WEB: pods}, selected, True)

    shares = [add(counted, index) for index in range(len(nodes))]
    gone = data.draw(st.sets(st.integers(0, len(nodes) - 1))) if nodes else set()
    for index in gone:
        counted.take(shares[index])
    fresh = spread(one(skew=skew, minDomains=domains), one("host", 2))
    left = [index for index in range(len(nodes)) if index not in gone]
    for index in left:
        add(fresh, index)
    lowest = {zone: 0 for zone, _, selected in (nodes[index] for index in left) if selected}
    for index in left:
        if nodes[index][2]:
            lowest[nodes[index][0]] += nodes[index][1]
    for zone in "abc":
        labels = {"zone": zone, "host": "new"}
        assert counted.obstacle(labels) == fresh.obstacle(labels)
        floor = min(lowest.values(), default=0) if len(lowest) >= domains else 0
        assert (counted.obstacle(labels) == UNEVEN) is (lowest.get(zone, 0) + 1 - floor > skew)
