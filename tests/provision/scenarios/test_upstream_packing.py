"""Packing and the choice of types, as in Karpenter's scheduling and instance selection suites."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.simulator import fake
from shoal.provision.simulator.instance_type import OfferingSpec
from tests.provision.scenarios.conftest import Make, assorted_types
from tests.provision.scenarios.words import (
    ARCH,
    CAPACITY,
    DEFAULT,
    HOST,
    ON_DEMAND,
    ONE_POD,
    SMALL,
    SPOT,
    SYSTEM,
    TYPE,
    Z1,
    Z2,
    ZONE,
    near,
    pod,
    pods,
    pool,
    within,
)

Object = dict[str, Any]

AMD = {ARCH: "amd64"}
BOTH = [within(CAPACITY, SPOT, ON_DEMAND), within(ARCH, "arm64", "amd64")]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"memory": "100M"}, SMALL),
        ({"memory": "2000M"}, SMALL),
        ({"memory": "2140M"}, DEFAULT),
        ({"cpu": "1.9"}, SMALL),
        ({"cpu": "1.901"}, DEFAULT),
        ({"cpu": "1", "overhead": {"cpu": "2"}}, DEFAULT),
        ({"requests": {"foo.com/weird-resources": "0"}}, SMALL),
        ({"memory": "2Ti"}, None),
        ({"cpu": "1", "memory": "1Gi", "init": {"cpu": "2", "memory": "1Ti"}}, None),
        ({"requests": {fake.VENDOR_A: "1"}}, "gpu-vendor-instance-type"),
        ({"requests": {fake.VENDOR_B: "2"}}, "gpu-vendor-b-instance-type"),
        ({"requests": {fake.VENDOR_A: "3"}}, None),
    ],
    ids=str,
)
def test_the_smallest_that_fits(make: Make, asked: Object, kind: str | None) -> None:
    world = make()
    wanted = pod(**asked)
    world.provision(wanted)
    found = world.where(wanted)
    assert (found["metadata"]["labels"][TYPE] if found is not None else None) == kind


def test_full_nodes(make: Make) -> None:
    world = make()
    asked = pods(40, memory="1.8G", select=AMD)
    world.provision(*asked)
    assert world.scheduled(asked) == 40
    if world.exact:
        assert world.types_bought() == [DEFAULT] * 20


def test_tightly(make: Make) -> None:
    world = make(types=fake.increasing_fake_types(5))
    large, small = pod(cpu="4.5"), pod(cpu="1")
    world.provision(large, small)
    assert world.labels_of(large)[TYPE] == "fake-it-4"
    assert world.labels_of(small)[TYPE] == "fake-it-1"


def test_every_valid_type_is_listed_whatever_it_costs(rule: Make) -> None:
    sizes = {"medium": ("2", 3.0), "small": ("1", 2.0), "large": ("4", 1.0)}
    types = [
        fake.fake_type(name, {"cpu": size, "memory": f"{size}Gi"}, [OfferingSpec("test-zone-1a", ON_DEMAND, price)])
        for name, (size, price) in sizes.items()
    ]
    world = rule(types=types)
    asked = pod(cpu="1m", memory="1Mi")
    plan = world.provision(asked)
    assert world.labels_of(asked)[TYPE] == "large"
    assert plan.new_node_claims[0].types == ("large", "small", "medium")


def test_pods_by_number(make: Make) -> None:
    world = make(pool("default", within(TYPE, ONE_POD)))
    asked = pods(4)
    world.provision(*asked)
    assert world.types_bought() == [ONE_POD] * 4


def test_the_emptiest_claim_takes_the_next_pod(rule: Make) -> None:
    """Two claims by zone, then pods that may go to either: they go to the one with fewer pods."""
    world = rule(pool("default", within(TYPE, DEFAULT)))
    there_1, there_2 = pods(2, cpu="1", select={ZONE: Z1}), pods(1, cpu="1", select={ZONE: Z2})
    anywhere = pods(2, cpu="100m")
    world.provision(*there_1, *there_2, *anywhere)
    assert len(world.claims) == 2
    counts = sorted(len(world.pods_on(name)) for name in world.claims)
    assert counts == [2, 3]


def test_one_node_for_pods_with_a_port_each(make: Make) -> None:
    world = make()
    one, two = pod(ports=[8080]), pod(ports=[8081])
    world.provision(one, two)
    assert world.name_of(one) == world.name_of(two)


def test_the_same_port_wants_two_nodes(make: Make) -> None:
    world = make()
    one, two = pod(ports=[8080]), pod(ports=[8080])
    world.provision(one, two)
    assert world.name_of(one) != world.name_of(two)


def test_sidecars_count_with_the_containers(make: Make) -> None:
    """1 for the pod, 1 for a sidecar, and an init container of 1.5 that runs beside it: 2.5, not 2."""
    world = make()
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1.5"}}}
    asked = pod(cpu="1", initContainers=[sidecar, init])
    world.provision(asked)
    assert world.labels_of(asked)[TYPE] == DEFAULT


# --- the cheapest of 1344 types, and nothing that does not fit in the list ---

# (requirements of the pool besides the usual, of the pod, what all listed types have)
CHOICES: list[tuple[list[Object], list[Object], Object]] = [
    ([], [], {}),
    ([], [within(ARCH, "amd64")], {ARCH: "amd64"}),
    ([], [within(ARCH, "arm64")], {ARCH: "arm64"}),
    ([within(ARCH, "amd64")], [], {ARCH: "amd64"}),
    ([within(ARCH, "arm64")], [], {ARCH: "arm64"}),
    ([within(SYSTEM, "windows")], [], {SYSTEM: "windows"}),
    ([], [within(SYSTEM, "windows")], {SYSTEM: "windows"}),
    ([within(SYSTEM, "linux")], [], {SYSTEM: "linux"}),
    ([], [within(SYSTEM, "linux")], {SYSTEM: "linux"}),
    ([within(ZONE, Z2)], [], {ZONE: Z2}),
    ([], [within(ZONE, Z2)], {ZONE: Z2}),
    ([within(CAPACITY, SPOT)], [], {CAPACITY: SPOT}),
    ([], [within(CAPACITY, SPOT)], {CAPACITY: SPOT}),
    ([within(CAPACITY, ON_DEMAND), within(ZONE, Z1)], [], {CAPACITY: ON_DEMAND, ZONE: Z1}),
    ([], [within(CAPACITY, SPOT), within(ZONE, Z1)], {CAPACITY: SPOT, ZONE: Z1}),
    ([within(CAPACITY, SPOT)], [within(ZONE, Z2)], {CAPACITY: SPOT, ZONE: Z2}),
    (
        [within(CAPACITY, ON_DEMAND), within(ZONE, Z1), within(ARCH, "arm64"), within(SYSTEM, "windows")],
        [],
        {CAPACITY: ON_DEMAND, ZONE: Z1, ARCH: "arm64", SYSTEM: "windows"},
    ),
    (
        [within(CAPACITY, SPOT), within(ZONE, Z2)],
        [within(ARCH, "amd64"), within(SYSTEM, "linux")],
        {CAPACITY: SPOT, ZONE: Z2, ARCH: "amd64", SYSTEM: "linux"},
    ),
    (
        [],
        [within(CAPACITY, SPOT), within(ZONE, Z2), within(ARCH, "amd64"), within(SYSTEM, "linux")],
        {CAPACITY: SPOT, ZONE: Z2, ARCH: "amd64", SYSTEM: "linux"},
    ),
]


@pytest.mark.parametrize(("of_pool", "of_pod", "listed"), CHOICES)
def test_one_of_the_cheapest(rule: Make, of_pool: list[Object], of_pod: list[Object], listed: Object) -> None:
    types = assorted_types()
    world = rule(pool("default", *BOTH, *of_pool), types=types)
    asked = pod(required=of_pod)
    plan = world.provision(asked)
    by_name = {each.name: each for each in types}
    assert plan.new_node_claims[0].price == pytest.approx(0.1 + 0.1 * 2**30 / 1e9)
    assert by_name[world.labels_of(asked)[TYPE]].offerings[0].price == plan.new_node_claims[0].price
    for name in plan.new_node_claims[0].types:
        labels = by_name[name].offerings[0].labels
        assert {key: labels[key] for key in listed} == listed


ARM_NOT_IN_Z2 = [
    each
    for each in fake.assorted_fake_types()
    if each.offerings[0].labels[ARCH] == "amd64" or each.offerings[0].labels[ZONE] != Z2
]


@pytest.mark.parametrize(
    ("types", "of_pool", "of_pod"),
    [
        ([e for e in ARM_NOT_IN_Z2 if e.offerings[0].labels[ARCH] == "amd64"], [], [within(ARCH, "arm64")]),
        (ARM_NOT_IN_Z2, [], [within(ARCH, "arm64"), within(ZONE, Z2)]),
        (ARM_NOT_IN_Z2, [within(ARCH, "arm64")], [within(ZONE, Z2)]),
    ],
    ids=["no arm", "arm and zone of the pod", "arm of the pool, zone of the pod"],
)
def test_no_type_is_both(make: Make, types: list[Any], of_pool: list[Object], of_pod: list[Object]) -> None:
    world = make(pool("default", *BOTH, *of_pool), types=types)
    asked = pod(required=of_pod)
    plan = world.provision(asked)
    assert world.where(asked) is None
    assert not plan.new_node_claims


def test_only_prices_that_can_be_had_order_the_types(rule: Make) -> None:
    def kind(name: str, on_demand: float, spot: float) -> Any:
        sales = [OfferingSpec("test-zone-1a", ON_DEMAND, on_demand), OfferingSpec("test-zone-1a", SPOT, spot)]
        return fake.fake_type(name, {"cpu": "1", "memory": "1Gi"}, sales, systems=("linux",))

    world = rule(pool("default", within(CAPACITY, ON_DEMAND)), types=[kind("one", 1.0, 0.2), kind("two", 1.3, 0.1)])
    asked = pod()
    plan = world.provision(asked)
    assert world.labels_of(asked)[TYPE] == "one"
    assert plan.new_node_claims[0].types == ("one", "two")


def test_at_most_600_types_are_listed(rule: Make) -> None:
    world = rule(pool("default", *BOTH), types=assorted_types())
    plan = world.provision(pod())
    assert len(plan.new_node_claims[0].types) == 600
    prices = {each.name: each.offerings[0].price for each in assorted_types()}
    listed = [prices[name] for name in plan.new_node_claims[0].types]
    assert listed == sorted(listed)
    assert max(listed) <= min(price for name, price in prices.items() if name not in plan.new_node_claims[0].types)


def test_apart_by_host(make: Make) -> None:
    world = make()
    labels = {"app": "foo"}
    asked = pods(6, labels=labels, apart=[near(labels, HOST)])
    world.provision(*asked)
    assert len({world.name_of(each) for each in asked}) == 6
