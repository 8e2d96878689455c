"""Acceptance scenarios of provisioning, numbered as in Karpenter's unit suites."""

from __future__ import annotations

import pytest

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulation.model import BEST_EFFORT
from shoal.provision.simulator import fake
from shoal.provision.simulator.instance_type import OfferingSpec
from tests.provision.scenarios.conftest import Make, assorted_types, improved, maker
from tests.provision.scenarios.words import (
    ARCH,
    CAPACITY,
    DEFAULT,
    HOST,
    LABELS,
    ON_DEMAND,
    POOL,
    RESERVED,
    SMALL,
    SPOT,
    TYPE,
    Z1,
    Z2,
    Z3,
    ZONE,
    absent,
    bare_node,
    near,
    outside,
    pod,
    pods,
    pool,
    preference,
    spread,
    there,
    within,
)

AMD = {ARCH: "amd64"}
RESERVATION = "shoal.dev/reservation-id"


# --- packing and the choice of a type ---


def test_02_still_small(make: Make) -> None:
    world = make()
    asked = pod(memory="2000M")
    world.provision(asked)
    assert world.labels_of(asked)[TYPE] == SMALL


def test_04_init_container(make: Make) -> None:
    world = make()
    asked = pod(cpu="1", memory="1Gi", init={"cpu": "2", "memory": "1Gi"})
    world.provision(asked)
    assert world.labels_of(asked)[TYPE] == DEFAULT


def test_06_five_tiny(make: Make) -> None:
    world = make()
    world.provision(*pods(5, memory="10M"))
    assert world.types_bought() == [SMALL]


def test_08_fill_gaps(make: Make) -> None:
    world = make()
    asked = pods(40, memory="1.8G", select=AMD) + pods(20, memory="400M", select=AMD)
    world.provision(*asked)
    assert world.scheduled(asked) == 60
    if world.exact:
        assert world.types_bought() == [DEFAULT] * 20


def test_10_pod_cap(make: Make) -> None:
    world = make()
    asked = pods(25, cpu="1m", memory="1m", select=AMD)
    world.provision(*asked)
    assert world.scheduled(asked) == 25
    assert world.types_bought() == [SMALL] * 5


def gpus() -> list[InstanceType]:
    types = fake.increasing_fake_types(5)
    types[0] = fake.fake_type("fake-it-0", {"cpu": "1", "memory": "2Gi", "pods": "10", "karpenter.sh/gpu-1": "25"})
    types[1] = fake.fake_type("fake-it-1", {"cpu": "2", "memory": "4Gi", "pods": "20", "karpenter.sh/gpu-2": "25"})
    return types


def test_12_split_gpus(make: Make) -> None:
    world = make(types=gpus())
    one, two = pod(requests={"karpenter.sh/gpu-1": "1"}), pod(requests={"karpenter.sh/gpu-2": "1"})
    world.provision(one, two)
    assert world.types_bought() == ["fake-it-0", "fake-it-1"]
    assert world.name_of(one) != world.name_of(two)


def test_12_both_gpus_in_one_pod(make: Make) -> None:
    world = make(types=gpus())
    both = pod(requests={"karpenter.sh/gpu-1": "1", "karpenter.sh/gpu-2": "1"})
    world.provision(both)
    assert world.where(both) is None


BOTH = (within(CAPACITY, SPOT, ON_DEMAND), within(ARCH, "arm64", "amd64"))


CPUS = ("0.1", "1.0", "2", "2.5", "4", "8", "16")
MEMORIES = ("0.1Gi", "1.0Gi", "2Gi", "4Gi", "8Gi", "16Gi", "32Gi")


@pytest.mark.parametrize("cpu", CPUS)
def test_14_49_size_pairs(rule: Make, cpu: str) -> None:
    for memory in MEMORIES:
        world = rule(pool("default", *BOTH), types=assorted_types())
        asked = pods(3, cpu=cpu, memory=memory)
        plan = world.provision(*asked)
        assert world.scheduled(asked) == 3
        assert len(plan.new_node_claims) == 1
        one = parse_amounts({"cpu": cpu, "memory": memory})
        listed = [each for each in world.types if each.name in plan.new_node_claims[0].types]
        assert listed
        assert all(3 * one[name] < each.allocatable[name] for each in listed for name in one)


