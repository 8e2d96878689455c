"""Emptiness, consolidation, drift and budgets, as in Karpenter's disruption suites."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shoal.fit.resources import parse_amounts
from shoal.provision.disruption.budgets import UNBOUNDED, budget_limit, is_active
from shoal.provision.disruption.candidates import candidates
from shoal.provision.disruption.decide import decide_drift
from shoal.provision.evictability import eviction_cost
from shoal.provision.simulation.model import BEST_EFFORT, IGNORE
from shoal.provision.simulator import fake
from shoal.provision.simulator.instance_type import OfferingSpec
from tests.provision.scenarios.conftest import Make, plain_types
from tests.provision.scenarios.state_nodes import (
    ALONE,
    LONG_AGO,
    NOW,
    ROOM,
    carry_out,
    decided,
    disruptable,
    going,
    least,
    most,
    pdb,
    see,
    stand,
    told,
)
from tests.provision.scenarios.words import (
    CAPACITY,
    ON_DEMAND,
    RESERVED,
    SPOT,
    TYPE,
    Z1,
    ZONE,
    bare_node,
    daemon,
    daemon_pod,
    expression,
    pod,
    pods,
    preference,
    within,
)
from tests.provision.scenarios.world import World

Object = dict[str, Any]
APP = {"app": "test"}
KEEP = "karpenter.sh/do-not-disrupt"


@pytest.fixture
def world(rule: Make) -> World:
    return rule(disruptable(), types=plain_types())


def kept(said: str, started: str = "", **options: Any) -> Object:
    found = pod(labels=APP, **options)
    found["metadata"]["annotations"] = {KEEP: said}
    return found


# --- emptiness ---


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ({}, True),
        ({"conditions": ()}, False),
        ({"annotations": {KEEP: "true"}}, False),
        ({"annotations": {KEEP: "false"}}, True),
        ({"initialized": False}, False),
        ({"drifted": LONG_AGO}, True),
    ],
    ids=["empty", "not consolidatable", "kept", "not kept", "not initialised", "drifted too"],
)
def test_an_empty_node(world: World, more: Object, goes: bool) -> None:
    name = stand(world, least(), **more)
    assert going(decided(world).command) == ([name] if goes else [])


def test_a_node_with_a_pod_is_not_empty(world: World) -> None:
    stand(world, least(), pod(labels=APP), room=ALONE)
    assert decided(world).command is None


def test_several_empty_nodes(world: World) -> None:
    names = [stand(world, least()) for _ in range(3)]
    assert going(decided(world).command) == names


def test_a_daemon_sets_pod_leaves_a_node_empty(world: World) -> None:
    world.daemons = [daemon()]
    name = stand(world, least(), daemon_pod(world.daemons[0]))
    found = decided(world).command
    assert going(found) == [name]
    assert found is not None
    assert found.reason == "Empty"


@pytest.mark.parametrize(("owner", "empty"), [("ReplicaSet", True), ("StatefulSet", False)])
def test_pods_that_are_going(world: World, owner: str, empty: bool) -> None:
    leaving = pod(labels=APP)
    leaving["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "u", "controller": True}]
    leaving["metadata"]["deletionTimestamp"] = LONG_AGO
    name = stand(world, least(), leaving)
    found = decided(world).command
    assert (going(found) == [name]) == empty


def test_a_negative_cost_leaves_a_node_empty(world: World) -> None:
    """What is worth less than nothing is nothing that keeps a node."""
    cheap = pod(labels=APP)
    cheap["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": str(-(2**30))}
    name = stand(world, least(), cheap)
    found = decided(world).command
    assert going(found) == [name]
    assert found is not None
    assert found.reason == "Empty"


# --- what keeps a node ---


def owned(kind: str, found: Object) -> Object:
    found["metadata"]["ownerReferences"] = [{"kind": kind, "name": "o", "uid": "u", "controller": True}]
    return found


def ended(found: Object, phase: str = "") -> Object:
    if phase:
        found["status"]["phase"] = phase
    else:
        found["metadata"]["deletionTimestamp"] = LONG_AGO
    return found


BLOCKING = pdb(APP, 0, maxUnavailable=0)


@pytest.mark.parametrize(
    ("one", "pdbs", "more", "eventual", "may"),
    [
        (pod(labels=APP), [], {}, False, True),
        (kept("true"), [], {}, False, False),
        (kept("5m"), [], {}, False, False),
        (kept("soon"), [], {}, False, True),
        (owned("Node", kept("true")), [], {}, False, False),
        (owned("DaemonSet", kept("true")), [], {}, False, False),
        (kept("true"), [], {"terminationGracePeriod": "5m"}, True, True),
        (kept("true"), [], {"terminationGracePeriod": "5m"}, False, False),
        (kept("true"), [], {}, True, False),
        (ended(kept("true")), [], {}, False, True),
        (ended(kept("true"), "Succeeded"), [], {}, False, True),
        (pod(labels=APP), [], {"annotations": {KEEP: "true"}}, False, False),
        (pod(labels=APP), [pdb(APP, 1), pdb(APP, 1)], {}, False, False),
        (pod(labels=APP), [BLOCKING], {}, False, False),
        (pod(labels=APP), [pdb(APP, 0, "other")], {}, False, True),
        (owned("DaemonSet", pod(labels=APP)), [BLOCKING], {}, False, False),
        (owned("Node", pod(labels=APP)), [BLOCKING], {}, False, True),
        (pod(labels=APP), [BLOCKING], {"terminationGracePeriod": "5m"}, True, True),
        (pod(labels=APP), [BLOCKING], {"terminationGracePeriod": "5m"}, False, False),
        (ended(pod(labels=APP)), [BLOCKING], {}, False, True),
        (ended(pod(labels=APP), "Failed"), [BLOCKING], {}, False, True),
        (pod(labels=APP), [], {"initialized": False}, False, False),
        (pod(labels=APP), [], {"owner": "unknown"}, False, False),
    ],
    ids=[
        "nothing",
        "kept pod",
        "kept for a time",
        "kept, wrongly said",
        "kept static pod",
        "kept pod of a DaemonSet",
        "kept pod, grace, eventual",
        "kept pod, grace, graceful",
        "kept pod, no grace, eventual",
        "kept pod that goes",
        "kept pod that ended",
        "kept node",
        "two budgets",
        "blocking budget",
        "budget elsewhere",
        "blocking budget of a DaemonSet",
        "blocking budget of a static pod",
        "blocking budget, grace, eventual",
        "blocking budget, grace, graceful",
        "blocking budget, pod that goes",
        "blocking budget, pod that ended",
        "not initialised",
        "no such NodePool",
    ],
)
def test_candidates(world: World, one: Object, pdbs: list[Object], more: Object, eventual: bool, may: bool) -> None:
    name = stand(world, least(), **more)
    world.bind(one, name)
    world.bound[one["metadata"]["uid"]] |= {"status": {**one["status"], "startTime": "2027-01-15T07:59:00Z"}}
    found, notes = candidates(see(world, pdbs=pdbs), eventual=eventual)
    assert [each.name for each in found] == ([name] if may else [])
    quiet = "initialized" in more
    assert bool(notes) == (not may and not quiet)


def test_a_time_that_has_passed(world: World) -> None:
    name = stand(world, least())
    one = kept("5m")
    world.bind(one, name)
    world.bound[one["metadata"]["uid"]]["status"]["startTime"] = LONG_AGO
    assert [each.name for each in candidates(see(world))[0]] == [name]


@pytest.mark.parametrize("why", ["nominated", "claim goes", "node goes"])
def test_no_candidates(world: World, why: str) -> None:
    name = stand(world, least())
    if why == "claim goes":
        world.claims[name]["metadata"]["deletionTimestamp"] = LONG_AGO
    if why == "node goes":
        world.nodes[name]["metadata"]["deletionTimestamp"] = LONG_AGO
    assert not candidates(see(world, nominated=[name] if why == "nominated" else ()))[0]


@pytest.mark.parametrize("label", [CAPACITY, ZONE, TYPE])
def test_a_candidate_without_a_label_is_not_consolidated(world: World, label: str) -> None:
    name = stand(world, most(), pod(labels=APP), room=ALONE)
    for obj in (world.nodes[name], world.claims[name]):
        del obj["metadata"]["labels"][label]
    snapshot = see(world)
    assert [each.name for each in candidates(snapshot)[0]] == [name]
    found = decided(world)
    assert found.command is None
    assert "Instance Type" in told(found) if label == TYPE else f'does not have label "{label}"' in told(found)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"consolidationPolicy": "WhenEmpty"}, "has consolidation policy WhenEmpty"),
        ({"consolidateAfter": "Never"}, "has consolidation disabled"),
    ],
    ids=["WhenEmpty", "Never"],
)
def test_pools_that_do_not_consolidate(rule: Make, more: Object, words: str) -> None:
    world = rule(disruptable(disruption=more), types=plain_types())
    stand(world, most(), pod(labels=APP), room=ALONE)
    found = decided(world)
    assert found.command is None
    assert words in told(found)


# --- consolidation ---


def test_pods_go_to_the_other_node(world: World) -> None:
    stand(world, least(), *pods(2, labels=APP))
    name = stand(world, least(), pod(labels=APP))
    found = decided(world).command
    assert going(found) == [name]
    assert found is not None
    assert not found.replacements


def test_pods_go_to_a_node_of_somebody_else(world: World) -> None:
    world.add(bare_node("theirs", {"cpu": "32", "memory": "128Gi", "pods": "100"}))
    names = [stand(world, least(), pod(labels=APP)) for _ in range(2)]
    assert going(decided(world).command) == names


def test_of_two_the_one_that_blocks_stays(world: World) -> None:
    free = stand(world, least(), *pods(2, labels={"app": "other"}))
    stand(world, least(), pod(labels=APP))
    assert going(decided(world, pdbs=[BLOCKING]).command) == [free]


@pytest.mark.parametrize("where", ["node", "pod"])
def test_of_two_the_one_that_is_kept_stays(world: World, where: str) -> None:
    free = stand(world, least(), *pods(2, labels=APP))
    if where == "node":
        stand(world, least(), pod(labels=APP), annotations={KEEP: "true"})
    else:
        name = stand(world, least())
        world.bind(kept("true"), name)
    assert going(decided(world).command) == [free]


def test_no_pods_for_a_node_that_is_not_initialised(world: World) -> None:
    stand(world, least(), *pods(2, labels=APP), initialized=False)
    stand(world, least(), pod(labels=APP))
    found = decided(world)
    assert found.command is None
    assert "Not all pods would schedule" in told(found)
    assert "would schedule against uninitialized" in told(found)


def test_a_pod_that_waits_for_ever_is_no_obstacle(world: World) -> None:
    stand(world, least(), *pods(2, labels=APP))
    name = stand(world, least(), pod(labels=APP))
    assert going(decided(world, pod(select={"non-existent": "label"})).command) == [name]


def test_no_pod_is_left_without_a_node(world: World) -> None:
    one = stand(world, least(), *pods(2, labels=APP, select={"foo": "1"}), labels={"foo": "1"})
    two = stand(world, least(), pod(labels=APP, select={"foo": "2"}), labels={"foo": "2"})
    assert {one, two} == set(world.claims)
    assert decided(world).command is None


def test_the_best_ratio_goes_first(world: World) -> None:
    stand(world, least(), *pods(2, labels=APP))
    second = stand(world, least(), pod(labels=APP))
    assert going(decided(world).command) == [second]


@pytest.mark.parametrize("kind", [ON_DEMAND, SPOT])
def test_three_into_one(world: World, kind: str) -> None:
    names = [stand(world, most(kind), pod(labels=APP)) for _ in range(3)]
    found = decided(world, spot_to_spot=True).command
    assert going(found) == names
    assert found is not None
    assert len(found.replacements) == 1


def test_three_into_one_of_both_kinds(world: World) -> None:
    names = [stand(world, most(kind), pod(labels=APP)) for kind in (ON_DEMAND, ON_DEMAND, SPOT)]
    found = decided(world, spot_to_spot=True).command
    assert going(found) == sorted(names)
    assert found is not None
    assert len(found.replacements) == 1


@pytest.mark.parametrize("kind", [ON_DEMAND, SPOT])
def test_a_replacement_is_cheaper(world: World, kind: str) -> None:
    stand(world, most(kind), pod(labels=APP), room=ALONE)
    found = decided(world, spot_to_spot=True).command
    assert found is not None
    (new,) = found.replacements
    assert most(kind).name not in new.types
    assert found.savings > 0


def test_an_on_demand_node_may_become_spot_only(world: World) -> None:
    stand(world, most(), pod(labels=APP), room=ALONE)
    found = decided(world).command
    assert found is not None
    assert found.replacements[0].requirements[CAPACITY].values == frozenset((SPOT,))


def test_the_cheapest_is_not_replaced(world: World) -> None:
    stand(world, least(), pod(labels=APP), room=ALONE)
    assert decided(world).command is None


def test_not_without_two_replacements(world: World) -> None:
    """Two pods, each of which fills the largest type that is cheaper."""
    stand(world, most(), *pods(2, labels=APP, cpu="31"), room={"cpu": "64", "pods": "5", "memory": "128Gi"})
    world.types = [*(each for each in plain_types() if each.capacity["cpu"] <= 32_000), current_like(most())]
    found = decided(world)
    assert found.command is None
    assert "Can't remove without creating 2 candidates" in told(found)


def current_like(kind: Any) -> Any:
    """The same, but none can be had."""
    labels = kind.offerings[0].labels
    said = {"cpu": str(kind.capacity["cpu"] // 1000), "memory": str(kind.capacity["memory"])}
    sale = OfferingSpec(labels[ZONE], labels[CAPACITY], kind.offerings[0].price, remaining=0)
    return fake.fake_type(kind.name, said, [sale], systems=("linux",))


def test_min_values_are_not_relaxed_for_it(rule: Make) -> None:
    wanted = expression(TYPE, "In", most().name, least().name, least().name + "-x", least=3)
    world = rule(disruptable("default", wanted), types=plain_types(), min_values_policy=BEST_EFFORT)
    stand(world, most(), pod(labels=APP), room=ROOM)
    assert decided(world).command is None


def test_ignored_preferences_let_a_node_go(rule: Make) -> None:
    rather = [preference(1, within(TYPE, most().name))]
    for settings, goes in (({}, False), ({"preference_policy": IGNORE}, True)):
        world = rule(disruptable("default", within(TYPE, most().name, least().name)), types=plain_types(), **settings)
        stand(world, most(), pod(labels=APP, preferred=rather), room=ALONE)
        assert (decided(world).command is not None) == goes


@pytest.mark.parametrize("kind", [ON_DEMAND, SPOT])
def test_into_a_reservation_of_the_same_type(rule: Make, kind: str) -> None:
    old = most(kind)
    labels = old.offerings[0].labels
    said = {"cpu": str(old.capacity["cpu"] // 1000), "memory": str(old.capacity["memory"])}
    price = fake.fake_price(parse_amounts(said))
    sales = [
        OfferingSpec(labels[ZONE], kind, price),
        OfferingSpec(labels[ZONE], RESERVED, price / 1e6, reservation="r-1", reservation_capacity=10),
    ]
    reserved = fake.fake_type(old.name, said, sales, systems=("linux",))
    types = [reserved, *(each for each in plain_types() if each.name != old.name)]
    world = rule(disruptable(), types=types)
    stand(world, reserved, pod(labels=APP), room=ALONE)
    found = decided(world).command
    assert found is not None
    carry_out(world, found)
    (name,) = world.claims
    labels = world.nodes[name]["metadata"]["labels"]
    assert (labels[TYPE], labels[CAPACITY]) == (old.name, RESERVED)
    assert labels["shoal.dev/reservation-id"] == "r-1"


# --- budgets of consolidation ---


def test_three_of_ten(rule: Make) -> None:
    world = rule(disruptable(budgets=[{"nodes": "30%"}]), types=plain_types())
    for _ in range(10):
        stand(world, least(), pod(cpu="100m", labels=APP))
    found = decided(world)
    assert len(going(found.command)) == 3
    assert found.budget_limited


def test_none_of_ten(rule: Make) -> None:
    world = rule(disruptable(budgets=[{"nodes": "0"}]), types=plain_types())
    for _ in range(10):
        stand(world, least(), pod(cpu="100m", labels=APP))
    found = decided(world)
    assert found.command is None
    assert found.budget_limited


@pytest.mark.parametrize(("condition", "count"), [("going", 2), ("not ready", 2), ("terminating", 3), ("", 3)])
def test_what_a_budget_counts(rule: Make, condition: str, count: int) -> None:
    """Thirty per cent of ten, or of nine where one does not count at all."""
    world = rule(disruptable(budgets=[{"nodes": "30%"}]), types=plain_types())
    names = [stand(world, least()) for _ in range(10)]
    if condition == "going":
        world.claims[names[0]]["metadata"]["deletionTimestamp"] = LONG_AGO
    if condition == "not ready":
        world.nodes[names[0]]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    if condition == "terminating":
        world.claims[names[0]]["metadata"]["deletionTimestamp"] = LONG_AGO
        world.claims[names[0]]["status"]["conditions"].append({"type": "InstanceTerminating", "status": "True"})
    assert len(going(decided(world).command)) == count


def at(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("schedule", "duration", "now", "active"),
    [
        ("@daily", "30m", at(2000, 5, 30, 23), False),
        (None, None, NOW, True),
        ("* * * * *", "1h", NOW, True),
        ("@yearly", "1h", at(2026, 6, 1), False),
        ("@yearly", "24h", at(2000, 1, 1, 12), True),
        ("@daily", "48h", at(2024, 1, 7), True),
        ("30 6 * * SUN", "6h", at(2024, 1, 7), False),
        ("30 6 * * SUN", "6h", at(2024, 1, 7, 7), True),
    ],
)
def test_schedules(schedule: str | None, duration: str | None, now: float, active: bool) -> None:
    said = {"schedule": schedule, "duration": duration} if schedule else {}
    assert is_active({"nodes": "1", **said}, now) == active


@pytest.mark.parametrize(
    ("budgets", "count"),
    [
        ([{"nodes": "10"}], 10),
        ([{"nodes": "100%"}], 100),
        ([{"nodes": "10%"}, {"nodes": "5"}], 5),
        ([{"nodes": "1%"}], 1),
        ([{"nodes": "1000a%"}], 0),
        ([{"nodes": "10", "schedule": "@wrongly", "duration": "1h"}], 0),
        ([{"nodes": "10", "schedule": "0 0 * * tue-mon", "duration": "6h"}], 0),
        ([{"nodes": "0", "schedule": "@yearly", "duration": "1h"}], UNBOUNDED),
        ([{"nodes": "7", "reasons": ["Drifted"]}], UNBOUNDED),
        ([], 10),
    ],
    ids=str,
)
def test_one_reason(budgets: list[Object], count: int) -> None:
    found = disruptable(budgets=budgets)
    if not budgets:
        del found["spec"]["disruption"]["budgets"]
    assert budget_limit(found, 100, "Empty", at(2026, 6, 1)) == count


@pytest.mark.parametrize(
    ("annotations", "priority", "relation"),
    [
        ({}, 0, 0),
        ({"controller.kubernetes.io/pod-deletion-cost": "100"}, 0, 1),
        ({"controller.kubernetes.io/pod-deletion-cost": "-100"}, 0, -1),
        ({}, 1, 1),
        ({}, -1, -1),
        ({"controller.kubernetes.io/pod-deletion-cost": "nothing"}, 0, 0),
    ],
    ids=str,
)
def test_what_an_eviction_costs(annotations: dict[str, str], priority: int, relation: int) -> None:
    found = pod(priority=priority)
    found["metadata"]["annotations"] = annotations
    assert (eviction_cost(found) > 1.0) - (eviction_cost(found) < 1.0) == relation


# --- drift ---


def test_drift_goes_on_where_one_cannot(world: World) -> None:
    stand(world, most(), pod(cpu="150"), room={"cpu": "160", "pods": "100"}, drifted="2026-01-01T00:00:00Z")
    second = stand(world, most(), pod(cpu="1"), room={"cpu": "1", "pods": "100"}, drifted="2026-01-02T00:00:00Z")
    found = decide_drift(see(world)).command
    assert going(found) == [second]


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ({"drifted": LONG_AGO}, True),
        ({}, False),
        ({"drifted": LONG_AGO, "annotations": {KEEP: "true"}}, False),
        ({"drifted": LONG_AGO, "annotations": {KEEP: "false"}}, True),
        ({"drifted": LONG_AGO, "conditions": ()}, True),
    ],
    ids=["drifted", "not drifted", "kept", "not kept", "not consolidatable"],
)
def test_one_drifted_node(world: World, more: Object, goes: bool) -> None:
    name = stand(world, most(), pod(labels=APP), room=ALONE, **more)
    found = decide_drift(see(world)).command
    assert going(found) == ([name] if goes else [])
    assert found is None or len(found.replacements) == 1


def test_a_drifted_node_may_be_replaced_by_a_dearer_one(rule: Make) -> None:
    world = rule(disruptable("default", within(TYPE, most().name)), types=plain_types())
    stand(world, least(), pod(labels=APP), room=ALONE, drifted=LONG_AGO)
    found = decide_drift(see(world)).command
    assert found is not None
    assert found.replacements[0].types == (most().name,)


def test_a_drifted_node_may_need_several(rule: Make) -> None:
    old = fake.fake_type("current-on-demand", None, [OfferingSpec("test-zone-1a", ON_DEMAND, 0.5, remaining=0)])
    new = fake.fake_type("replacement", {"cpu": "3"}, [OfferingSpec("test-zone-1a", ON_DEMAND, 0.3)])
    world = rule(disruptable(), types=[old, new])
    stand(world, old, *pods(3, cpu="2", labels=APP), room={"cpu": "8"}, drifted=LONG_AGO)
    found = decide_drift(see(world)).command
    assert found is not None
    assert len(found.replacements) == 3


def test_empty_before_others_then_the_oldest(world: World) -> None:
    large: Object = {"cpu": "30", "labels": APP}
    late = stand(world, most(), pod(**large), room=ALONE, drifted="2026-01-03T00:00:00Z")
    early = stand(world, most(), pod(**large), room=ALONE, drifted="2026-01-02T00:00:00Z")
    bare = stand(world, most(), drifted="2026-01-04T00:00:00Z", conditions=())
    for name in (bare, early, late):
        assert going(decide_drift(see(world)).command) == [name]
        world.claims.pop(name)
        world.nodes.pop(name)


def test_drift_within_its_budget(rule: Make) -> None:
    only = {"nodes": "0", "reasons": ["Drifted"]}
    world = rule(disruptable(budgets=[{"nodes": "100%"}, only]), types=plain_types())
    stand(world, most(), pod(labels=APP), room=ALONE, drifted=LONG_AGO)
    found = decide_drift(see(world))
    assert found.command is None
    assert found.budget_limited


def test_emptiness_before_drift(world: World) -> None:
    empty = stand(world, least())
    stand(world, most(), pod(labels=APP), room=ALONE, drifted=LONG_AGO)
    found = decided(world).command
    assert going(found) == [empty]
    assert found is not None
    assert found.reason == "Empty"


def test_drift_before_consolidation(world: World) -> None:
    stand(world, most(), pod(labels=APP), room=ALONE)
    old = stand(world, least(zone=Z1), pod(labels=APP), room=ALONE, drifted=LONG_AGO)
    found = decided(world).command
    assert going(found) == [old]
    assert found is not None
    assert found.reason == "Drifted"
