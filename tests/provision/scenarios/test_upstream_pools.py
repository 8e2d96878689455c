"""NodePools: limits, weights, taints and minValues, as in Karpenter's provisioning and instance selection suites."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.requirements import from_expressions
from shoal.provision.simulation.model import BEST_EFFORT
from shoal.provision.simulator import fake
from shoal.provision.simulator.instance_type import OfferingSpec
from tests.provision.scenarios.conftest import Make, assorted_types
from tests.provision.scenarios.words import (
    ARCH,
    HOST,
    POOL,
    SMALL,
    SPOT,
    TYPE,
    Z1,
    Z2,
    ZONE,
    expression,
    near,
    outside,
    pod,
    pods,
    pool,
    preference,
    taint,
    tolerate,
    within,
)

Object = dict[str, Any]
ALONE: Object = {"labels": {"app": "foo"}, "apart": [near({"app": "foo"}, HOST)]}


# --- limits ---


@pytest.mark.parametrize(
    ("limits", "asked", "found"),
    [
        ({"cpu": "2"}, {"cpu": "1.75"}, True),
        ({"cpu": "2"}, {"cpu": "2.1"}, False),
        ({"pods": "1"}, {"requests": {fake.VENDOR_A: "1"}}, False),
        ({fake.VENDOR_A: "1"}, {"requests": {fake.VENDOR_A: "1"}}, False),
        ({fake.VENDOR_A: "2"}, {"requests": {fake.VENDOR_A: "1"}}, True),
        ({"memory": "1Gi"}, {}, False),
        ({"cpu": "0"}, {}, False),
        ({"nodes": "0"}, {}, False),
        ({"nodes": "1"}, {}, True),
    ],
    ids=str,
)
def test_limits(make: Make, limits: dict[str, str], asked: Object, found: bool) -> None:
    world = make(pool(limits=limits))
    wanted = pod(**asked)
    world.provision(wanted)
    assert (world.where(wanted) is not None) == found


def test_what_is_there_already_counts(make: Make) -> None:
    world = make(pool(limits={"cpu": "2"}))
    first, second = pod(cpu="1.75"), pod(cpu="1.75")
    world.provision(first)
    world.provision(second)
    assert world.where(first) is not None
    assert world.where(second) is None


def test_the_largest_type_that_may_come_counts(make: Make) -> None:
    """Two small nodes would fit into five cpu, but the first may become one of four."""
    world = make(pool(limits={"cpu": "5"}))
    asked = pods(2, **ALONE)
    world.provision(*asked)
    assert world.scheduled(asked) == 1
    world.provision(*(each for each in asked if world.where(each) is None))
    assert len(world.claims) == 2


def test_two_nodes_and_no_more(make: Make) -> None:
    world = make(pool(limits={"nodes": "2"}))
    for found in (True, True, False):
        asked = pod(cpu="1.5", **ALONE)
        world.provision(asked)
        assert (world.where(asked) is not None) == found


def test_two_nodes_of_one_batch(make: Make) -> None:
    world = make(pool(limits={"nodes": "2"}))
    asked = pods(3, cpu="1.5", **ALONE)
    world.provision(*asked)
    assert world.scheduled(asked) == 2


def test_a_pool_that_is_full_leaves_it_to_the_next(make: Make) -> None:
    world = make(pool("first", weight=10, limits={"nodes": "1"}), pool("second"))
    asked = pods(2, **ALONE)
    world.provision(*asked)
    assert sorted(world.labels_of(each)[POOL] for each in asked) == ["first", "second"]


# --- weights and choice ---


def test_a_pool_by_its_name(make: Make) -> None:
    world = make(pool("one"), pool("two"))
    for name in ("one", "two"):
        asked = pod(select={POOL: name})
        world.provision(asked)
        assert world.labels_of(asked)[POOL] == name


def test_a_pool_by_its_labels(make: Make) -> None:
    world = make(pool("one", labels={"foo": "bar"}), pool("two"))
    asked = pod(select={"foo": "bar"})
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "one"


def test_of_equal_weight_the_last_name_is_first(rule: Make) -> None:
    world = rule(pool("alpha"), pool("beta"))
    asked = pod()
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "beta"


def test_weight_counts_more_than_price(rule: Make) -> None:
    world = rule(pool("cheap"), pool("dear", within(TYPE, "arm-instance-type"), weight=1))
    asked = pod()
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "dear"


def test_a_claim_of_a_lighter_pool_is_used_before_a_new_one(rule: Make) -> None:
    world = rule(pool("heavy", weight=10), pool("light", labels={"foo": "bar"}))
    chosen, plain = pod(cpu="1", select={"foo": "bar"}), pod(cpu="100m")
    world.provision(chosen, plain)
    assert world.name_of(chosen) == world.name_of(plain)


def test_no_pool(make: Make) -> None:
    world = make()
    world.pools = []
    asked = pod()
    world.provision(asked)
    assert world.where(asked) is None
    assert "NodePool" in world.reason(asked)


# --- taints ---

FOO = taint("foo", "bar")


@pytest.mark.parametrize(
    ("tolerations", "found"),
    [
        ([tolerate("foo", operator="Exists")], True),
        ([tolerate("foo", "bar")], True),
        ([tolerate(operator="Exists")], True),
        ([tolerate(operator="Exists", effect="")], True),
        ([], False),
        ([tolerate("invalid", operator="Exists", effect="")], False),
        ([tolerate("foo")], False),
        ([tolerate("foo", "bar", effect="NoExecute")], False),
    ],
    ids=str,
)
def test_taints_of_the_pool(make: Make, tolerations: list[Object], found: bool) -> None:
    world = make(pool(template={"taints": [FOO]}))
    asked = pod(tolerations=tolerations)
    world.provision(asked)
    assert (world.where(asked) is not None) == found
    assert not found or FOO in world.node_of(asked)["spec"]["taints"]


def test_startup_taints_are_no_obstacle(make: Make) -> None:
    world = make(pool(template={"startupTaints": [taint("ignore-me", "nothing")]}))
    asked = pod()
    world.provision(asked)
    assert world.where(asked) is not None


SOFT = pool("soft", template={"taints": [taint("foo", "bar", "PreferNoSchedule")]})


def test_prefer_no_schedule_is_tolerated_last(make: Make) -> None:
    world = make(SOFT)
    asked = pod(preferred=[preference(1, within(ZONE, "invalid")), preference(1, within(TYPE, "invalid"))])
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "soft"


def test_prefer_no_schedule_gives_way_to_another_pool(make: Make) -> None:
    world = make(SOFT, pool("plain"))
    asked = pod()
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "plain"


# --- minValues ---

PAIR: Object = {"cpu": "0.9", "memory": "0.9Gi"}


def kind(number: int, size: str, price: float, zone: str = Z1, arch: str = "arm64", **labels: str) -> Any:
    said = {"cpu": size, "memory": f"{size}Gi"}
    sales = [OfferingSpec(zone, SPOT, price)]
    return fake.fake_type(f"t{number}", said, sales, architecture=arch, systems=("linux",), labels=labels)


TWO = [kind(1, "1", 0.52), kind(2, "4", 1.0)]
THREE = [kind(1, "1", 0.52), kind(2, "2", 1.0), kind(3, "4", 1.2)]
NUMBER = "karpenter/numerical-value"
NUMBERED = [kind(1, "1", 0.52, **{NUMBER: "2"}), kind(2, "1", 1.0, **{NUMBER: "3"}), kind(3, "4", 1.2, **{NUMBER: "4"})]
FALLING = [kind(1, "4", 1.2, **{NUMBER: "2"}), kind(2, "1", 1.0, **{NUMBER: "3"}), kind(3, "1", 0.5, **{NUMBER: "4"})]
ARCHES = [kind(1, "1", 0.52), kind(2, "4", 1.0, arch="amd64")]


def least(key: str, operator: str, *values: str, values_needed: int) -> Object:
    return expression(key, operator, *values, least=values_needed)


@pytest.mark.parametrize(
    ("types", "requirements"),
    [
        (TWO, [least(TYPE, "In", "t1", "t2", values_needed=2)]),
        (NUMBERED, [least(NUMBER, "Gt", "2", values_needed=2)]),
        (NUMBERED, [least(NUMBER, "Gte", "3", values_needed=2)]),
        (FALLING, [least(NUMBER, "Lt", "4", values_needed=2)]),
        (FALLING, [least(NUMBER, "Lte", "3", values_needed=2)]),
        (
            THREE,
            [least(TYPE, "In", "t1", "t2", "t3", values_needed=1), {**outside(TYPE, "t3"), "minValues": 2}],
        ),
        (TWO, [least(TYPE, "Exists", values_needed=1), least(TYPE, "In", "t1", "t2", values_needed=2)]),
        (ARCHES, [least(ARCH, "Exists", values_needed=2), least(TYPE, "In", "t1", "t2", values_needed=1)]),
    ],
    ids=["In", "Gt", "Gte", "Lt", "Lte", "In and NotIn", "Exists and In", "two keys"],
)
def test_pods_that_would_share_a_node_do_not(make: Make, types: list[Any], requirements: list[Object]) -> None:
    """Both fit on the largest type only, and one type is not enough."""
    world = make(pool("default", *requirements), types=types)
    one, two = pods(2, **PAIR)
    plan = world.provision(one, two)
    assert world.name_of(one) != world.name_of(two)
    assert all(len(claim.types) >= 2 for claim in plan.new_node_claims)


def test_min_values_that_the_pod_makes_impossible(make: Make) -> None:
    types = [kind(1, "1", 0.52, **{NUMBER: "2"}), kind(2, "4", 1.0, **{NUMBER: "3"})]
    world = make(pool("default", least(NUMBER, "Exists", values_needed=2)), types=types)
    asked = pods(2, required=[expression(NUMBER, "Gt", "2")], **PAIR)
    world.provision(*asked)
    assert world.scheduled(asked) == 0
    assert all("minValues" in world.reason(each) for each in asked)


def test_fewer_types_than_min_values(make: Make) -> None:
    world = make(pool("default", least(TYPE, "Exists", values_needed=11)), types=assorted_types()[:10])
    asked = pod()
    world.provision(asked)
    assert world.where(asked) is None


ALIKE = [kind(1, "4", 0.52), kind(2, "4", 0.52, Z2)]
WANTED = least(TYPE, "In", "t1", "t2", "t3", values_needed=3)


@pytest.mark.parametrize("other", [pool("other", weight=10), pool("other", WANTED, weight=10)], ids=["plain", "equal"])
def test_best_effort_before_another_pool(make: Make, other: Object) -> None:
    world = make(pool("default", WANTED, weight=100), other, types=ALIKE, min_values_policy=BEST_EFFORT)
    asked = pod(**PAIR)
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "default"
    claim = world.claims[world.name_of(asked)]
    assert claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-min-values-relaxed"] == "true"
    assert from_expressions(claim["spec"]["requirements"])[TYPE].min_values == 2


def test_strict_goes_to_another_pool(make: Make) -> None:
    world = make(pool("default", WANTED, weight=100), pool("other", weight=10), types=ALIKE)
    asked = pod(**PAIR)
    world.provision(asked)
    assert world.labels_of(asked)[POOL] == "other"


@pytest.mark.parametrize(("policy", "found"), [("Strict", False), ("BestEffort", True)])
def test_min_values_of_zones(make: Make, policy: str, found: bool) -> None:
    world = make(
        pool("default", least(ZONE, "In", Z1, Z2, "z3", values_needed=3)), types=ALIKE, min_values_policy=policy
    )
    asked = pod(**PAIR)
    world.provision(asked)
    assert (world.where(asked) is not None) == found
    if found:
        claim = world.claims[world.name_of(asked)]
        assert from_expressions(claim["spec"]["requirements"])[ZONE].min_values == 2


def test_min_values_that_are_met_are_not_relaxed(make: Make) -> None:
    wanted = least(TYPE, "In", "t1", "t2", values_needed=2)
    world = make(pool("default", wanted), types=ALIKE, min_values_policy=BEST_EFFORT)
    asked = pod(**PAIR)
    plan = world.provision(asked)
    assert not plan.new_node_claims[0].min_values_relaxed
    claim = world.claims[world.name_of(asked)]
    # Upstream writes it either way: "false" says that nothing was relaxed.
    assert claim["metadata"]["annotations"].get("karpenter.sh/nodeclaim-min-values-relaxed", "false") == "false"


def test_small_is_chosen_where_nothing_is_said(make: Make) -> None:
    world = make()
    asked = pod()
    world.provision(asked)
    assert world.labels_of(asked)[TYPE] == SMALL
