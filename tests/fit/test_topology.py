"""Tests of topology spread: counted pods, domains and skew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.podaffinity import PeerPod
from shoal.fit.topology import (
    MISSING_TOPOLOGY_LABEL,
    SCHEDULE_ANYWAY,
    SKEW_EXCEEDED,
    TopologySpread,
    spread_constraints,
)

Object = dict[str, Any]
WEB = PeerPod("default", {"app": "web"})
DB = PeerPod("default", {"app": "db"})
SELECTOR = {"matchLabels": {"app": "web"}}


def one(key: str = "zone", skew: int = 1, **more: Any) -> Object:
    asked = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    return {**asked, **more}


def spread(*asked: Object, me: PeerPod = WEB) -> TopologySpread:
    return TopologySpread(spread_constraints({"topologySpreadConstraints": list(asked)}, me.labels), me)


def zones(found: TopologySpread, **pods: int) -> TopologySpread:
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
    assert "".join(zone for zone in pods if not found.reject_reason({"zone": zone})) == allowed
    assert all(found.reject_reason({"zone": zone}) == SKEW_EXCEEDED for zone in pods if zone not in allowed)
    assert found.reject_reason({"host": "a"}) == MISSING_TOPOLOGY_LABEL


def test_a_pod_its_constraint_does_not_select_adds_nothing() -> None:
    assert zones(spread(one(), me=DB), a=1, b=0).reject_reason({"zone": "a"}) == ""
    assert zones(spread(one(), me=DB), a=2, b=0).reject_reason({"zone": "a"}) == SKEW_EXCEEDED


def test_which_pods_count() -> None:
    found = spread(one())
    assert found.is_affected_by(WEB)
    assert not found.is_affected_by(DB)
    assert not found.is_affected_by(PeerPod("other", {"app": "web"}))
    assert not found.is_affected_by(PeerPod("default", {"app": "web"}, is_terminating=True))


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
        assert (found.reject_reason({"zone": "a"}) == SKEW_EXCEEDED) is counts, policies


def test_a_node_needs_all_labels_to_count() -> None:
    found = zones(spread(one(), one("host", 5)), a=1)
    found.add({"zone": "b"}, {}, True, True)
    assert found.reject_reason({"zone": "a", "host": "a"}) == ""
    assert found.reject_reason({"zone": "b"}) == MISSING_TOPOLOGY_LABEL


def test_keys_of_labels_narrow_the_selector() -> None:
    me = PeerPod("default", {"app": "web", "version": "2"})
    old = PeerPod("default", {"app": "web", "version": "1"})
    found = spread(one(matchLabelKeys=["version", "absent"]), me=me)
    assert found.is_affected_by(me)
    assert not found.is_affected_by(old)


def test_what_is_only_wished_for() -> None:
    spec = {"topologySpreadConstraints": [one(whenUnsatisfiable=SCHEDULE_ANYWAY), one("host")]}
    assert [each.topology_key for each in spread_constraints(spec, {})] == ["host"]
    found = zones(TopologySpread(spread_constraints(spec, {}, SCHEDULE_ANYWAY), WEB), a=4, b=1)
    light, heavy = found.skew_score({"zone": "b"}), found.skew_score({"zone": "a"})
    assert light is not None
    assert heavy is not None
    assert light < heavy
    assert found.skew_score({"host": "a"}) is None


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

    def add(to: TopologySpread, index: int) -> Any:
        zone, pods, selected = nodes[index]
        return to.add({"zone": zone, "host": str(index)}, {WEB: pods}, selected, True)

    shares = [add(counted, index) for index in range(len(nodes))]
    gone = data.draw(st.sets(st.integers(0, len(nodes) - 1))) if nodes else set()
    for index in gone:
        counted.subtract(shares[index])
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
        assert counted.reject_reason(labels) == fresh.reject_reason(labels)
        floor = min(lowest.values(), default=0) if len(lowest) >= domains else 0
        assert (counted.reject_reason(labels) == SKEW_EXCEEDED) is (lowest.get(zone, 0) + 1 - floor > skew)
