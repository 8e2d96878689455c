"""Pod affinity and anti-affinity, as in Karpenter's topology suite."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from shoal.provision.simulation.model import IGNORE
from tests.provision.scenarios.conftest import Make
from tests.provision.scenarios.words import (
    ARCH,
    CAPACITY,
    HOST,
    LABELS,
    Z1,
    Z2,
    Z3,
    ZONE,
    near,
    pod,
    pods,
    pool,
    preference,
    spread,
    there,
    within,
)
from tests.provision.scenarios.world import World

Object = dict[str, Any]
S2 = {"security": "s2"}
ZONES = (Z1, Z2, Z3)


def spread_hosts(count: int = 10) -> list[Object]:
    """They make as many nodes."""
    return pods(count, labels=LABELS, spreads=[spread(HOST)])


def test_empty_terms(make: Make) -> None:
    world = make()
    asked = pod()
    asked["spec"]["affinity"] = {"podAffinity": {}, "podAntiAffinity": {}}
    world.provision(asked)
    assert world.where(asked) is not None


def test_near_by_host(make: Make) -> None:
    world = make()
    target, asked = pod(labels=S2), pod(close=[near(S2, HOST)])
    world.provision(*spread_hosts(), target, asked)
    assert world.name_of(target) == world.name_of(asked)


def test_near_by_architecture(make: Make) -> None:
    world = make()
    each_its_host = [spread(HOST, labels=S2)]
    target = pod(labels=S2, cpu="2", spreads=each_its_host, select={ARCH: "arm64"})
    asked = pod(labels=S2, cpu="1", spreads=each_its_host, close=[near(S2, ARCH)])
    world.provision(target, asked)
    assert world.labels_of(asked)[ARCH] == "arm64"
    assert world.name_of(target) != world.name_of(asked)


def test_apart_by_architecture(make: Make) -> None:
    world = make()
    each_its_host = [spread(HOST, labels=S2)]
    target = pod(labels=S2, cpu="2", spreads=each_its_host, select={ARCH: "arm64"})
    asked = pod(labels=S2, cpu="1", spreads=each_its_host, apart=[near(S2, ARCH)])
    world.provision(target, asked)
    assert world.labels_of(asked)[ARCH] == "amd64"


def test_near_itself_by_host_after_one_was_placed_elsewhere(make: Make) -> None:
    """A pod that was placed counts for affinity though the others may not go to its zone."""
    world = make()
    world.provision(pod(labels=S2, select={ZONE: Z1}, close=[near(S2, HOST)]))
    asked = pods(10, labels=S2, required=[within(ZONE, Z2, Z3)], close=[near(S2, HOST)])
    world.provision(*asked)
    assert world.scheduled(asked) == 0


@pytest.mark.parametrize("zones", [(), (Z3,)], ids=["any zone", "one zone"])
def test_near_itself_by_zone(make: Make, zones: tuple[str, ...]) -> None:
    world = make()
    required = [within(ZONE, *zones)] if zones else []
    asked = pods(3, labels=S2, close=[near(S2, ZONE)], required=required)
    world.provision(*asked)
    assert len({world.name_of(each) for each in asked}) == 1
    assert not zones or world.labels_of(asked[0])[ZONE] == Z3


def test_near_itself_in_two_zones_that_selectors_keep_apart(make: Make) -> None:
    world = make()
    asked = [pod(labels=S2, close=[near(S2, ZONE)], required=[within(ZONE, zone)]) for zone in (Z2, Z3)]
    world.provision(*asked)
    assert [world.labels_of(each)[ZONE] for each in asked] == [Z2, Z3]


def test_near_itself_finds_the_zone_of_a_coming_node(make: Make) -> None:
    world = make()
    one, two = pods(2, labels=S2, close=[near(S2, ZONE)])
    world.provision(one)
    world.provision(two)
    assert world.name_of(one) == world.name_of(two)


def test_rather_near_is_given_up(make: Make) -> None:
    world = make()
    asked = pod(rather_close=[(50, near(S2, HOST))])
    world.provision(*spread_hosts(), asked)
    assert world.where(asked) is not None


def test_rather_apart_is_given_up(make: Make) -> None:
    world = make()
    asked = pods(10, rather_apart=[(50, near(LABELS, ZONE))])
    world.provision(*pods(3, labels=LABELS, spreads=[spread(ZONE)]), *asked)
    assert world.scheduled(asked) == 10


def test_rather_near_against_a_constraint(make: Make) -> None:
    world = make()
    target = pod(labels=S2)
    asked = pods(3, labels=LABELS, spreads=[spread(HOST)], rather_close=[(50, near(S2, HOST))])
    world.provision(*asked, target)
    assert world.scheduled([*asked, target]) == 4
    assert world.skew(HOST, LABELS) == [1, 1, 1]


@pytest.mark.parametrize("avoider_first", [True, False])
def test_apart_by_host_in_either_order(make: Make, avoider_first: bool) -> None:
    world = make()
    target, asked = pod(labels=S2), pod(apart=[near(S2, HOST)])
    world.provision(*((asked, target) if avoider_first else (target, asked)))
    assert world.name_of(target) != world.name_of(asked)


def in_zones(**options: Any) -> list[Object]:
    return [pod(cpu="2", select={ZONE: zone}, **options) for zone in ZONES]


def test_apart_by_zone_where_all_are_taken(make: Make) -> None:
    world = make()
    targets, asked = in_zones(labels=S2), pod(apart=[near(S2, ZONE)])
    world.provision(*targets, asked)
    assert world.scheduled(targets) == 3
    assert world.where(asked) is None


def test_apart_by_zone_from_one_that_may_be_anywhere(make: Make) -> None:
    world = make()
    target, asked = pod(labels=S2, cpu="2"), pod(apart=[near(S2, ZONE)])
    world.provision(target, asked)
    assert world.where(target) is not None
    assert world.where(asked) is None


@pytest.mark.parametrize(("required", "found"), [(True, False), (False, True)], ids=["required", "preferred"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_others_want_to_be_apart_from_it(make: Make, required: bool, found: bool, at_once: bool) -> None:
    world = make()
    avoid: Object = {"apart": [near(S2, ZONE)]} if required else {"rather_apart": [(10, near(S2, ZONE))]}
    avoiders, asked = in_zones(**avoid), pod(labels=S2)
    if not at_once:
        world.provision(*avoiders)
    world.provision(*(avoiders if at_once else ()), asked)
    assert world.scheduled(avoiders) == 3
    assert (world.where(asked) is not None) == found


def test_the_zone_of_an_avoider_is_known_when_its_node_is_there(make: Make) -> None:
    world = make()
    avoider, asked = pod(cpu="2", apart=[near(S2, ZONE)]), pod(labels=S2)
    world.provision(avoider, asked)
    assert world.where(avoider) is not None
    assert world.where(asked) is None
    world.provision(asked)
    assert world.labels_of(asked)[ZONE] != world.labels_of(avoider)[ZONE]


def test_apart_by_zone_batch_after_batch(make: Make) -> None:
    world = make()
    for counts in ([1], [1, 1], [1, 1, 1], [1, 1, 1]):
        world.provision(*pods(3, labels=S2, apart=[near(S2, ZONE)]))
        assert world.skew(ZONE, S2) == counts


def test_near_what_is_not_there(make: Make) -> None:
    world = make()
    asked = pods(10, close=[near(S2, ZONE)])
    world.provision(*asked)
    assert world.scheduled(asked) == 0


def test_near_one_that_may_be_anywhere_waits_for_its_node(make: Make) -> None:
    world = make()
    target, asked = pod(labels=S2), pods(10, close=[near(S2, ZONE)])
    world.provision(*asked, target)
    assert world.scheduled(asked) == 0
    assert world.skew(ZONE) == [1]
    world.provision(*asked)
    assert world.scheduled(asked) == 10
    assert world.skew(ZONE) == [11]


def test_near_one_whose_zone_is_known(make: Make) -> None:
    world = make()
    target, asked = pod(labels=S2, required=[within(ZONE, Z1)]), pods(10, close=[near(S2, ZONE)])
    world.provision(*asked, target)
    assert world.skew(ZONE) == [11]


def test_a_chain_of_affinities(make: Make) -> None:
    world = make()
    names = ("db", "web", "cache", "ui")
    chain = [pod(labels={"type": "db"})]
    chain += [
        pod(labels={"type": name}, close=[near({"type": before}, HOST)]) for before, name in itertools.pairwise(names)
    ]
    world.provision(*reversed(chain))
    assert len({world.name_of(each) for each in chain}) == 1


def test_a_dependency_that_cannot_be_had(make: Make) -> None:
    world = make()
    asked = pod(labels={"type": "db"}, close=[near({"type": "web"}, HOST)])
    world.provision(asked)
    assert world.where(asked) is None


@pytest.mark.parametrize(
    ("more", "found"),
    [({}, False), ({"namespaces": ["other"]}, True), ({"namespaceSelector": {}}, True)],
    ids=["own namespace", "listed", "all"],
)
def test_namespaces(make: Make, more: Object, found: bool) -> None:
    world = make(namespaces={"default": {}, "other": {"foo": "bar"}})
    target, asked = pod(labels=S2, namespace="other"), pod(close=[near(S2, HOST, **more)])
    world.provision(*spread_hosts(), target, asked)
    assert world.where(target) is not None
    assert (world.where(asked) is not None) == found
    assert not found or world.name_of(target) == world.name_of(asked)


def test_namespaces_by_selector(make: Make) -> None:
    world = make(namespaces={"default": {}, "other": {"foo": "bar"}, "third": {}})
    chosen = {"namespaceSelector": {"matchLabels": {"foo": "bar"}}}
    one, two = pod(labels=S2, namespace="other"), pod(labels=S2, namespace="third")
    asked = pod(apart=[near(S2, HOST, **chosen)])
    world.provision(one, two, asked)
    assert world.name_of(asked) != world.name_of(one)


# --- preferences that are not looked at ---


def placed(world: World, asked: list[Object]) -> int:
    world.provision(*asked)
    assert world.scheduled(asked) == len(asked)
    return len({world.name_of(each) for each in asked})


@pytest.mark.parametrize("key", [ZONE, HOST])
def test_ignored_spread(rule: Make, key: str) -> None:
    asked: Object = {"labels": LABELS, "spreads": [spread(key, soft=True)]}
    assert placed(rule(preference_policy=IGNORE), pods(3, **asked)) == 1
    assert placed(rule(), pods(3, **asked)) == 3


@pytest.mark.parametrize("key", [ZONE, HOST])
def test_ignored_anti_affinity(rule: Make, key: str) -> None:
    asked: Object = {"labels": LABELS, "rather_apart": [(10, near(LABELS, key))]}
    assert placed(rule(preference_policy=IGNORE), pods(3, **asked)) == 1
    if key == HOST:
        assert placed(rule(), pods(3, **asked)) == 3


def test_ignored_node_preference(rule: Make) -> None:
    asked = pod(preferred=[preference(1, within(ZONE, Z2)), preference(1, there(CAPACITY))])
    plain = pod()
    world = rule(pool("default", within(ZONE, Z1, Z2)), preference_policy=IGNORE)
    world.provision(asked, plain)
    assert world.name_of(asked) == world.name_of(plain)
    assert ZONE not in world.plan.new_node_claims[0].requirements.labels()
