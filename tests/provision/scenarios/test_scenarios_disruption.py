"""Acceptance scenarios of disruption: emptiness and budgets (40), replacement (42), expiration (44)."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.disruption.budgets import budget_limit
from shoal.provision.lifecycle.decide import is_expired, seconds_until_deadline
from shoal.provision.simulator import fake
from shoal.provision.simulator.instance_type import OfferingSpec
from tests.provision.scenarios.conftest import Make, assorted_types
from tests.provision.scenarios.state_nodes import (
    ALONE,
    LONG_AGO,
    NOW,
    carry_out,
    decided,
    disruptable,
    going,
    least,
    most,
    stand,
    told,
)
from tests.provision.scenarios.words import (
    CAPACITY,
    HOST,
    ON_DEMAND,
    SPOT,
    TYPE,
    Z1,
    Z2,
    Z3,
    ZONE,
    near,
    pod,
    pods,
    spread,
    within,
)

Object = dict[str, Any]
APP = {"app": "test"}


# --- 40 ---


@pytest.mark.parametrize(("budget", "left"), [("30%", 7), ("0%", 10), ("100%", 0)])
def test_40_empty_nodes(rule: Make, budget: str, left: int) -> None:
    world = rule(disruptable(budgets=[{"nodes": budget}]), types=assorted_types())
    for _ in range(10):
        stand(world, least())
    found = decided(world).command
    assert 10 - len(going(found)) == left
    assert found is None or (found.reason, found.replacements) == ("Empty", ())


def test_40_ten_pools(rule: Make) -> None:
    names = [f"pool{number}" for number in range(10)]
    world = rule(*(disruptable(name, budgets=[{"nodes": "50%"}]) for name in names), types=assorted_types())
    for name in names:
        for _ in range(3):
            stand(world, least(), owner=name)
    found = decided(world).command
    assert found is not None
    counts = [sum(each.pool.name == name for each in found.candidates) for name in names]
    assert counts == [2] * 10
    assert len(world.claims) - len(found.candidates) == 10


ALWAYS = {"schedule": "* * * * *", "duration": "1h"}
BUDGETS: list[Object] = [
    {"nodes": "10", **ALWAYS},
    {"nodes": "100", **ALWAYS},
    {"nodes": "100%", **ALWAYS},
    {"nodes": "15", "reasons": ["Drifted", "Underutilized"], **ALWAYS},
    {"nodes": "5", "reasons": ["Drifted"], **ALWAYS},
    {"nodes": "0", "schedule": "@weekly", "duration": "1h"},
    {"nodes": "4", "reasons": ["Empty"], **ALWAYS},
]


@pytest.mark.parametrize(("reason", "count"), [("Empty", 4), ("Drifted", 5), ("Underutilized", 10)])
def test_40_budgets(reason: str, count: int) -> None:
    assert budget_limit(disruptable(budgets=BUDGETS), 100, reason, NOW) == count


# --- 42 ---


def test_42_replaced_by_a_cheaper_one(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    stand(world, most(), pod(labels=APP), room=ALONE)
    found = decided(world).command
    assert found is not None
    (new,) = found.replacements
    assert most().name not in new.types
    assert new.price < most().offerings[0].price
    carry_out(world, found)
    assert len(world.claims) == 1


def test_42_three_into_one(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    for _ in range(3):
        stand(world, most(), pod(labels=APP))
    found = decided(world).command
    assert found is not None
    assert len(found.candidates) == 3
    assert len(found.replacements) == 1
    carry_out(world, found)
    assert len(world.claims) == 1
    assert len(world.bound) == 3


def test_42_only_the_emptier_of_two_goes(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    first = stand(world, least(), pod(labels=APP))
    stand(world, least(), *pods(2, labels=APP))
    found = decided(world).command
    assert going(found) == [first]
    assert found is not None
    assert not found.replacements


def current(price: float = 0.5) -> Any:
    """It cannot be had any more."""
    return fake.fake_type("current-on-demand", None, [OfferingSpec("test-zone-1a", ON_DEMAND, price, remaining=0)])


def test_42_spot_that_may_be_dearer(rule: Make) -> None:
    sales = [OfferingSpec(f"test-zone-1{at}", SPOT, price) for at, price in zip("abc", (1.0, 0.2, 0.4), strict=True)]
    world = rule(disruptable(), types=[current(), fake.fake_type("potential-spot-replacement", None, sales)])
    stand(world, current(), pod(labels=APP), room=ALONE)
    assert decided(world).command is None


def test_42_on_demand_that_is_dearer(rule: Make) -> None:
    sales = [OfferingSpec("test-zone-1a", ON_DEMAND, 0.6), OfferingSpec("test-zone-1b", ON_DEMAND, 0.6)]
    sales += [OfferingSpec("test-zone-1b", SPOT, 0.2), OfferingSpec("test-zone-1c", SPOT, 0.3)]
    types = [current(), fake.fake_type("on-demand-replacement", None, sales)]
    world = rule(disruptable("default", within(CAPACITY, ON_DEMAND)), types=types)
    stand(world, current(), pod(labels=APP), room=ALONE)
    assert decided(world).command is None


def test_42_spot_to_spot_is_off(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    stand(world, most(SPOT), pod(labels=APP), room=ALONE)
    found = decided(world)
    assert found.command is None
    assert "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node" in told(found)


def priced(kind: Any, price: float) -> Any:
    labels = kind.offerings[0].labels
    said = {"cpu": str(kind.capacity["cpu"] // 1000), "memory": str(kind.capacity["memory"])}
    return fake.fake_type(kind.name, said, [OfferingSpec(labels[ZONE], labels[CAPACITY], price)])


def test_42_fewer_than_15_cheaper_types(rule: Make) -> None:
    """Of the first five, four cost the same; one is cheaper."""
    types = [priced(each, each.offerings[0].price) for each in fake.assorted_fake_types()[:4]]
    types[0] = priced(types[0], 0.001)
    world = rule(disruptable(), types=types)
    stand(world, types[-1], pod(labels=APP), room=ALONE)
    found = decided(world, spot_to_spot=True)
    assert found.command is None
    wanted = (
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate"
    )
    assert f"{wanted}, got 1" in told(found)


def test_42_the_15_cheapest_spot_types(rule: Make) -> None:
    spot = [each for each in fake.assorted_fake_types() if each.offerings[0].labels[CAPACITY] == SPOT][:18]
    types = [priced(each, 0.001 if at == 16 else 1.0 + 0.1 * at) for at, each in enumerate(spot)]
    world = rule(disruptable(), types=types)
    stand(world, types[17], pod(labels=APP), room=ALONE)
    found = decided(world, spot_to_spot=True).command
    assert found is not None
    (new,) = found.replacements
    cheapest = sorted(types, key=lambda each: each.offerings[0].price)[:15]
    assert set(new.types) == {each.name for each in cheapest}
    assert types[16].name in new.types
    assert new.requirements[TYPE].values == frozenset(new.types)


def test_42_zonal_spread_is_kept(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    asked: Object = {"cpu": "1", "labels": APP, "spreads": [spread(ZONE, labels=APP)]}
    kinds = [least(zone=Z1), most(zone=Z2), least(zone=Z3)]
    _, dear, _ = (stand(world, kind, pod(**asked), room={"cpu": "1"}) for kind in kinds)
    assert world.skew(ZONE, APP) == [1, 1, 1]
    found = decided(world).command
    assert going(found) == [dear]
    assert found is not None
    carry_out(world, found)
    assert len(world.claims) == 3
    assert world.skew(ZONE, APP) == [1, 1, 1]


def test_42_anti_affinity_is_kept(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    for zone in (Z1, Z2, Z3):
        stand(world, least(zone=zone), pod(cpu="1", labels=APP, apart=[near(APP, HOST)]), room={"cpu": "1"})
    assert decided(world).command is None


def test_42_a_pod_that_waits_needs_the_large_node(rule: Make) -> None:
    world = rule(disruptable(), types=assorted_types())
    large = next(each for each in assorted_types() if each.capacity["cpu"] == 64_000)
    stand(world, large, pod(cpu="1"), room={"cpu": "64", "pods": "5"})
    assert decided(world, pod(cpu="62")).command is None


# --- 44 ---


def claim(after: str) -> Object:
    return {"metadata": {"name": "n", "creationTimestamp": LONG_AGO}, "spec": {"expireAfter": after}, "status": {}}


BORN = 1_577_836_800.0


@pytest.mark.parametrize(
    ("after", "age", "expired"),
    [("30s", 60, True), ("30s", 29, False), ("Never", 10**9, False), ("200s", 100, False), ("200s", 200, True)],
)
def test_44_expiration(after: str, age: float, expired: bool) -> None:
    """By the age of the NodeClaim; that of its node plays no part."""
    assert is_expired(claim(after), BORN + age) == expired


def test_44_looked_at_again_in_time() -> None:
    assert seconds_until_deadline(claim("200s"), BORN + 100) == 100
