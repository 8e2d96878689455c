"""Existing and in-flight nodes, DaemonSets, reservations and volumes, as in Karpenter's suites."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shoal.fit.requirements import Requirements, from_expressions
from shoal.fit.resources import parse_amounts
from shoal.provision.simulator import fake
from shoal.provision.simulator.instance_type import OfferingSpec
from tests.provision.scenarios.conftest import Make
from tests.provision.scenarios.words import (
    ARCH,
    ARM,
    CAPACITY,
    DEFAULT,
    HOST,
    POOL,
    RESERVED,
    SMALL,
    TYPE,
    Z1,
    Z2,
    Z3,
    ZONE,
    bare_node,
    daemon,
    daemon_pod,
    near,
    outside,
    pod,
    pods,
    pool,
    preference,
    taint,
    term,
    tolerate,
    within,
)

Object = dict[str, Any]
TINY: Object = {"cpu": "10m"}
RESERVATION = "shoal.dev/reservation-id"


# --- coming ---


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (TINY, TINY, True),
        ({**TINY, "required": [within(ZONE, Z2)]}, {**TINY, "required": [within(ZONE, Z1, Z2)]}, True),
        ({**TINY, "required": [within(ZONE, Z2)]}, {**TINY, "required": [within(ZONE, Z1, Z3)]}, False),
        ({"cpu": "1001m"}, {"cpu": "1"}, False),
        (TINY, {"select": {ARCH: "arm64"}}, False),
        ({"ports": [8080]}, {"ports": [8080]}, False),
        ({"ports": [8080]}, {"ports": [8081]}, True),
    ],
    ids=["fits", "zones meet", "zones do not", "too large", "another arch", "same port", "another port"],
)
def test_a_node_that_is_coming(make: Make, first: Object, second: Object, same: bool) -> None:
    world = make()
    one, two = pod(**first), pod(**second)
    world.provision(one)
    world.provision(two)
    assert (world.name_of(one) == world.name_of(two)) == same


def test_a_node_that_goes_takes_none(make: Make) -> None:
    world = make()
    one, two = pod(**TINY), pod(**TINY)
    world.provision(one)
    name = world.name_of(one)
    for obj in (world.nodes[name], world.claims[name]):
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.remove(one)
    world.provision(two)
    assert world.name_of(two) != name


def test_nodes_are_filled_before_others_are_bought(make: Make) -> None:
    types = [fake.fake_type("medium", {"cpu": "4.25", "pods": "4"})]
    world = make(types=types)
    dice = random.Random(7)
    for _ in range(10):
        world.provision(*pods(dice.randrange(10), cpu="1"))
    free = [name for name in world.claims if len(world.pods_on(name)) < 4]
    assert len(free) <= 1


STARTUP = taint("foo.com/taint", "tainted")
NOT_READY = taint("node.kubernetes.io/not-ready", effect="NoExecute")


@pytest.mark.parametrize(
    ("startup", "initialized", "taints", "same"),
    [
        ([], False, [], True),
        ([], False, [NOT_READY], True),
        ([], True, [NOT_READY], False),
        ([], True, [STARTUP], False),
        ([STARTUP], False, [STARTUP], True),
        ([STARTUP], True, [STARTUP], False),
    ],
    ids=[
        "no taints",
        "not ready while it starts",
        "not ready when it had started",
        "tainted by somebody",
        "startup taint while it starts",
        "startup taint when it had started",
    ],
)
def test_taints(make: Make, startup: list[Object], initialized: bool, taints: list[Object], same: bool) -> None:
    world = make(pool(template={"startupTaints": startup}))
    first, second = pod(cpu="8"), pod()
    world.provision(first)
    name = world.name_of(first)
    world.remove(first)
    if initialized:
        world.initialize(name)
    world.nodes[name]["spec"]["taints"] = taints
    world.provision(second)
    assert (world.name_of(second) == name) == same


# --- there ---


def test_a_node_of_somebody_else(make: Make) -> None:
    world = make()
    world.add(bare_node("theirs", {"cpu": "10", "memory": "10Gi", "pods": "110"}))
    asked = pod(**TINY)
    world.provision(asked)
    assert world.name_of(asked) == "theirs"


def test_incompatible_with_the_node_but_not_with_the_pool(make: Make) -> None:
    world = make()
    world.add(bare_node("theirs", {"cpu": "10", "memory": "10Gi", "pods": "110"}))
    plan_of_pools, world.pools = world.pools, []
    asked = pod(required=[within(ZONE, Z1)])
    world.provision(asked)
    assert world.where(asked) is None
    world.pools = plan_of_pools
    world.provision(asked)
    assert world.labels_of(asked)[ZONE] == Z1


def test_taints_of_a_node_of_somebody_else(make: Make) -> None:
    world = make()
    world.add(bare_node("theirs", {"cpu": "10", "memory": "10Gi", "pods": "110"}, taints=[taint("x", "y")]))
    able, unable = pod(tolerations=[tolerate("x", "y")]), pod()
    world.provision(able, unable)
    assert world.name_of(able) == "theirs"
    assert world.name_of(unable) != "theirs"


def test_a_daemon_set_that_does_not_run_there_takes_nothing(make: Make) -> None:
    world = make()
    world.daemons = [daemon(cpu="100", memory="100Gi", required=[within(ZONE, Z1)])]
    world.add(bare_node("theirs", {"cpu": "1", "memory": "1Gi", "pods": "110"}))
    here, nowhere = pod(cpu="1", memory="1Gi"), pod(cpu="1", memory="1Gi")
    world.provision(here)
    assert world.name_of(here) == "theirs"
    world.provision(nowhere)
    assert world.where(nowhere) is None


# --- DaemonSets of new nodes ---

ASKED: Object = {"cpu": "1", "memory": "1Gi"}
HALF: Object = {"cpu": "2", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("of_pool", "daemons", "asked", "kind"),
    [
        ({}, [HALF], ASKED, DEFAULT),
        ({}, [{**HALF, "ports": [8080]}], {**ASKED, "ports": [8080]}, None),
        ({"template": {"startupTaints": [taint("foo.com/taint")]}}, [HALF], ASKED, DEFAULT),
        ({}, [{"cpu": "10000", "memory": "10000Gi"}], {}, None),
        ({}, [{"cpu": "1", "memory": "1Gi", "init": {"cpu": "3", "memory": "3Gi"}}], {}, DEFAULT),
        ({}, [{"cpu": "1", "init": {"cpu": "1", "memory": "10000Gi"}}], {}, None),
        ({}, [{"init": {"cpu": "10000", "memory": "10000Gi"}}], {}, None),
        ({}, [{}], {}, SMALL),
        ({"template": {"taints": [taint("foo", "bar")]}}, [HALF], ASKED, SMALL),
        ({}, [{**HALF, "select": {"node": "invalid"}}], ASKED, SMALL),
        ({}, [{**HALF, "required": [within(TYPE, "non-existent")]}], ASKED, SMALL),
        ({"labels": {"purpose": "m"}}, [{**HALF, "select": {"purpose": "m"}}], ASKED, DEFAULT),
        (
            {},
            [
                {"cpu": "1", "required": [within("size", "small")]},
                {"cpu": "10", "required": [within("size", "large")]},
            ],
            ASKED,
            DEFAULT,
        ),
        ({}, [{**HALF, "required": [outside("foo", "bar")]}], {**ASKED, "required": [within(ZONE, Z2)]}, DEFAULT),
        (
            {"labels": {"foo": "bar"}},
            [{**HALF, "terms": [term(within("foo", "voo")), term(within("foo", "bar"))]}],
            ASKED,
            DEFAULT,
        ),
        ({}, [{**HALF, "preferred": [preference(1, within("node", "invalid"))]}], ASKED, DEFAULT),
        ({"template": {"taints": [taint("t", "", "PreferNoSchedule")]}}, [HALF], ASKED, DEFAULT),
        (
            {},
            [
                {"cpu": "4", "memory": "4Gi", "required": [within("size", "large")], "ports": [8080]},
                {**HALF, "required": [within("size", "small")], "ports": [8081]},
            ],
            {**ASKED, "required": [within("size", "small")], "ports": [8080]},
            DEFAULT,
        ),
        ({}, [{**HALF, "required": [within(TYPE, SMALL)]}], ASKED, DEFAULT),
        ({}, [{**HALF, "required": [within(CAPACITY, "spot")]}], {**ASKED, "select": {CAPACITY: "on-demand"}}, DEFAULT),
    ],
    ids=[
        "counted",
        "host port",
        "startup taint",
        "too large",
        "init container",
        "too large with init",
        "too large init",
        "nothing asked",
        "no toleration",
        "another selector",
        "a type that is not sold",
        "label of the pool",
        "by size",
        "NotIn of an unknown key",
        "second term",
        "preference",
        "PreferNoSchedule",
        "host port of the other size",
        "only on one type",
        "only on spot, for all that may be spot",
    ],
)
def test_daemon_sets(make: Make, of_pool: Object, daemons: list[Object], asked: Object, kind: str | None) -> None:
    world = make(pool(**of_pool))
    tolerations = [tolerate(operator="Exists")] if "taints" in of_pool.get("template", {}) else []
    world.daemons = [daemon(f"agent{n}", **options) for n, options in enumerate(daemons)]
    wanted = pod(tolerations=tolerations, **asked)
    world.provision(wanted)
    found = world.where(wanted)
    assert (found["metadata"]["labels"][TYPE] if found is not None else None) == kind


def test_a_daemon_sets_pod_that_runs_is_not_counted_twice(make: Make) -> None:
    """The node has 15.9 cpu; its DaemonSet's pod takes one, and nothing more is kept free for it."""
    world = make()
    world.daemons = [daemon(cpu="1", memory="1Gi")]
    first = pod(cpu="8")
    world.provision(first)
    name = world.name_of(first)
    assert world.labels_of(first)[TYPE] == ARM
    world.remove(first)
    world.bind(daemon_pod(world.daemons[0], cpu="1", memory="2Gi"), name)
    second = pod(cpu="14.9")
    world.provision(second)
    assert world.name_of(second) == name


