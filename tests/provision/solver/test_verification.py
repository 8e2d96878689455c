"""The verification of a plan finds every kind of error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from shoal.fit.requirements import IN, new_requirement
from shoal.provision.simulation.model import NewNodeClaim, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.solver.optimize import improve
from shoal.provision.solver.verification import first_error, verification_errors
from tests.provision.catalogue import kind, pods, pool
from tests.provision.simulation.test_reference_equivalence import HOST, REQUIRED, ZONE
from tests.provision.solver.test_optimize import TYPES

Object = dict[str, Any]
TYPE = "node.kubernetes.io/instance-type"


def question() -> SchedulingInput:
    apart = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}]}}
    some = [
        *pods(8, "900m", "1Gi"),
        *pods(2, "100m", "1Gi", labels={"app": "x"}, affinity=apart),
        *pods(2, "800m", "1Gi", nodeSelector={ZONE: "b"}),
    ]
    limits = {"cpu": "40"}
    return SchedulingInput(
        some, node_pools=[pool(types=(*TYPES, kind("scarce", 4, "16Gi", 0.2, room=1)), limits=limits)]
    )


@cache
def planned() -> tuple[SchedulingInput, Results, Results]:
    """With the rule's plan and the solver's."""
    asked = question()
    rule = simulate(asked)
    plan, _ = improve(asked, rule, iterations=40)
    assert plan is not rule
    assert len(plan.new_node_claims) > 2
    assert first_error(asked, rule, plan) == ""
    return asked, rule, plan


def changed(plan: Results, number: int, **more: Any) -> Results:
    claims = list(plan.new_node_claims)
    claims[number] = replace(claims[number], **more)
    return replace(plan, new_node_claims=tuple(claims))


def on(plan: Results, is_it: Callable[[NewNodeClaim], bool]) -> int:
    return next(number for number, claim in enumerate(plan.new_node_claims) if is_it(claim))


def _merged(plan: Results) -> Results:
    one, other, *rest = sorted(
        plan.new_node_claims, key=lambda claim: -sum(bool(each["metadata"]["labels"]) for each in claim.pods)
    )
    both = replace(one, pods=(*one.pods, *other.pods), price=plan.cost)
    return replace(plan, new_node_claims=(both, *rest))


def _in_zone(plan: Results) -> Results:
    number = on(plan, lambda claim: any("nodeSelector" in each["spec"] for each in claim.pods))
    elsewhere = plan.new_node_claims[number].requirements.without(ZONE).add([new_requirement(ZONE, IN, ["a"])])
    return changed(plan, number, requirements=elsewhere)


WRONG: dict[str, tuple[Callable[[Results], Results], str]] = {
    "lost": (
        lambda plan: replace(plan, new_node_claims=plan.new_node_claims[1:]),
        "the set of pods on new nodes differs",
    ),
    "twice": (
        lambda plan: replace(plan, new_node_claims=(*plan.new_node_claims, plan.new_node_claims[0])),
        "the set of pods on new nodes differs",
    ),
    "names": (lambda plan: changed(plan, 0, name=plan.new_node_claims[1].name), "two claims have the same name"),
    "failed": (lambda plan: replace(plan, failures=(({}, "no"),)), "pods without a new node differ"),
    "taints": (
        lambda plan: changed(plan, 0, taints=({"key": "k", "effect": "NoSchedule"},)),
        "has no template with its taints",
    ),
    "types": (lambda plan: changed(plan, 0, types=("huge",)), "type huge does not belong to the NodePool"),
    "room": (
        lambda plan: changed(
            plan,
            0,
            types=("scarce",),
            requirements=plan.new_node_claims[0]
            .requirements.without(TYPE, ZONE)
            .add([new_requirement(ZONE, IN, ["nowhere"])]),
        ),
        "type scarce has no offering for it",
    ),
    "small": (
        lambda plan: changed(plan, on(plan, lambda claim: len(claim.pods) > 2), types=("small",)),
        "type small has too few resources for its pods",
    ),
    "price": (lambda plan: changed(plan, 0, price=0.001), "it has no offering at price 0.001"),
    "hosts": (_merged, "more than 1 pods of topology"),
    "zone": (_in_zone, f"requires {ZONE} In [b]"),
    "cost": (lambda plan: changed(plan, 0, price=9.0), "it costs 9."),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    asked, rule, plan = planned()
    change, said = WRONG[name]
    assert any(said in each for each in verification_errors(asked, rule, change(plan)))


def test_limits_are_counted_by_the_largest_type() -> None:
    asked, rule, plan = planned()
    wide = replace(
        plan, new_node_claims=tuple(_any_type(each, (*each.types, "large")) for each in plan.new_node_claims)
    )
    assert "NodePool default exceeds its limit of 40000 cpu" in first_error(asked, rule, wide)


def test_only_so_many_machines() -> None:
    types = (kind("one", 4, "16Gi", 0.09, room=1), kind("big", 16, "64Gi", 0.5))
    asked = SchedulingInput(pods(6, "900m", "1Gi"), node_pools=[pool(types=types)])
    rule = simulate(asked)
    halves = [
        replace(
            _any_type(rule.new_node_claims[0], ("one",)),
            name=f"half-{at}",
            pods=rule.new_node_claims[0].pods[at::2],
            price=0.09,
        )
        for at in range(2)
    ]
    assert (
        first_error(asked, rule, replace(rule, new_node_claims=tuple(halves)))
        == "limited offerings are insufficient for claim half-1"
    )


def _any_type(claim: NewNodeClaim, types: tuple[str, ...]) -> NewNodeClaim:
    return replace(claim, types=types, requirements=claim.requirements.without(TYPE))


def test_who_was_not_to_be_moved() -> None:
    asked = SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES)])
    rule = simulate(asked)
    plan, _ = improve(asked, rule, iterations=40)
    bound = {uid: replace(ask, fixed_to_claim=True) for uid, ask in plan.pod_constraints.items()}
    assert "must not be moved" in first_error(asked, rule, replace(plan, pod_constraints=bound))
    assert first_error(asked, rule, replace(rule, pod_constraints=bound)) == ""