@pytest.mark.parametrize(("cpu", "memory"), [("0.1", "0.1Gi"), ("2.5", "16Gi"), ("16", "32Gi")])
def test_14_with_the_optimiser(cpu: str, memory: str) -> None:
    world = maker(improved, exact=False)(pool("default", *BOTH), types=assorted_types())
    asked = pods(3, cpu=cpu, memory=memory)
    world.provision(*asked)
    assert world.scheduled(asked) == 3


TWO_ALIKE = [
    fake.fake_type(name, None, [OfferingSpec(Z1, SPOT, 0.52)], architecture="arm64", systems=("linux",))
    for name in ("instance-type-1", "instance-type-2")
]


def test_16_min_values_best_effort(make: Make) -> None:
    wanted = within(TYPE, "instance-type-1", "instance-type-2", "instance-type-3", least=3)
    world = make(pool("default", wanted), types=TWO_ALIKE, min_values_policy=BEST_EFFORT)
    asked = pod(cpu="0.9", memory="0.9Gi")
    plan = world.provision(asked)
    assert world.where(asked) is not None
    claim = world.claims[world.name_of(asked)]
    assert claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-min-values-relaxed"] == "true"
    assert plan.new_node_claims[0].min_values_relaxed
    assert from_expressions(claim["spec"]["requirements"])[TYPE].min_values == 2


def test_16_min_values_strict(make: Make) -> None:
    wanted = within(TYPE, "instance-type-1", "instance-type-2", "instance-type-3", least=3)
    world = make(pool("default", wanted), types=TWO_ALIKE)
    asked = pod(cpu="0.9", memory="0.9Gi")
    world.provision(asked)
    assert world.where(asked) is None
    assert "minValues" in world.reason(asked)


# --- requirements and preferences ---


def test_18_lighter_weight(make: Make) -> None:
    world = make(pool("default", within(ZONE, Z1, Z2)))
    asked = pod(
        preferred=[
            preference(100, within(TYPE, "test-zone-3")),
            preference(50, within(ZONE, Z2)),
            preference(1, within(ZONE, Z1)),
        ]
    )
    world.provision(asked)
    assert world.labels_of(asked)[ZONE] == Z2


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (within("test-key", "test-value"), False),
        (there("test-key"), False),
        (outside("test-key", "test-value"), True),
        (absent("test-key"), True),
    ],
    ids=["In", "Exists", "NotIn", "DoesNotExist"],
)
def test_20_custom_key(make: Make, wanted: dict[str, object], found: bool) -> None:
    world = make()
    asked = pod(required=[wanted])
    world.provision(asked)
    assert (world.where(asked) is not None) == found
    assert not found or "test-key" not in world.labels_of(asked)


# --- limits, weights, volumes, nodes that are there ---


def test_22_limit_of_three_cpu(make: Make) -> None:
    world = make(pool(limits={"cpu": "3"}))
    labels = {"app": "foo"}
    asked = pods(2, cpu="1.5", labels=labels, apart=[near(labels, HOST)])
    world.provision(*asked)
    assert world.scheduled(asked) == 1


def test_24_weights(make: Make) -> None:
    pools = pool("unset"), pool("twenty", weight=20), pool("hundred", weight=100)
    world = make(*pools)
    asked = [pod(), pod(), pod()]
    world.provision(*asked)
    assert {world.labels_of(each)[POOL] for each in asked} == {"hundred"}
    chosen = pod(select={POOL: "unset"})
    world.provision(chosen)
    assert world.labels_of(chosen)[POOL] == "unset"


def test_26_zones_of_a_storage_class(make: Make) -> None:
    world = make()
    fitting, elsewhere = pod(required=[within(ZONE, Z1, Z3)]), pod(required=[within(ZONE, Z1)])
    zones = (from_expressions([within(ZONE, Z2, Z3)]),)
    volumes = {each["metadata"]["uid"]: zones for each in (fitting, elsewhere)}
    world.provision(fitting, elsewhere, volume_requirements=volumes)
    assert world.labels_of(fitting)[ZONE] == Z3
    assert world.where(elsewhere) is None