def test_a_daemon_sets_pod_that_was_not_expected(make: Make) -> None:
    world = make()
    odd, plain = daemon("odd", cpu="1", memory="1Gi", select={"my-label": "value"}), daemon("plain", cpu="1m")
    world.daemons = [odd, plain]
    first = pod(cpu="8")
    world.provision(first)
    name = world.name_of(first)
    world.remove(first)
    world.nodes[name]["metadata"]["labels"]["my-label"] = "value"
    world.bind(daemon_pod(odd, cpu="1", memory="2Gi", select={"my-label": "value"}), name)
    second = pod(cpu="15.5")
    world.provision(second)
    assert world.name_of(second) != name


def test_requests_of_a_claim_have_the_daemon_sets_once(rule: Make) -> None:
    world = rule()
    world.daemons = [daemon(cpu="1", memory="1Gi")]
    plan = world.provision(*pods(2, cpu="1", memory="1Gi"))
    assert len(plan.new_node_claims) == 1
    assert plan.new_node_claims[0].requests["cpu"] == 3000
    assert plan.new_node_claims[0].requests["memory"] == parse_amounts({"memory": "3Gi"})["memory"]


# --- reserved ---


def reserved(name: str = "small", capacity: int = 1, reservation: str = "", more: tuple[OfferingSpec, ...] = ()) -> Any:
    size = {"small": "2", "medium": "3", "large": "6"}[name]
    said = {"cpu": size, "memory": f"{size}Gi"}
    price = fake.fake_price(parse_amounts(said))
    sales = [
        OfferingSpec(each.labels[ZONE], each.labels[CAPACITY], price) for each in fake.fake_type(name, said).offerings
    ]
    own = OfferingSpec(
        Z1, RESERVED, price / 100_000, reservation=reservation or f"r-{name}", reservation_capacity=capacity
    )
    return fake.fake_type(name, said, [*sales, own, *more])


