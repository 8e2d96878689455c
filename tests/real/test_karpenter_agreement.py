"""Karpenter's rule as Shoal has it decides what Karpenter's own scheduler decides, question by question.

Topology is left out: where several domains are as good, Karpenter throws dice.
"""

from __future__ import annotations

import random
import subprocess
from typing import Any

import orjson
import pytest

from shoal.fit.resources import parse_amounts
from shoal.kinds.karpenter.karpenter import nodepool_weight
from shoal.provision.simulation.model import NodePoolInput, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.simulator.fake import fake_types, increasing_fake_types
from tests.provision.scenarios.words import (
    ARCH,
    CAPACITY,
    DEFAULT,
    ON_DEMAND,
    SMALL,
    SPOT,
    TYPE,
    Z1,
    Z2,
    Z3,
    ZONE,
    absent,
    expression,
    outside,
    pod,
    pool,
    preference,
    taint,
    term,
    there,
    tolerate,
    within,
)
from tests.real.building import built

Object = dict[str, Any]

QUESTIONS, INCREASING = 400, 20
WISHES = (
    *(outside(ZONE, Z1), within(ARCH, "amd64"), within(ARCH, "arm64"), within(TYPE, DEFAULT, SMALL)),
    *(outside(TYPE, SMALL), expression("integer", "Gt", "3"), there("special"), absent("special")),
    *(within(CAPACITY, SPOT), within(CAPACITY, ON_DEMAND), there("team"), within("team", "x")),
)
LIKED = (within(ZONE, Z1), within(ZONE, "bad"), within(CAPACITY, ON_DEMAND))
LIMITS = ({"cpu": "10"}, {"cpu": "20"}, {"cpu": "40", "memory": "40Gi"})


def kind_of_pod(dice: random.Random) -> Object:
    found: Object = {}
    if dice.random() < 0.8:
        found["cpu"] = dice.choice(["100m", "500m", "1", "1.5", "2", "3", "3.5"])
    if dice.random() < 0.7:
        found["memory"] = dice.choice(["100Mi", "500Mi", "1Gi", "1.9Gi", "3Gi"])
    wish = dice.random()
    if wish < 0.15:
        found["select"] = {ZONE: dice.choice([Z1, Z2, Z3])}
    elif wish < 0.3:
        found["required"] = [dice.choice(WISHES)]
    elif wish < 0.4:
        found["terms"] = [term(within(ZONE, "bad")), term(dice.choice([within(ZONE, Z2), within(TYPE, "bad")]))]
    if dice.random() < 0.2:
        found["preferred"] = [preference(dice.choice([1, 50]), dice.choice(LIKED)) for _ in range(dice.choice([1, 2]))]
    if dice.random() < 0.15:
        found["ports"] = [dice.choice([80, 81])]
    if dice.random() < 0.2:
        found["tolerations"] = [tolerate("t", "v")]
    return found


def some_pool(dice: random.Random, number: int) -> Object:
    requirements, more = [], dict[str, Any]()
    if dice.random() < 0.3:
        requirements.append(within(ZONE, *dice.sample([Z1, Z2, Z3], 2)))
    if dice.random() < 0.2:
        requirements.append(within(CAPACITY, dice.choice([SPOT, ON_DEMAND])))
    if dice.random() < 0.2:
        requirements.append(within("team", *dice.sample("xyz", 2)))
    if dice.random() < 0.15:
        requirements.append(expression(TYPE, "Exists", least=2))
    if dice.random() < 0.4:
        more["weight"] = dice.choice([1, 10, 50])
    if dice.random() < 0.25:
        more["template"] = {"taints": [taint("t", "v", dice.choice(["NoSchedule", "PreferNoSchedule"]))]}
    if dice.random() < 0.2:
        more["limits"] = dice.choice(LIMITS)
    return pool(f"pool{number}", *requirements, **more)


def question(seed: int) -> Object:
    dice = random.Random(seed)
    pools = [some_pool(dice, number) for number in range(dice.choice([1, 1, 2, 3]))]
    pools.sort(key=lambda each: each["metadata"]["name"], reverse=True)
    pools.sort(key=nodepool_weight, reverse=True)
    kinds = [kind_of_pod(dice) for _ in range(dice.choice([1, 2, 4, 8]))]
    asked = [pod(**dice.choice(kinds)) for _ in range(dice.choice([1, 3, 6, 10, 20]))]
    return {"increasing": dice.choice([0, 0, INCREASING]), "pools": pools, "pods": asked}


def answer(asked: Object) -> Object:
    types = increasing_fake_types(INCREASING) if asked["increasing"] else fake_types()
    pools = [
        NodePoolInput(each, types, {"nodes": 0}, parse_amounts(each["spec"].get("limits"))) for each in asked["pools"]
    ]
    plan = simulate(SchedulingInput(tuple(asked["pods"]), node_pools=tuple(pools)))
    claims = [
        {"pool": each.pool, "types": list(each.types), "pods": [one["metadata"]["name"] for one in each.pods]}
        for each in plan.new_node_claims
    ]
    return {
        "claims": claims,
        "failures": [one["metadata"]["name"] for one, _ in (*plan.failures, *plan.awaiting_reservation)],
    }


def compared(found: Object) -> tuple[list[Any], list[str]]:
    """Which of two equal pods went where is not told: Karpenter's order of claims with as many pods is any."""
    claims = [(each["pool"], sorted(each["types"]), len(each["pods"])) for each in found["claims"]]
    return sorted(claims), sorted(found["failures"])


@pytest.mark.real
def test_the_same_claims_with_the_same_types_and_as_many_pods() -> None:
    program = built("karpenter")
    if program is None:
        pytest.skip("karpenter (not built)")
    questions = [question(seed) for seed in range(QUESTIONS)]
    done = subprocess.run([program], input=orjson.dumps(questions), capture_output=True, check=True)
    for seed, (asked, its) in enumerate(zip(questions, orjson.loads(done.stdout), strict=True)):
        assert compared(answer(asked)) == compared(its), f"question {seed}"
