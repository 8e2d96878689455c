"""Pods of several sizes: although the scheduler places them in its own way, the fleet converges at a price near the
minimum.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.provision.disruption.consolidation import single_node_consolidation
from shoal.provision.disruption.kube_scheduler_model import place_pods, room_of_node
from shoal.provision.disruption.model import DisruptionSettings
from shoal.provision.disruption.savings_check import BASE_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, SavingsTracker
from shoal.provision.settings import KARPENTER
from tests.provision.catalogue import kind, pod, pool
from tests.provision.disruption.fleet import Fleet, every, names
from tests.provision.disruption.scheduled import TYPES, Scheduled
from tests.provision.disruption.stage import DEPLOYMENTS, LONG_STEP, Stage, stage
from tests.provision.hosted import SIZES, deployment

MIXED = {("500m", "1Gi"): 25, ("1", "3Gi"): 15, ("1500m", "10Gi"): 10}
QUIET = 100.0
"""Longer than the first pause after something that was in vain, and all that follows it."""
BOUND = 42.5 * 0.048
"""They ask for 4 GiB for each CPU in all, and so much of it is nowhere cheaper."""


@pytest.mark.parametrize("seed", [1, 3])
def test_pods_of_several_sizes_come_to_rest_near_the_bound(seed: int) -> None:
    dice = random.Random(seed)
    types = [name for name in TYPES if name.startswith("general") or name.endswith("16")]
    given = Scheduled()
    given.scatter(MIXED, [dice.choice(types) for _ in range(36)], seed)
    before = given.fleet.cost
    commands = given.rest(most=40)
    assert sum(len(node.pods) for node in given.fleet.nodes) == sum(MIXED.values())
    assert given.bought == [], "what was foreseen is what the scheduler did"
    assert given.fleet.cost == pytest.approx(before - sum(each.savings for each in commands))
    assert given.fleet.cost <= 1.05 * BOUND


def test_pods_of_one_size_need_nothing_but_the_bound() -> None:
    given = Scheduled()
    given.scatter({("1", "2Gi"): 32}, ["general-16"] * 12 + ["compute-16"] * 8, seed=3)
    given.rest(most=20)
    assert given.bought == []
    assert given.fleet.cost == pytest.approx(32 * 0.0425)


@pytest.mark.anyio
async def test_the_loops_come_to_rest_with_pods_of_several_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = ("compute-2", "general-2", "general-4", "memory-4")
    for name in sizes:
        cpu, memory = (TYPES[name].allocatable[each] for each in ("cpu", "memory"))
        price = f"{TYPES[name].offerings[0].price:g}"
        monkeypatch.setitem(SIZES, name, (str(cpu // 1000), f"{memory // 2**30}Gi", price))
    many, few = {"front": 24, "back": 16, "cache": 8}, {"front": 6, "back": 4, "cache": 2}
    asked = dict(zip(many, MIXED, strict=True))
    async with stage(tmp_path, sizes) as found:
        await found.pool(disruption=every("50%"))
        for name, replicas in many.items():
            wanted = deployment(name, replicas, asked[name][0])
            requests = wanted["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
            requests["memory"] = asked[name][1]
            await found.hosted.create(DEPLOYMENTS, wanted, "default")
        await found.running(sum(many.values()))
        for name, replicas in few.items():
            await found.hosted.merge_patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, "default")
        await found.running(sum(few.values()))
        # At 0.037 for a CPU and 0.00275 for a GiB no type is worth more than it costs.
        least = 10 * 0.037 + 38 * 0.00275
        unchanged = Unchanged(found)

        async def rests() -> bool:
            """The clock of the test can be quicker than a solver on a busy machine: rest at a high price is none."""
            # A node more or less is a fifth of it, and what the scheduler does depends on which pod comes first.
            return await unchanged() and await cost(found) <= 2 * least

        await found.until(rests, LONG_STEP)
        await found.running(sum(few.values()))
        assert await cost(found) >= least


async def cost(found: Stage) -> float:
    return sum(float(SIZES[name][2]) for name in await found.types())


class Unchanged:
    """Whether no NodeClaim has come, gone or begun to go for a while."""

    def __init__(self, found: Stage) -> None:
        self._found, self._since = found, found.given.clock.now()
        self._seen: set[tuple[str, bool]] = set()

    async def __call__(self) -> bool:
        now = self._found.given.clock.now()
        metadata = [each["metadata"] for each in await self._found.claims()]
        there = {(each["uid"], "deletionTimestamp" in each) for each in metadata}
        if there != self._seen:
            self._seen, self._since = there, now
        return now >= self._since + QUIET


def crossed() -> Fleet:
    """The rule takes nodes by name, and all fits. The scheduler puts the first pod on the roomier node, where the
    second one would have to go."""
    wide, flat, tiny = kind("wide", 2, "8Gi", 0.2), kind("flat", 4, "8Gi", 0.2), kind("tiny", 2, "8Gi", 0.1)
    fleet = Fleet(pool(types=(wide, flat, tiny), disruption=every()))
    kept = {"karpenter.sh/do-not-disrupt": "true"}
    fleet.add(flat, [pod("3", "6Gi")], name="a", claim_annotations=kept)
    fleet.add(wide, [pod("1", "1Gi")], name="b", claim_annotations=kept)
    fleet.add(tiny, [pod("1", "1Gi"), pod("900m", "6Gi")], name="c")
    return fleet


def test_a_plan_that_the_scheduler_would_not_find_is_no_plan() -> None:
    fleet = crossed()
    snapshot = fleet.snapshot()
    assert names(single_node_consolidation(snapshot, DisruptionSettings(planner=KARPENTER)).command) == ["c"]
    found = single_node_consolidation(snapshot, DisruptionSettings())
    assert found.command is None
    assert "Not all pods would schedule on the planned nodes" in [note.message for note in found.notes]
    places = [place for place in snapshot.inputs.existing_nodes if place.name != "c"]
    went, left = place_pods(fleet.nodes[2].pods, map(room_of_node, places))
    assert list(went.values()) == ["b"]
    assert [each["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in left] == ["900m"]


def test_what_has_to_be_bought_besides_is_taken_off_what_is_saved() -> None:
    fleet = crossed()
    dear = replace(fleet.nodes[2], kind=kind("tiny", 2, "8Gi", 0.5))
    fleet.nodes[2] = dear
    fleet.priced(lambda each: 0.5 if each.name == "tiny" else 0.2)
    found = single_node_consolidation(fleet.snapshot(), DisruptionSettings()).command
    assert found is not None
    assert names(found) == ["c"]
    assert found.extra_cost == pytest.approx(0.2)
    assert found.savings == pytest.approx(0.3)


def test_commands_that_came_to_nothing_are_followed_by_longer_and_longer_pauses() -> None:
    hopes = SavingsTracker()
    hopes.start(2.0, 50, 0.1, ["a", "b"])
    hopes.expect_claims(["c"])
    assert not hopes.has_unexpected_claims(["a", "b", "c"])
    assert hopes.has_unexpected_claims(["a", "c", "bought"])
    assert hopes.check_failed(2.0, 50)
    assert hopes.record_failure() == BASE_BACKOFF_SECONDS
    # Down, but only to where it was before: that is no reason to try more often.
    hopes.start(2.1, 50, 0.1, [])
    assert not hopes.check_failed(2.0, 50)
    hopes.start(2.0, 50, 0.1, [])
    assert hopes.check_failed(2.1, 50)
    assert hopes.record_failure() == 2 * BASE_BACKOFF_SECONDS
    hopes.start(2.1, 50, 0.3, [])
    assert not hopes.check_failed(1.9, 50)
    assert hopes.failures == 0
    for _ in range(20):
        longest = hopes.record_failure()
    assert longest == MAX_BACKOFF_SECONDS


def test_commands_are_judged_together_and_only_for_the_pods_they_were_for() -> None:
    hopes = SavingsTracker()
    hopes.start(3.0, 50, 0.4, [])
    hopes.start(2.6, 50, 0.4, [])
    assert hopes.check_failed(2.7, 50), "one of both was undone"
    hopes.start(3.0, 50, 0.4, [])
    assert not hopes.check_failed(3.5, 60), "more pods came"
    assert not hopes.check_failed(9.9, 60), "nothing is hoped for"
