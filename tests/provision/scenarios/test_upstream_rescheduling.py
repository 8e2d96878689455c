"""Which pods may be moved, and where to: windows, budgets, pools, as in Karpenter's consolidation suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.provision.disruption.decide import decide, validate_command
from shoal.provision.disruption.model import DisruptionSettings
from tests.provision.scenarios.conftest import Make, plain_types
from tests.provision.scenarios.state_nodes import (
    ALONE,
    NOW,
    carry_out,
    decided,
    disruptable,
    going,
    least,
    most,
    pdb,
    see,
    stand,
)
from tests.provision.scenarios.words import HOST, Z1, Z2, Z3, ZONE, near, pod, pods, spread
from tests.provision.scenarios.world import World

Object = dict[str, Any]
APP = {"app": "test"}
RULE = DisruptionSettings(planner="karpenter")


def busy(world: World, name: str, seconds: float) -> None:
    """A pod came or went so long ago."""
    world.claims[name]["status"]["lastPodEventTime"] = rfc3339(NOW - seconds)


@pytest.mark.parametrize(("ago", "goes"), [(30, False), (120, True)], ids=["inside", "over"])
def test_no_pods_for_a_node_inside_its_window(rule: Make, ago: float, goes: bool) -> None:
    world = rule(disruptable(disruption={"consolidateAfter": "1m"}), types=plain_types())
    there = stand(world, least(), *pods(2, labels=APP), conditions=("Consolidatable",) if goes else ())
    name = stand(world, least(), pod(labels=APP))
    busy(world, there, ago)
    busy(world, name, 600)
    assert going(decided(world).command) == ([name] if goes else [])


def test_a_node_that_is_never_consolidated_takes_pods(rule: Make) -> None:
    never = disruptable("never", disruption={"consolidateAfter": "Never"})
    world = rule(disruptable(), never, types=plain_types())
    name = stand(world, least(), pod(labels=APP))
    there = stand(world, least(), owner="never")
    busy(world, there, 1)
    found = decided(world).command
    assert going(found) == [name]
    assert found is not None
    assert not found.replacements


def test_a_replacement_does_not_wait_for_a_window(rule: Make) -> None:
    world = rule(disruptable(disruption={"consolidateAfter": "1m"}), types=plain_types())
    name = stand(world, most(), pod(labels=APP), room=ALONE)
    busy(world, name, 120)
    found = decided(world).command
    assert going(found) == [name]
    assert found is not None
    assert len(found.replacements) == 1


@pytest.mark.parametrize(
    ("policy", "ready", "goes"),
    [("AlwaysAllow", False, True), ("AlwaysAllow", True, False), ("IfHealthyBudget", False, False)],
)
def test_pods_that_are_not_healthy(rule: Make, policy: str, ready: bool, goes: bool) -> None:
    world = rule(disruptable(), types=plain_types())
    ill = pod(labels=APP)
    name = stand(world, most(), ill, room=ALONE)
    condition = {"type": "Ready", "status": str(ready)}
    world.bound[ill["metadata"]["uid"]]["status"] = {"phase": "Running", "conditions": [condition]}
    budgets = [pdb(APP, 0, unhealthyPodEvictionPolicy=policy)]
    assert going(decided(world, pdbs=budgets).command) == ([name] if goes else [])


def test_a_pool_without_types_is_no_obstacle(rule: Make) -> None:
    world = rule(disruptable(), disruptable("empty"), types=plain_types())
    world.types_of["empty"] = ()
    name = stand(world, most(), pod(labels=APP), room=ALONE)
    assert going(decided(world).command) == [name]


def test_of_several_pools_each_has_its_budget(rule: Make) -> None:
    names = [f"pool{number}" for number in range(5)]
    world = rule(*(disruptable(name, budgets=[{"nodes": "2"}]) for name in names), types=plain_types())
    for name in names:
        for _ in range(3):
            stand(world, least(), pod(cpu="100m", labels=APP), owner=name)
    found = decided(world).command
    assert found is not None
    counts = [sum(each.pool.name == name for each in found.candidates) for name in names]
    assert counts == [2] * 5


def test_rounds_end(rule: Make) -> None:
    """Round after round nothing gets dearer, no pod is lost, and in the end nothing is left to do."""
    world = rule(disruptable(), types=plain_types())
    for size in ("30", "10", "3", "1"):
        stand(world, most(), pod(labels=APP, cpu=size), room={"cpu": "63900m", "memory": "127Gi", "pods": "5"})
    for _ in range(20):
        found = decided(world).command
        if found is None:
            break
        assert found.savings > 0
        carry_out(world, found)
        world.initialize()
        for claim in world.claims.values():
            claim["status"]["conditions"] = [
                {"type": each, "status": "True"} for each in ("Initialized", "Consolidatable")
            ]
            claim["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    else:
        raise AssertionError("it goes on and on")
    assert len(world.bound) == 4


@pytest.mark.parametrize("change", ["", "a pod comes", "it is kept", "nominated", "budget"])
def test_validation(rule: Make, change: str) -> None:
    """A command is carried out only if it still holds after a while."""
    world = rule(disruptable(), types=plain_types())
    name = stand(world, least())
    command = decide(see(world), RULE).command
    assert going(command) == [name]
    assert command is not None
    if change == "a pod comes":
        world.bind(pod(labels=APP), name)
    if change == "it is kept":
        world.nodes[name]["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "true"
    if change == "budget":
        world.pools = [disruptable(budgets=[{"nodes": "0"}])]
    seen = see(world, nominated=[name] if change == "nominated" else ())
    kept, why = validate_command(seen, command, RULE)
    assert (kept is not None) == (change == "")
    assert why == {"": "", "budget": "budget"}.get(change, "churn")


def test_validation_of_a_replacement_that_does_not_do_any_more(rule: Make) -> None:
    world = rule(disruptable(), types=plain_types())
    name = stand(world, most(), pod(labels=APP, cpu="1"), room={"cpu": "64", "pods": "5"})
    command = decide(see(world), RULE).command
    assert command is not None
    assert len(command.replacements) == 1
    assert validate_command(see(world), command, RULE)[0] is not None
    world.bind(pod(labels=APP, cpu="40"), name)
    assert validate_command(see(world), command, RULE) == (None, "scheduling")


# --- the optimiser: the same constraints, and no less is saved ---


def alone(world: World) -> None:
    stand(world, most(), pod(labels=APP), room=ALONE)


def three(world: World) -> None:
    for _ in range(3):
        stand(world, most(), pod(labels=APP))


def several(world: World) -> None:
    """Three into two: what the rule cannot do."""
    for _ in range(3):
        stand(world, most(), pod(labels=APP, cpu="30", memory="8Gi"), room=ALONE)


def by_zone(world: World) -> None:
    asked: Object = {"cpu": "1", "labels": APP, "spreads": [spread(ZONE, labels=APP)]}
    for kind in (least(zone=Z1), most(zone=Z2), least(zone=Z3)):
        stand(world, kind, pod(**asked), room={"cpu": "1"})


def by_host(world: World) -> None:
    for zone in (Z1, Z2, Z3):
        stand(world, least(zone=zone), pod(cpu="1", labels=APP, apart=[near(APP, HOST)]), room={"cpu": "1"})


@pytest.mark.parametrize("build", [alone, three, several, by_zone, by_host])
def test_with_the_optimiser(rule: Make, build: Callable[[World], None]) -> None:
    world = rule(disruptable(), types=plain_types())
    build(world)
    zones, hosts, pods_ = world.skew(ZONE, APP), len(world.claims), len(world.bound)
    by_rule, found = decided(world).command, decided(world, planner="optimal").command
    assert by_rule is None or (found is not None and found.savings >= by_rule.savings - 1e-9)
    if found is None:
        assert build is by_host
        return
    assert found.savings > 0
    carry_out(world, found)
    assert len(world.bound) == pods_
    assert len(world.claims) <= hosts
    if build is by_zone:
        assert world.skew(ZONE, APP) == zones