ALONE: Object = {"labels": {"app": "test"}, "apart": [near({"app": "test"}, HOST)]}
ON_SMALL = within(TYPE, "small")


def reservations(world: Any, asked: list[Object]) -> list[str]:
    found = (world.where(each) for each in asked)
    return sorted(each["metadata"]["labels"].get(RESERVATION, "-") for each in found if each is not None)


def test_one_reservation_for_two_pools(make: Make) -> None:
    world = make(pool("np-1"), pool("np-2"), types=[reserved()])
    asked = [pod(required=[ON_SMALL, within(POOL, f"np-{n}")], **ALONE) for n in (1, 2)]
    world.provision(*asked)
    assert reservations(world, asked) == ["r-small"]
    rest = [each for each in asked if world.where(each) is None]
    world.provision(*rest)
    assert reservations(world, asked) == ["-", "r-small"]


def test_a_reservation_for_each_of_two_pools(make: Make) -> None:
    world = make(pool("np-1"), pool("np-2"), types=[reserved()])
    world.types_of["np-2"] = [reserved(reservation="r-distinct")]
    asked = [pod(required=[ON_SMALL, within(POOL, f"np-{n}")], **ALONE) for n in (1, 2)]
    world.provision(*asked)
    assert reservations(world, asked) == ["r-distinct", "r-small"]


