"""The verification of a plan finds every kind of error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from shoal.fit.requirements import IN, requirement
from shoal.provision.simulation.model import NewClaim, Plan, Question
from shoal.provision.simulation.rule import simulate
from shoal.provision.solver.adapting import improve
from shoal.provision.solver.verify import broken, problems
from tests.provision.catalogue import kind, pods, pool
from tests.provision.simulation.test_same_as_plain import HOST, REQUIRED, ZONE
from tests.provision.solver.test_adapting import TYPES

Object = dict[str, Any]
TYPE = "node.kubernetes.io/instance-type"


def question() -> Question:
    apart = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}]}}
    some = [
        *pods(8, "900m", "1Gi"),
        *pods(2, "100m", "1Gi", labels={"app": "x"}, affinity=apart),
        *pods(2, "800m", "1Gi", nodeSelector={ZONE: "b"}),
    ]
    limits = {"cpu": "40"}
    return Question(some, pools=[pool(types=(*TYPES, kind("scarce", 4, "16Gi", 0.2, room=1)), limits=limits)])


@cache
def planned() -> tuple[Question, Plan, Plan]:
    """With the rule's plan and the solver's."""
    asked = question()
    rule = simulate(asked)
    plan, _ = improve(asked, rule, iterations=40)
    assert plan is not rule
    assert len(plan.claims) > 2
    assert broken(asked, rule, plan) == ""
    return asked, rule, plan


def changed(plan: Plan, number: int, **more: Any) -> Plan:
    claims = list(plan.claims)
    claims[number] = replace(claims[number], **more)
    return replace(plan, claims=tuple(claims))


def on(plan: Plan, is_it: Callable[[NewClaim], bool]) -> int:
    return next(number for number, claim in enumerate(plan.claims) if is_it(claim))


def _merged(plan: Plan) -> Plan:
    one, other, *rest = sorted(
        plan.claims, key=lambda claim: -sum(bool(each["metadata"]["labels"]) for each in claim.pods)
    )
    both = replace(one, pods=(*one.pods, *other.pods), price=plan.cost)
    return replace(plan, claims=(both, *rest))


def _in_zone(plan: Plan) -> Plan:
    number = on(plan, lambda claim: any("nodeSelector" in each["spec"] for each in claim.pods))
    elsewhere = plan.claims[number].requirements.without(ZONE).add([requirement(ZONE, IN, ["a"])])
    return changed(plan, number, requirements=elsewhere)


WRONG: dict[str, tuple[Callable[[Plan], Plan], str]] = {
    "lost": (lambda plan: replace(plan, claims=plan.claims[1:]), "not the same pods have new nodes"),
    "twice": (lambda plan: replace(plan, claims=(*plan.claims, plan.claims[0])), "not the same pods have new nodes"),
    "names": (lambda plan: changed(plan, 0, name=plan.claims[1].name), "two claims have one name"),
    "failed": (lambda plan: replace(plan, failures=(({}, "no"),)), "pods without a new node are not what they were"),
    "taints": (
        lambda plan: changed(plan, 0, taints=({"key": "k", "effect": "NoSchedule"},)),
        "has no nodes with its taints",
    ),
    "types": (lambda plan: changed(plan, 0, types=("huge",)), "type huge is not one of the NodePool"),
    "room": (
        lambda plan: changed(
            plan,
            0,
            types=("scarce",),
            requirements=plan.claims[0].requirements.without(TYPE, ZONE).add([requirement(ZONE, IN, ["nowhere"])]),
        ),
        "type scarce cannot be had for it",
    ),
    "small": (
        lambda plan: changed(plan, on(plan, lambda claim: len(claim.pods) > 2), types=("small",)),
        "type small does not hold its pods",
    ),
    "price": (lambda plan: changed(plan, 0, price=0.001), "it is not to be had for 0.001"),
    "hosts": (_merged, "more than 1 pods of topology"),
    "zone": (_in_zone, f"wants {ZONE} In [b]"),
    "cost": (lambda plan: changed(plan, 0, price=9.0), "it costs 9."),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    asked, rule, plan = planned()
    change, said = WRONG[name]
    assert any(said in each for each in problems(asked, rule, change(plan)))


def test_limits_are_counted_by_the_largest_type() -> None:
    asked, rule, plan = planned()
    wide = replace(plan, claims=tuple(_any_type(each, (*each.types, "large")) for each in plan.claims))
    assert "NodePool default has a limit of 40000 cpu" in broken(asked, rule, wide)


def test_only_so_many_machines() -> None:
    types = (kind("one", 4, "16Gi", 0.09, room=1), kind("big", 16, "64Gi", 0.5))
    asked = Question(pods(6, "900m", "1Gi"), pools=[pool(types=types)])
    rule = simulate(asked)
    halves = [
        replace(_any_type(rule.claims[0], ("one",)), name=f"half-{at}", pods=rule.claims[0].pods[at::2], price=0.09)
        for at in range(2)
    ]
    assert broken(asked, rule, replace(rule, claims=tuple(halves))) == "there are not enough machines for claim half-1"


def _any_type(claim: NewClaim, types: tuple[str, ...]) -> NewClaim:
    return replace(claim, types=types, requirements=claim.requirements.without(TYPE))


def test_who_was_not_to_be_moved() -> None:
    asked = Question(pods(8, "900m", "1Gi"), pools=[pool(types=TYPES)])
    rule = simulate(asked)
    plan, _ = improve(asked, rule, iterations=40)
    bound = {uid: replace(ask, bound=True) for uid, ask in plan.asks.items()}
    assert "was not to be moved" in broken(asked, rule, replace(plan, asks=bound))
    assert broken(asked, rule, replace(rule, asks=bound)) == ""
