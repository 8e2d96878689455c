"""Topology spread, as in Karpenter's topology suite. Counts are those of the domains, sorted."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.requirements import from_expressions
from tests.provision.scenarios.conftest import Make, plain_types
from tests.provision.scenarios.words import (
    ARCH,
    CAPACITY,
    HOST,
    LABELS,
    ON_DEMAND,
    ONE_POD,
    SPOT,
    TYPE,
    Z1,
    Z2,
    Z3,
    ZONE,
    absent,
    bare_node,
    pod,
    pods,
    pool,
    preference,
    spread,
    taint,
    there,
    tolerate,
    within,
)
from tests.provision.scenarios.world import World

Object = dict[str, Any]
ANY = there(CAPACITY)
ZONES_12 = within(ZONE, Z1, Z2)

# (what it says, requirements and labels of the pool, how many pods, their constraint, the pod besides, counts)
CASES: list[tuple[str, list[Object], Object, int, Object, Object, list[int]]] = [
    ("by zone", [ANY], {}, 4, spread(ZONE), {}, [1, 1, 2]),
    ("zones of the pool, all", [within(ZONE, Z1, Z2, Z3)], {}, 4, spread(ZONE), {}, [1, 1, 2]),
    ("zones of the pool, two", [ZONES_12], {}, 4, spread(ZONE), {}, [2, 2]),
    ("zone in the labels of the pool", [ANY], {ZONE: Z1}, 4, spread(ZONE), {}, [4]),
    ("zone in both", [ZONES_12], {ZONE: Z1}, 4, spread(ZONE), {}, [4]),
    ("more domains than the least", [within(ZONE, Z1, Z2, Z3)], {}, 11, spread(ZONE, minDomains=2), {}, [3, 4, 4]),
    ("by host", [ANY], {}, 4, spread(HOST), {}, [1, 1, 1, 1]),
    ("by host, up to the skew", [ANY], {}, 4, spread(HOST, 4), {}, [4]),
    ("by capacity type", [ANY], {}, 4, spread(CAPACITY), {}, [2, 2]),
    ("capacity types of the pool", [within(CAPACITY, SPOT, ON_DEMAND)], {}, 4, spread(CAPACITY), {}, [2, 2]),
    ("by architecture", [ANY], {}, 4, spread(ARCH), {}, [2, 2]),
    ("node requirements narrow it", [ANY], {}, 10, spread(ZONE), {"required": [ZONES_12]}, [5, 5]),
    (
        "node preferences do not",
        [ANY],
        {},
        6,
        spread(ZONE),
        {"preferred": [preference(1, ZONES_12)]},
        [2, 2, 2],
    ),
    ("an unknown key", [ANY], {}, 1, spread("unknown"), {}, []),
    ("hosts by a key of their labels", [ANY], {}, 4, spread(HOST, matchLabelKeys=["unknown"]), {}, [1, 1, 1, 1]),
]


@pytest.mark.parametrize(
    ("requirements", "labels", "count", "constraint", "more", "counts"),
    [c[1:] for c in CASES],
    ids=[c[0] for c in CASES],
)
def test_one_batch(
    make: Make,
    requirements: list[Object],
    labels: Object,
    count: int,
    constraint: Object,
    more: Object,
    counts: list[int],
) -> None:
    world = make(pool("default", *requirements, **({"labels": labels} if labels else {})))
    world.provision(*pods(count, labels=LABELS, spreads=[constraint], **more))
    assert world.skew(constraint["topologyKey"], LABELS) == counts


def test_a_pod_with_an_unknown_key_keeps_no_other_from_its_node(make: Make) -> None:
    world = make()
    odd, plain = pod(labels=LABELS, spreads=[spread("unknown")]), pod()
    world.provision(odd, plain)
    assert world.where(odd) is None
    assert world.where(plain) is not None


def test_no_selector_counts_nothing(make: Make) -> None:
    world = make()
    world.provision(*pods(2, labels=LABELS, spreads=[spread(ZONE, labels=None)]))
    assert world.skew(ZONE) == [2]


def test_match_expressions(make: Make) -> None:
    selector = {"matchExpressions": [{"key": "test", "operator": "In", "values": ["test"]}]}
    world = make()
    world.provision(*pods(4, labels=LABELS, spreads=[spread(ZONE, labels=None, labelSelector=selector)]))
    assert world.skew(ZONE, LABELS) == [1, 1, 2]


def test_zones_of_two_pools(make: Make) -> None:
    world = make(pool("one", ZONES_12, labels={ZONE: Z1}), pool("two", labels={ZONE: Z2}))
    world.provision(*pods(4, labels=LABELS, spreads=[spread(ZONE)]))
    assert world.skew(ZONE, LABELS) == [2, 2]


def only(world: World, key: str, *values: str) -> None:
    world.pools = [pool("default", within(key, *values))]


def heavy(count: int, *constraints: Object) -> list[Object]:
    """So large that no two fit on the smallest node."""
    return pods(count, labels=LABELS, cpu="1.1", spreads=constraints)


def test_the_only_domain_there_is_though_not_the_least(make: Make) -> None:
    world = make()
    for zone, counts in ((Z1, [1]), (Z2, [1, 1])):
        only(world, ZONE, zone)
        world.provision(*heavy(1, spread(ZONE, 5)))
        assert world.skew(ZONE, LABELS) == counts
    only(world, ZONE, Z3)
    world.provision(*heavy(10, spread(ZONE, 5)))
    assert world.skew(ZONE, LABELS) == [1, 1, 6]


def test_a_skew_that_is_there_already_is_mended(make: Make) -> None:
    world = make()
    first = heavy(9, spread(ZONE))
    world.provision(*first)
    assert world.skew(ZONE, LABELS) == [3, 3, 3]
    world.remove(*(each for each in first if world.labels_of(each)[ZONE] != Z1))
    assert world.skew(ZONE, LABELS) == [3]
    world.provision(*heavy(3, spread(ZONE)))
    assert world.skew(ZONE, LABELS) == [1, 2, 3]


@pytest.mark.parametrize("constrained", [True, False], ids=["constrained", "plain"])
def test_domains_with_pods_count_though_nothing_can_be_bought_there(make: Make, constrained: bool) -> None:
    world = make()
    only(world, ZONE, Z1)
    world.provision(*heavy(1, *([spread(ZONE)] if constrained else [])))
    only(world, ZONE, Z2, Z3)
    world.provision(*heavy(10, spread(ZONE)))
    assert world.skew(ZONE, LABELS) == [1, 2, 2]


@pytest.mark.parametrize(("soft", "counts"), [(False, [1, 2]), (True, [1, 5])], ids=["DoNotSchedule", "ScheduleAnyway"])
def test_capacity_types(make: Make, soft: bool, counts: list[int]) -> None:
    world = make()
    only(world, CAPACITY, SPOT)
    world.provision(*heavy(1, spread(CAPACITY, soft=soft)))
    only(world, CAPACITY, ON_DEMAND)
    world.provision(*heavy(5, spread(CAPACITY, soft=soft)))
    assert world.skew(CAPACITY, LABELS) == counts


@pytest.mark.parametrize(
    ("key", "one", "two", "counts"),
    [(ZONE, Z1, Z2, [1, 2, 2]), (CAPACITY, SPOT, ON_DEMAND, [2, 3])],
    ids=["zone", "type"],
)
def test_only_running_pods_with_the_labels_and_a_domain_count(
    make: Make, key: str, one: str, two: str, counts: list[int]
) -> None:
    world = make()
    has = {"cpu": "10", "pods": "10"}
    unable = [taint("full")]
    first, second = bare_node("first", has, {key: one}, unable), bare_node("second", has, {key: two}, unable)
    world.add(first, second, bare_node("third", has, taints=unable))
    world.bind(pod(), "first")
    world.bind(pod(labels=LABELS), "third")
    world.bind(pod(labels=LABELS, namespace="other"), "first")
    for phase in ("Failed", "Succeeded"):
        ended = pod(labels=LABELS)
        world.bind(ended, "first")
        world.bound[ended["metadata"]["uid"]]["status"]["phase"] = phase
    counted = [pod(labels=LABELS) for _ in range(3)]
    for each, name in zip(counted, ("first", "first", "second"), strict=True):
        world.bind(each, name)
    world.provision(*pods(2, labels=LABELS, spreads=[spread(key)]))
    world.bound = {
        uid: each for uid, each in world.bound.items() if each["status"]["phase"] not in ("Failed", "Succeeded")
    }
    assert world.skew(key, LABELS) == counts


@pytest.mark.parametrize("key", [HOST, CAPACITY])
def test_pods_that_do_not_count_for_their_own_constraint(make: Make, key: str) -> None:
    world = make()
    asked = pods(5, spreads=[spread(key)])
    world.provision(*asked)
    assert len({world.name_of(each) for each in asked}) == 1


def test_deployments_share_nodes(rule: Make) -> None:
    world = rule()
    apps = [{"app": name} for name in ("app1", "app2")]
    asked = [each for app in apps for each in pods(2, labels=app, spreads=[spread(HOST, labels=app)])]
    world.provision(*asked)
    assert world.scheduled(asked) == 4
    assert len(world.claims) == 2


def test_deployments_of_two_architectures_do_not(make: Make) -> None:
    world = make()
    apps = {"app1": "amd64", "app2": "arm64"}
    asked = [
        each
        for app, arch in apps.items()
        for each in pods(2, labels={"app": app}, select={ARCH: arch}, spreads=[spread(HOST, labels={"app": app})])
    ]
    world.provision(*asked)
    assert world.scheduled(asked) == 4
    assert len(world.claims) == 4


def test_selectors_limit_what_is_counted(make: Make) -> None:
    world = make()
    narrow: Object = {"required": [within(ZONE, Z1), within(CAPACITY, ON_DEMAND)]}
    world.provision(pod(labels=LABELS, **narrow))
    narrow = {"required": [within(ZONE, Z2), within(CAPACITY, SPOT)]}
    world.provision(*pods(5, labels=LABELS, spreads=[spread(CAPACITY)], **narrow))
    assert world.skew(CAPACITY, LABELS) == [1, 5]


@pytest.mark.parametrize(
    ("key", "one", "two"), [(CAPACITY, ON_DEMAND, SPOT), (ARCH, "amd64", "arm64")], ids=["capacity type", "arch"]
)
def test_without_a_selector_all_domains_count(make: Make, key: str, one: str, two: str) -> None:
    world = make()
    world.provision(pod(labels=LABELS, select={TYPE: ONE_POD}, required=[within(key, one)]))
    only(world, key, two)
    world.provision(*pods(5, labels=LABELS, cpu="2", spreads=[spread(key)]))
    assert world.skew(key, LABELS) == [1, 2]


@pytest.mark.parametrize(("key", "one", "two"), [(ZONE, Z1, Z2), (CAPACITY, SPOT, ON_DEMAND)], ids=["zone", "type"])
def test_by_selector(make: Make, key: str, one: str, two: str) -> None:
    world = make()
    here = pods(5, labels=LABELS, spreads=[spread(key)], select={key: one})
    there_ = pods(10, labels=LABELS, spreads=[spread(key)], select={key: two})
    world.provision(*here, *there_)
    assert world.skew(key, LABELS) == [5, 10]


def test_required_affinity_then_all_zones(make: Make) -> None:
    world = make()
    world.provision(*pods(6, labels=LABELS, spreads=[spread(ZONE)], required=[ZONES_12]))
    assert world.skew(ZONE, LABELS) == [3, 3]
    world.pools = [pool("default", within(ZONE, Z1, Z2, Z3))]
    world.provision(pod(labels=LABELS, spreads=[spread(ZONE)], required=[within(ZONE, Z2, Z3)]))
    assert world.skew(ZONE, LABELS) == [1, 3, 3]
    world.provision(*pods(5, labels=LABELS, spreads=[spread(ZONE)]))
    assert world.skew(ZONE, LABELS) == [4, 4, 4]


def test_required_affinity_then_all_capacity_types(make: Make) -> None:
    world = make()
    world.provision(*pods(3, labels=LABELS, spreads=[spread(CAPACITY)], required=[within(CAPACITY, SPOT)]))
    assert world.skew(CAPACITY, LABELS) == [3]
    both = within(CAPACITY, ON_DEMAND, SPOT)
    world.provision(pod(labels=LABELS, spreads=[spread(CAPACITY)], required=[both]))
    assert world.skew(CAPACITY, LABELS) == [1, 3]
    world.provision(*pods(5, labels=LABELS, spreads=[spread(CAPACITY)]))
    assert world.skew(CAPACITY, LABELS) == [4, 5]


def test_shares_by_values_of_pools(make: Make) -> None:
    """A label with four values on spot and one on demand: four of five pods are on spot."""
    key = "capacity.spread.4-1"
    on_spot = pool("spot", within(CAPACITY, SPOT), within(key, "2", "3", "4", "5"))
    world = make(on_spot, pool("demand", within(CAPACITY, ON_DEMAND), within(key, "1")))
    asked = pods(20, labels=LABELS, spreads=[spread(key)])
    world.provision(*asked)
    assert world.scheduled(asked) == 20
    assert world.skew(key, LABELS) == [4, 4, 4, 4, 4]
    assert world.skew(CAPACITY, LABELS) == [4, 16]


def test_a_domain_of_a_pool_that_may_buy_nothing(make: Make) -> None:
    full = pool("full", within(ZONE, Z3), limits={"cpu": "0"})
    world = make(pool("default", ZONES_12), full)
    world.provision(*pods(10, labels=LABELS, spreads=[spread(ZONE), spread(HOST, soft=True)]))
    assert world.skew(ZONE, LABELS) == [1, 1]
    assert world.skew(HOST, LABELS) == [1, 1]


def test_capacity_type_and_host(make: Make) -> None:
    world = make()
    both = [spread(CAPACITY), spread(HOST, 3)]
    for count, counts in ((2, [1, 1]), (3, [2, 3]), (5, [5, 5]), (11, [10, 11])):
        world.provision(*pods(count, labels=LABELS, spreads=both))
        assert world.skew(CAPACITY, LABELS) == counts
        assert max(world.skew(HOST, LABELS)) <= 3


def test_capacity_type_and_zone(make: Make) -> None:
    world = make()
    both = [spread(CAPACITY), spread(ZONE)]
    for count, types, zones in ((2, 1, 1), (3, 3, 2), (3, 5, 4), (11, 11, 7)):
        world.provision(*pods(count, labels=LABELS, spreads=both))
        assert max(world.skew(CAPACITY, LABELS)) <= types
        assert max(world.skew(ZONE, LABELS)) <= zones


def test_three_constraints_batch_after_batch(make: Make) -> None:
    world = make(pool("default", ANY), types=plain_types())
    three = [(CAPACITY, 1), (ZONE, 2), (HOST, 3)]
    for count in (1, 3, 5, 9):
        asked = pods(count, labels=LABELS, spreads=[spread(key, skew) for key, skew in three])
        world.provision(*asked)
        assert world.scheduled(asked) == count
        for key, skew in three:
            found = world.skew(key, LABELS)
            assert max(found) - min(found) <= skew


def test_match_label_keys_tell_revisions_apart(rule: Make) -> None:
    world = rule()
    constraint = spread(HOST, matchLabelKeys=["revision"])
    asked = [each for value in "ab" for each in pods(2, labels={**LABELS, "revision": value}, spreads=[constraint])]
    world.provision(*asked)
    assert world.skew(HOST, LABELS) == [2, 2]


@pytest.mark.parametrize(("policy", "counts"), [("Ignore", [1]), ("Honor", [5])])
def test_domains_of_tainted_nodes(make: Make, policy: str, counts: list[int]) -> None:
    world = make(pool("default", ANY, labels={"key": "baz"}))
    world.add(*(bare_node(name, {"cpu": "100m"}, {"key": name}, [taint("t", "v")]) for name in ("foo", "bar")))
    world.provision(*pods(5, labels=LABELS, cpu="1", spreads=[spread("key", nodeTaintsPolicy=policy)]))
    assert world.skew("key", LABELS) == counts


@pytest.mark.parametrize(("policy", "counts"), [("Ignore", [1]), ("Honor", [2])])
def test_domains_of_tainted_pools(make: Make, policy: str, counts: list[int]) -> None:
    tainted = pool("tainted", ANY, within("key", "bar"), template={"taints": [taint("t", "v")]})
    world = make(pool("default", ANY, within("key", "foo")), tainted)
    world.provision(*pods(2, labels=LABELS, spreads=[spread("key", nodeTaintsPolicy=policy)]))
    assert world.skew("key", LABELS) == counts


def test_pools_that_exclude_each_other_share_a_domain(make: Make) -> None:
    pools = [
        pool(f"p{n}", ANY, within("key", "foo", other), template={"taints": [taint("t", f"p{n}")]})
        for n, other in enumerate(("bar", "baz"))
    ]
    world = make(*pools)
    constraint = spread("key", nodeTaintsPolicy="Honor")
    asked = [
        each
        for n in range(2)
        for each in pods((n + 1) * 2, labels=LABELS, spreads=[constraint], tolerations=[tolerate("t", f"p{n}")])
    ]
    world.provision(*asked)
    assert world.skew("key", LABELS) == [1, 2, 3]


@pytest.mark.parametrize(("policy", "counts"), [("Ignore", [1]), ("Honor", [5])])
def test_domains_of_nodes_that_the_selector_excludes(make: Make, policy: str, counts: list[int]) -> None:
    world = make(pool("default", ANY, labels={"key": "baz", "selector": "value"}))
    for name in ("foo", "bar"):
        world.add(bare_node(name, {"cpu": "100m"}, {"key": name, "selector": "mismatch"}))
    constraint = spread("key", nodeAffinityPolicy=policy)
    world.provision(*pods(5, labels=LABELS, cpu="1", select={"selector": "value"}, spreads=[constraint]))
    assert world.skew("key", LABELS) == counts


def test_the_zone_of_a_volume_does_not_change_what_is_counted(make: Make) -> None:
    world = make(pool("default", within(CAPACITY, ON_DEMAND)))
    constraint = spread(ZONE, minDomains=3)
    world.provision(*pods(3, labels=LABELS, spreads=[constraint]))
    assert world.skew(ZONE, LABELS) == [1, 1, 1]
    asked = pod(labels=LABELS, spreads=[constraint])
    world.provision(asked, volume_requirements={asked["metadata"]["uid"]: (from_expressions([within(ZONE, Z1)]),)})
    assert world.labels_of(asked)[ZONE] == Z1
    assert world.skew(ZONE, LABELS) == [1, 1, 2]


def test_in_flight_nodes_are_filled_evenly(make: Make) -> None:
    world = make()
    world.provision(*pods(4, labels=LABELS, spreads=[spread(ZONE)]))
    assert world.skew(ZONE, LABELS) == [1, 1, 2]
    first = len(world.claims)
    world.provision(*pods(5, labels=LABELS, spreads=[spread(ZONE)]))
    assert world.skew(ZONE, LABELS) == [3, 3, 3]
    assert len(world.claims) == first


def test_new_hosts_rather_than_a_skew(make: Make) -> None:
    world = make()
    world.provision(*pods(4, labels=LABELS, spreads=[spread(HOST)]))
    world.provision(*pods(5, labels=LABELS, spreads=[spread(HOST)]))
    assert world.skew(HOST, LABELS) == [1] * 9


def test_required_absence_of_the_key(make: Make) -> None:
    """A pod that wants no such label cannot be spread by it."""
    world = make(pool("default", ANY, labels={"key": "a"}))
    asked = pod(labels=LABELS, spreads=[spread("key")], required=[absent("key")])
    world.provision(asked)
    assert world.where(asked) is None
