"""Consolidation by Karpenter's algorithm and by the solver: savings, and what is not done."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import NODE_POOL_LABEL
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.disruption.budgets import allowed_disruptions
from shoal.provision.disruption.candidates import candidates
from shoal.provision.disruption.consolidation import multi_node_consolidation, single_node_consolidation
from shoal.provision.disruption.decide import decide, decide_consolidation, validate_command
from shoal.provision.disruption.model import Command, DisruptionSettings
from shoal.provision.disruption.repack import repack_candidates, repack_consolidation
from shoal.provision.settings import KARPENTER, OPTIMAL
from tests.provision.catalogue import LARGE, MEDIUM, SMALL, kind, pod, pods, pool
from tests.provision.disruption.fleet import NOW, Fleet, conditions, every, names, pdb

RULE, OURS = DisruptionSettings(planner=KARPENTER), DisruptionSettings(planner=OPTIMAL, solver_iterations=10)
STEPS = tuple(kind(f"c{cpu:02}", cpu, f"{4 * cpu}Gi", 0.02 * cpu + 0.005) for cpu in (1, 2, 3, 4, 6, 8, 12, 16))


def filled(fleet: Fleet, type_: InstanceType, *cpus: str, **more: Any) -> str:
    return fleet.add(type_, [pod(cpu, "64Mi") for cpu in cpus], **more).name


def test_pods_that_fit_elsewhere_leave_a_node_to_go() -> None:
    fleet = Fleet()
    one = filled(fleet, SMALL, "500m")
    filled(fleet, MEDIUM, "500m", "500m", "500m")
    found = single_node_consolidation(fleet.snapshot(), RULE).command
    assert found is not None
    assert (names(found), found.decision, found.method) == ([one], "delete", "single")
    assert found.savings == pytest.approx(0.04)


def test_a_node_is_replaced_by_a_cheaper_one_only() -> None:
    fleet = Fleet()
    one = filled(fleet, LARGE, "1")
    found = single_node_consolidation(fleet.snapshot(), RULE).command
    assert found is not None
    assert names(found) == [one]
    (claim,) = found.replacements
    assert claim.types == ("small", "medium"), "the type it has now costs as much"
    assert claim.name != f"c-{one}"
    fleet.apply(found)
    assert decide(fleet.snapshot(), RULE).command is None


def test_several_go_for_one() -> None:
    fleet = Fleet()
    for _ in range(3):
        filled(fleet, LARGE, "500m")
    found = multi_node_consolidation(fleet.snapshot(), RULE).command
    assert found is not None
    assert (len(found.candidates), len(found.replacements), found.method) == (3, 1, "multi")
    assert set(found.replacements[0].types) == {"small", "medium"}


def test_one_of_the_same_type_stays_rather_than_being_replaced() -> None:
    fleet = Fleet(pool(types=(SMALL,), disruption=every()))
    few = filled(fleet, SMALL, "500m")
    filled(fleet, SMALL, "500m", "500m")
    snapshot = fleet.snapshot()
    assert multi_node_consolidation(snapshot, RULE).command is None
    found = single_node_consolidation(snapshot, RULE).command
    assert names(found) == [few], "the one that disrupts less"


def test_a_node_whose_pods_came_a_moment_ago_is_not_filled_with_others() -> None:
    fleet = Fleet(pool(types=(SMALL,), disruption=every(consolidateAfter="1m")))
    old = filled(fleet, SMALL, "500m")
    fresh = fleet.add(SMALL, [pod("500m")], conditions=conditions("Launched", "Initialized", at=NOW - 30))
    assert decide(fleet.snapshot(), RULE).command is None
    fresh.conditions = conditions("Launched", "Initialized", at=NOW - 61)
    found = decide(fleet.snapshot(), RULE).command
    assert names(found) == [old]


@pytest.mark.parametrize("settings", [RULE, OURS], ids=[KARPENTER, OPTIMAL])
def test_no_plan_counts_on_the_room_of_a_node_within_its_window(settings: DisruptionSettings) -> None:
    fleet = Fleet(pool(disruption=every(consolidateAfter="1m")))
    old = filled(fleet, MEDIUM, "500m")
    young = fleet.add(LARGE, [pod("500m", "64Mi")], conditions=conditions("Launched", "Initialized", at=NOW - 30))
    command = decide_consolidation(fleet.snapshot(), settings).command
    if settings.planner == KARPENTER:
        assert command is not None
        assert command.replacements, f"pods of {old} move to {young.name}"
    else:
        assert command is None, f"a scheduler moves the pods of {old} to {young.name}, whatever is bought for them"
    assert names(decide_consolidation(fleet.snapshot(NOW + 31), settings).command)


def test_nothing_goes_on_the_strength_of_a_node_that_is_not_up_yet() -> None:
    fleet = Fleet(pool(types=(MEDIUM,), disruption=every()))
    filled(fleet, MEDIUM, "500m")
    snapshot = fleet.snapshot()
    coming = fleet.add(MEDIUM, name="coming").place()
    coming.kind, coming.initialized = "NodeClaim", False
    fleet.nodes.pop()
    snapshot = replace(
        snapshot, inputs=replace(snapshot.inputs, existing_nodes=[*snapshot.inputs.existing_nodes, coming])
    )
    found = single_node_consolidation(snapshot, RULE)
    assert found.command is None
    assert "would schedule against uninitialized nodeclaim/coming" in found.notes[0].message


def test_pdbs_and_kept_pods_keep_nodes_out_of_every_plan() -> None:
    fleet = Fleet()
    for app in ("a", "b", "c"):
        fleet.add(LARGE, [pod("500m", labels={"app": app})], name=app)
    fleet.pdbs = [pdb({"app": "b"}, 0)]
    for settings in (RULE, OURS):
        found = decide(fleet.snapshot(), settings).command
        assert found is not None
        assert "b" not in names(found)


@pytest.mark.parametrize(("policy", "goes"), [("Balanced", False), ("WhenEmptyOrUnderutilized", True)])
def test_balanced_wants_its_share_saved(policy: str, goes: bool) -> None:
    """One node of two, with nearly all the pods, for a little cheaper."""
    nearly = kind("nearly", 16, "64Gi", 0.29)
    fleet = Fleet(pool(types=(LARGE, nearly), disruption=every(consolidationPolicy=policy)))
    fleet.add(LARGE, [pod("500m", "64Mi") for _ in range(30)])
    filled(fleet, nearly, *["4"] * 4)
    assert (single_node_consolidation(fleet.snapshot(), RULE).command is not None) == goes


def spot(name: str, price: float) -> InstanceType:
    labels = {"node.kubernetes.io/instance-type": name, "topology.kubernetes.io/zone": "a"}
    offering = Offering(f"default/{name}", {**labels, "karpenter.sh/capacity-type": "spot"}, price)
    return InstanceType(name, dict(SMALL.capacity), dict(SMALL.allocatable), (offering,))


def test_spot_for_spot() -> None:
    types = tuple(spot(f"t{number:02}", 1.0 + 0.1 * number) for number in range(18))
    fleet = Fleet(pool(types=types, disruption=every()))
    fleet.add(types[17], [pod("500m")], capacity_type="spot")
    found = single_node_consolidation(fleet.snapshot(), RULE)
    assert found.command is None
    assert "SpotToSpotConsolidation is disabled" in found.notes[0].message
    gate = replace(RULE, spot_to_spot_consolidation=True)
    command = single_node_consolidation(fleet.snapshot(), gate).command
    assert command is not None
    assert command.replacements[0].types == tuple(f"t{number:02}" for number in range(15))
    fleet = Fleet(pool(types=types, disruption=every()))
    fleet.add(types[14], [pod("500m")], capacity_type="spot")
    found = single_node_consolidation(fleet.snapshot(), gate)
    assert found.command is None
    assert "requires 15 cheaper instance type options than the current candidate to consolidate, got 14" in (
        found.notes[0].message
    )


def test_validation_holds_to_what_was_decided() -> None:
    fleet = Fleet()
    for _ in range(3):
        filled(fleet, LARGE, "500m")
    command = multi_node_consolidation(fleet.snapshot(), RULE).command
    assert command is not None
    again, why = validate_command(fleet.snapshot(), command, RULE)
    assert again is not None, why
    fleet.nodes[0].nominated = True
    assert validate_command(fleet.snapshot(), command, RULE) == (None, "churn")
    fleet.nodes[0].nominated = False
    fleet.pools = [pool(disruption=every("2"))]
    assert validate_command(fleet.snapshot(), command, RULE) == (None, "budget")
    fleet.pools = [pool(disruption=every())]
    filled(fleet, LARGE)
    assert validate_command(fleet.snapshot(), command, RULE) == (None, "scheduling"), (
        "now they fit on one that is there"
    )


def test_empty_nodes_are_validated_one_by_one() -> None:
    fleet = Fleet()
    stays, goes = fleet.add(SMALL), fleet.add(SMALL)
    command = decide(fleet.snapshot(), RULE).command
    assert command is not None
    assert len(command.candidates) == 2
    fleet.bind(pod(), stays)
    again, _ = validate_command(fleet.snapshot(), command, RULE)
    assert names(again) == [goes.name]


def test_three_go_for_two_that_cost_less() -> None:
    """What the rule refuses: no one node holds the pods of all three for less."""
    types = (kind("four", 4, "16Gi", 0.10), kind("five", 5, "20Gi", 0.14))
    fleet = Fleet(pool(types=types, disruption=every()))
    for _ in range(3):
        filled(fleet, types[0], "1500m", "1500m")
    assert decide(fleet.snapshot(), RULE).command is None
    found = repack_candidates(fleet.snapshot(), candidates(fleet.snapshot())[0], OURS)
    assert found is not None
    assert (len(found.candidates), len(found.replacements)) == (3, 2)
    assert found.savings == pytest.approx(3 * 0.10 - 2 * 0.14)
    assert names(decide(fleet.snapshot(), OURS).command) == names(found)


def test_a_change_of_price_moves_nodes() -> None:
    fleet = Fleet()
    for _ in range(2):
        filled(fleet, MEDIUM, "1", "1", "1", "1")
    assert decide(fleet.snapshot(), OURS).command is None
    fleet.priced(lambda each: 0.6 if each.name == "medium" else 0.04 if each.name == "small" else 0.3)
    rounds = settle(fleet, OURS)
    assert rounds
    assert not any(node.kind.name == "medium" for node in fleet.nodes)


def settle(fleet: Fleet, settings: DisruptionSettings, choose: Any = None, rounds: int = 100) -> list[Command]:
    """Until nothing is left to do; what was done."""
    done: list[Command] = []
    for _ in range(rounds):
        snapshot = fleet.snapshot()
        command = decide(snapshot, settings).command
        if command is None:
            return done
        may = allowed_disruptions(snapshot, command.reason)
        taken = [each.pool.name for each in command.candidates]
        assert all(taken.count(name) <= may[name] for name in taken)
        before = fleet.cost
        fleet.apply(command, choose or (lambda types: types[0]))
        assert fleet.cost < before - 1e-12, "no step may make the cluster dearer, so none can be undone"
        done.append(command)
    raise AssertionError(f"after {rounds} rounds there is still something to do")


def scattered(seed: int, nodes: int = 10) -> Fleet:
    """Nodes bought for more pods than there are now."""
    dice = random.Random(seed)
    fleet = Fleet(pool(types=STEPS, disruption=every()))
    for _ in range(nodes):
        type_ = dice.choice(STEPS[2:])
        left, there = type_.allocatable["cpu"], []
        while True:
            cpu = dice.choice((250, 500, 1000, 1500, 2000))
            if cpu > left:
                break
            left -= cpu
            if dice.random() < 0.5:
                there.append(pod(f"{cpu}m", "128Mi"))
        fleet.add(type_, there)
    return fleet


def test_it_comes_to_rest_and_costs_no_more_than_by_the_rule() -> None:
    """A step is never worse; where many steps lead depends on the first, so it is the sum that is compared."""
    ruled, ours = 0.0, 0.0
    for seed in range(3):
        by_rule, by_us = scattered(seed, nodes=7), scattered(seed, nodes=7)
        settle(by_rule, RULE)
        settle(by_us, OURS)
        ruled, ours = ruled + by_rule.cost, ours + by_us.cost
        assert decide_consolidation(by_us.snapshot(), OURS).command is None
    assert ours <= ruled + 1e-9


@pytest.mark.parametrize("seed", range(2))
def test_it_comes_to_rest_whatever_types_are_got(seed: int) -> None:
    dice = random.Random(seed)
    fleet = scattered(seed + 100, nodes=6)
    settle(fleet, OURS, choose=lambda types: dice.choice(types))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_it_comes_to_rest_with_prices_and_pods_that_change(seed: int) -> None:
    """A hundred rounds: between changes every step makes the cluster cheaper, and none is left after a few."""
    dice = random.Random(seed)
    fleet = scattered(seed, nodes=12)
    rounds = 0
    while rounds < 100:
        rounds += 1 + len(settle(fleet, OURS, choose=lambda types: dice.choice(types)))
        by_name = {each.name: each.offerings[0].price * dice.uniform(0.8, 1.25) for each in fleet.pools[0].types}
        fleet.priced(lambda each: by_name[each.name])  # noqa: B023
        for node in fleet.nodes:
            node.pods = [each for each in node.pods if dice.random() < 0.9]


def test_one_step_is_never_worse_than_the_rules() -> None:
    fleet = scattered(7)
    snapshot = fleet.snapshot()
    rule = multi_node_consolidation(snapshot, RULE)
    ours = repack_consolidation(snapshot, OURS, rule).command
    assert ours is not None
    assert rule.command is None or ours.savings >= rule.command.savings * 0.8


def test_a_small_saving_moves_no_pods() -> None:
    nearly = kind("nearly", 16, "64Gi", 0.299)
    fleet = Fleet(pool(types=(LARGE, nearly), disruption=every()))
    for _ in range(2):
        fleet.add(LARGE, pods(28, "500m", "64Mi"))
    assert repack_candidates(fleet.snapshot(), candidates(fleet.snapshot())[0], OURS) is None


def test_no_more_pods_are_moved_than_allowed() -> None:
    fleet = scattered(3)
    few = replace(OURS, max_pods=4)
    command = repack_consolidation(
        fleet.snapshot(), few, replace(multi_node_consolidation(fleet.snapshot(), RULE), command=None)
    ).command
    assert command is not None
    assert command.pods_moved <= 4


def test_nodes_of_other_pools_keep_to_theirs() -> None:
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    red = pool("red", disruption=every(), template={"taints": [taint]})
    fleet = Fleet(pool(disruption=every()), red)
    tolerations = [{"key": "team", "operator": "Exists"}]
    fleet.add(LARGE, [pod("500m", tolerations=tolerations, nodeSelector={NODE_POOL_LABEL: "red"})], pool="red")
    filled(fleet, LARGE, "500m")
    settle(fleet, OURS)
    assert sorted((node.pool, node.kind.name) for node in fleet.nodes) == [("default", "small"), ("red", "small")]