def test_two_reservations_of_one_type(make: Make) -> None:
    price = fake.fake_price(parse_amounts({"cpu": "2", "memory": "2Gi"})) / 100_000
    second = OfferingSpec(Z1, RESERVED, price, reservation="r-small-2", reservation_capacity=2)
    world = make(types=[reserved(more=(second,))])
    asked = pods(4, required=[ON_SMALL], **ALONE)
    for bound in (2, 3, 4):
        world.provision(*(each for each in asked if world.where(each) is None))
        assert world.scheduled(asked) == bound
    assert reservations(world, asked).count("-") == 1


def test_no_lighter_pool_while_a_reservation_may_be_had(make: Make) -> None:
    world = make(pool("primary", weight=100), pool("fallback", weight=50), types=[reserved()])
    world.types_of["fallback"] = [reserved(reservation="r-fallback")]
    asked = pods(2, required=[ON_SMALL], **ALONE)
    world.provision(*asked)
    assert reservations(world, asked) == ["r-small"]
    world.provision(*(each for each in asked if world.where(each) is None))
    assert reservations(world, asked) == ["-", "r-small"]
    assert {world.labels_of(each)[POOL] for each in asked} == {"primary"}


def test_preferences_stay_while_a_reservation_may_be_had(make: Make) -> None:
    world = make(pool("np-1"), pool("np-2"), types=[reserved()])
    rather = [preference(1, within(POOL, "np-1"))]
    asked = pods(2, required=[ON_SMALL], preferred=rather, **ALONE)
    world.provision(*asked)
    assert reservations(world, asked) == ["r-small"]
    world.provision(*(each for each in asked if world.where(each) is None))
    assert reservations(world, asked) == ["-", "r-small"]
    assert {world.labels_of(each)[POOL] for each in asked} == {"np-1"}


def test_two_pods_on_one_reserved_node(make: Make) -> None:
    world = make(types=[reserved()])
    labels = {"app": "test"}
    wanted = [ON_SMALL, within(CAPACITY, RESERVED), within(ZONE, Z1)]
    asked = pods(2, labels=labels, required=wanted, close=[near(labels, ZONE)])
    world.provision(*asked)
    assert world.name_of(asked[0]) == world.name_of(asked[1])
    assert reservations(world, asked) == ["r-small", "r-small"]


def test_a_reservation_that_is_used_up_is_no_reservation(make: Make) -> None:
    world = make(types=[reserved(capacity=0)])
    asked = pod(cpu="1")
    world.provision(asked)
    assert world.labels_of(asked)[CAPACITY] != RESERVED