def test_28_unmanaged_node(make: Make) -> None:
    world = make()
    world.add(bare_node("theirs", {"cpu": "10", "memory": "100Gi", "pods": "110"}))
    asked = pods(100, cpu="10m")
    world.provision(*asked)
    assert {world.name_of(each) for each in asked} == {"theirs"}
    assert not world.claims


def test_28_initialised_before_all_others(make: Make) -> None:
    world = make()
    labels = {"app": "first"}
    first = pods(100, cpu="1.1", labels=labels, apart=[near(labels, HOST)])
    world.provision(*first)
    assert len(world.claims) == 100
    chosen = sorted(world.claims)[57]
    world.initialize(chosen)
    asked = pod()
    world.provision(asked)
    assert world.name_of(asked) == chosen


def reserving() -> list[InstanceType]:
    """Of the two smaller ones, one each is paid for already."""
    large = fake.fake_type("large", {"cpu": "6", "memory": "6Gi"})
    found = [large]
    for name, size in (("medium", "3"), ("small", "2")):
        said = {"cpu": size, "memory": f"{size}Gi"}
        plain = fake.fake_type(name, said)
        price = fake.fake_price(parse_amounts(said))
        sales = [OfferingSpec(each.labels[ZONE], each.labels[CAPACITY], price) for each in plain.offerings]
        sales.append(OfferingSpec(Z1, RESERVED, price / 100_000, reservation=f"r-{name}", reservation_capacity=1))
        found.append(fake.fake_type(name, said, sales))
    return found


def test_30_reserved(make: Make) -> None:
    world = make(types=reserving())
    asked = pods(3, cpu="1800m")
    for name in ("small", "medium"):
        world.provision(*asked)
        bound = [each for each in asked if world.where(each) is not None]
        assert len(bound) == 1
        labels = world.labels_of(bound[0])
        assert (labels[TYPE], labels[CAPACITY], labels[RESERVATION]) == (name, RESERVED, f"r-{name}")
        asked.remove(bound[0])
    world.provision(*asked)
    labels = world.labels_of(asked[0])
    assert labels[TYPE] == "small"
    assert labels[CAPACITY] != RESERVED
    assert RESERVATION not in labels


# --- topology ---


def test_32_existing_pod(make: Make) -> None:
    world = make()
    world.provision(pod(labels=LABELS, cpu="1.1", select={ZONE: Z3}))
    world.pools = [pool("default", within(ZONE, Z1, Z2))]
    asked = pods(6, labels=LABELS, cpu="1.1", spreads=[spread(ZONE)])
    world.provision(*asked)
    assert world.skew(ZONE, LABELS) == [1, 2, 2]
    assert world.scheduled(asked) == 4


@pytest.mark.parametrize(
    ("zones", "count", "counts"), [((Z1, Z2), 3, [1, 1]), ((Z1, Z2, Z3), 11, [3, 4, 4])], ids=["lacking", "there"]
)
def test_34_min_domains(make: Make, zones: tuple[str, ...], count: int, counts: list[int]) -> None:
    world = make(pool("default", within(ZONE, *zones)))
    world.provision(*pods(count, labels=LABELS, spreads=[spread(ZONE, minDomains=3)]))
    assert world.skew(ZONE, LABELS) == counts


def test_36_zone_and_hostname(make: Make) -> None:
    world = make()
    both = [spread(ZONE), spread(HOST, 3)]
    for count, counts in ((2, [1, 1]), (3, [1, 2, 2]), (5, [3, 3, 4]), (11, [7, 7, 7])):
        world.provision(*pods(count, labels=LABELS, spreads=both))
        assert world.skew(ZONE, LABELS) == counts
        assert max(world.skew(HOST, LABELS)) <= 3


def test_38_affinity_to_itself_by_host(make: Make) -> None:
    world = make()
    labels = {"security": "s2"}
    first, second = (pods(10, labels=labels, close=[near(labels, HOST)]) for _ in range(2))
    world.provision(*first)
    assert len(world.claims) == 1
    assert world.scheduled(first) == 5
    world.provision(*second)
    assert world.scheduled(second) == 0


def test_38_three_on_one_node(make: Make) -> None:
    world = make()
    labels = {"security": "s2"}
    asked = pods(3, labels=labels, close=[near(labels, HOST)])
    world.provision(*asked)
    assert world.scheduled(asked) == 3
    assert len(world.claims) == 1