def test_a_pod_that_must_be_reserved_and_cannot(make: Make) -> None:
    world = make(types=[reserved(capacity=0)])
    asked = pod(required=[within(CAPACITY, RESERVED)])
    world.provision(asked)
    assert world.where(asked) is None


# --- volumes ---


def alternatives(*zones: tuple[str, ...]) -> tuple[Requirements, ...]:
    return tuple(from_expressions([within(ZONE, *each)]) for each in zones)


@pytest.mark.parametrize(
    ("asked", "zones", "found"),
    [
        ({}, [(Z1,)], Z1),
        ({}, [("nowhere",), (Z2,)], Z2),
        ({"required": [within(ZONE, Z1, Z3)]}, [(Z2, Z3)], Z3),
        ({"required": [within(ZONE, Z3)]}, [(Z1,), (Z3,)], Z3),
        ({"required": [within(ZONE, Z1)]}, [(Z2, Z3)], None),
        ({"select": {ZONE: Z2}}, [(Z1,), (Z3,)], None),
        ({"preferred": [preference(1, within(ZONE, Z2))]}, [(Z1,)], Z1),
        ({"terms": [term(within(ZONE, "invalid")), term(within(ZONE, Z1, Z2))]}, [(Z2,)], Z2),
    ],
    ids=[
        "bound volume",
        "second alternative",
        "storage class",
        "alternative that the pod allows",
        "storage class elsewhere",
        "no alternative",
        "preference elsewhere",
        "terms are relaxed, volumes are not",
    ],
)
def test_zones_of_volumes(make: Make, asked: Object, zones: list[tuple[str, ...]], found: str | None) -> None:
    world = make()
    wanted = pod(**asked)
    world.provision(wanted, volume_requirements={wanted["metadata"]["uid"]: alternatives(*zones)})
    place = world.where(wanted)
    assert (place["metadata"]["labels"][ZONE] if place is not None else None) == found


def test_alternatives_of_volumes_tell_zones_apart(make: Make) -> None:
    """Each pod is in one zone for certain, so that another can be in another at once."""
    world = make()
    labels = {"app": "multi"}
    one, two = pods(2, labels=labels, apart=[near(labels, ZONE)])
    both = alternatives((Z1,), (Z2,))
    world.provision(one, two, volume_requirements={each["metadata"]["uid"]: both for each in (one, two)})
    assert {world.labels_of(each)[ZONE] for each in (one, two)} == {Z1, Z2}


def test_a_volume_that_wants_a_label_of_the_type(make: Make) -> None:
    world = make(types=fake.increasing_fake_types(5))
    asked = pod()
    wanted = [within(ZONE, Z1), within("special", "optional")], [within(ZONE, Z2), within("special", "other")]
    volumes = tuple(from_expressions(each) for each in wanted)
    world.provision(asked, volume_requirements={asked["metadata"]["uid"]: volumes})
    labels = world.labels_of(asked)
    assert (labels[ZONE], labels["special"], labels[TYPE]) == (Z1, "optional", "fake-it-4")


def test_a_pod_whose_claim_is_missing_keeps_no_other_from_its_node(make: Make) -> None:
    world = make()
    broken, plain = pod(), pod()
    world.provision(broken, plain, pod_errors={broken["metadata"]["uid"]: 'persistentvolumeclaim "x" not found'})
    assert world.where(broken) is None
    assert "not found" in world.reason(broken)
    assert world.where(plain) is not None


def test_a_volume_on_a_node_that_is_coming(make: Make) -> None:
    world = make()
    world.provision(pod(**TINY, required=[within(ZONE, Z2)]))
    here, there = pod(**TINY), pod(**TINY)
    volumes = {here["metadata"]["uid"]: alternatives((Z2,)), there["metadata"]["uid"]: alternatives((Z3,))}
    world.provision(here, there, volume_requirements=volumes)
    assert world.labels_of(here)[ZONE] == Z2
    assert world.labels_of(there)[ZONE] == Z3
    assert len(world.claims) == 2
