"""Optimized plans keep every constraint of pods, pools and offerings and are never more expensive."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from shoal.fit.ports import host_ports, ports_conflict
from shoal.objects.selectors import from_label_selector
from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.simulator.catalogues import kwok_linux_amd64_types, kwok_small_types
from shoal.provision.solver import optimize
from shoal.provision.solver.optimize import improve
from shoal.provision.solver.report import OptimizationReport
from shoal.provision.solver.verification import first_error
from tests.provision.catalogue import kind, pod, pods, pool
from tests.provision.simulation.test_reference_equivalence import HOST, REQUIRED, ZONE, questions

Object = dict[str, Any]

TYPES = (
    kind("small", 2, "8Gi", 0.05, zones=("a", "b", "c")),
    kind("medium", 4, "16Gi", 0.09, zones=("a", "b", "c")),
    kind("large", 16, "64Gi", 0.50, zones=("a", "b", "c")),
)


def improved(question: SchedulingInput, iterations: int = 80) -> tuple[Results, Results, OptimizationReport]:
    """By the rule, by the solver, and what it says."""
    rule = simulate(question)
    found, report = improve(question, rule, iterations=iterations)
    assert first_error(question, rule, found) == ""
    assert "wrong" not in report.kept_reason, report.kept_reason
    assert found.cost <= rule.cost + 1e-9
    assert report.cost == pytest.approx(found.cost)
    assert report.karpenter_cost == pytest.approx(rule.cost)
    assert report.bound <= found.cost + 1e-9
    assert report.nodes == len(found.new_node_claims)
    return rule, found, report


def by_claim(plan: Results) -> list[list[str]]:
    return sorted(sorted(each["metadata"]["name"] for each in claim.pods) for claim in plan.new_node_claims)


@given(questions())
@settings(max_examples=40)
def test_no_constraint_is_broken(question: SchedulingInput) -> None:
    rule, found, _ = improved(question, 30)
    for claim in found.new_node_claims:
        taken = [host_ports(each) for each in claim.pods]
        assert not any(ports_conflict(one, other) for at, one in enumerate(taken) for other in taken[:at])
        for each in claim.pods:
            for other in claim.pods:
                assert other is each or not _keeps_away(each, other, question)
    assert found.nominations == rule.nominations
    assert found.failures == rule.failures


def _keeps_away(one: Object, other: Object, question: SchedulingInput) -> bool:
    """By the words of the one, from its own host."""
    rules = (one["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for term in rules.get(REQUIRED) or ():
        named = set(term.get("namespaces") or ())
        chosen = term.get("namespaceSelector")
        if chosen is not None:
            selector = from_label_selector(chosen)
            named |= {name for name, labels in question.namespaces.items() if selector.matches(labels)}
        elif not named:
            named = {one["metadata"]["namespace"]}
        mine = term["topologyKey"] == HOST and other["metadata"]["namespace"] in named
        if mine and from_label_selector(term["labelSelector"]).matches(other["metadata"].get("labels") or {}):
            return True
    return False


def test_a_large_node_becomes_cheaper_small_ones() -> None:
    rule, found, report = improved(SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES)]))
    assert [claim.types[0] for claim in rule.new_node_claims] == ["large"]
    assert [claim.types for claim in found.new_node_claims] == [("medium", "large"), ("medium", "large")]
    assert found.cost == pytest.approx(0.18)
    assert report.summary == "2 nodes at 0.18 per hour instead of 0.5, at most 0.0% above the lower bound"
    assert report.gap == pytest.approx(0.0, abs=1e-4)
    assert report.kept_reason == ""


def test_pods_stay_in_the_zone_they_were_spread_to() -> None:
    labels = {"app": "x"}
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    some = pods(12, "900m", "1Gi", labels=labels, topologySpreadConstraints=[spread])
    _, found, _ = improved(SchedulingInput([*some, *pods(6, "400m", "1Gi")], node_pools=[pool(types=TYPES)]))
    counts: Counter[str] = Counter()
    for claim in found.new_node_claims:
        spread_here = sum(each["metadata"]["labels"] == labels for each in claim.pods)
        if spread_here:
            (zone,) = claim.requirements[ZONE].values
            counts[zone] += spread_here
    assert counts == {"a": 4, "b": 4, "c": 4}


def test_hosts_hold_no_more_than_their_rules_say() -> None:
    labels = {"app": "x"}
    apart = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}]}}
    some = pods(4, "100m", "1Gi", labels=labels, affinity=apart)
    spread = {
        "topologyKey": HOST,
        "maxSkew": 2,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "y"}},
    }
    others = pods(7, "200m", "1Gi", labels={"app": "y"}, topologySpreadConstraints=[spread])
    rule, found, _ = improved(
        SchedulingInput([*some, *others, *pods(9, "900m", "1Gi")], node_pools=[pool(types=TYPES)])
    )
    for claim in found.new_node_claims:
        apps = Counter(each["metadata"]["labels"].get("app") for each in claim.pods)
        assert apps["x"] <= 1
        assert apps["y"] <= 2
    assert found.cost < rule.cost


def test_limits_hold_whichever_type_comes() -> None:
    question = SchedulingInput(
        pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES, limits={"cpu": "16", "nodes": "3"})]
    )
    _, found, _ = improved(question)
    assert [claim.types for claim in found.new_node_claims] == [("medium",), ("medium",)]
    one = SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES, limits={"nodes": "1"})])
    assert len(improved(one)[1].new_node_claims) == 1


def test_enough_types_stay_possible() -> None:
    least: Object = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}
    question = SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES, requirements=[least])])
    _, found, _ = improved(question)
    assert [claim.types for claim in found.new_node_claims] == [("medium", "large"), ("medium", "large")]
    assert found.new_node_claims[0].requirements[least["key"]].min_values == 2


def test_a_pod_stays_with_a_pool_of_the_same_weight() -> None:
    cheap, dear = pool("cheap", TYPES[:2], weight=1), pool("heavy", TYPES[2:], weight=2)
    _, found, report = improved(SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[cheap, dear]))
    assert [claim.pool for claim in found.new_node_claims] == ["heavy"]
    assert report.kept_reason == "no cheaper plan was found"
    same = pool("heavy", TYPES[2:], weight=1)
    _, found, _ = improved(SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[cheap, same]))
    assert [claim.pool for claim in found.new_node_claims] == ["cheap", "cheap"]


def test_only_so_many_machines_as_there_are() -> None:
    few = (kind("medium", 4, "16Gi", 0.09, room=1), kind("small", 2, "8Gi", 0.05), kind("large", 16, "64Gi", 0.50))
    _, found, _ = improved(SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=few)]))
    assert sorted(claim.price for claim in found.new_node_claims) == [0.05, 0.05, 0.09]


def test_taints_and_ports_are_respected() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    tainted = tuple(
        replace(each, offerings=tuple(replace(offering, taints=(taint,)) for offering in each.offerings))
        for each in TYPES[:2]
    )
    _, found, _ = improved(SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=(*tainted, TYPES[2]))]))
    assert [claim.types for claim in found.new_node_claims] == [("large",)]
    container = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
    some = [pod("100m", "1Gi", containers=[container]) for _ in range(3)]
    _, found, _ = improved(SchedulingInput([*some, *pods(8, "900m", "1Gi")], node_pools=[pool(types=TYPES)]))
    assert len(found.new_node_claims) >= 3


def test_pods_that_want_to_be_together_stay_so() -> None:
    labels = {"app": "x"}
    near = {"podAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}]}}
    some = pods(6, "1", "1Gi", labels=labels, affinity=near)
    _, found, report = improved(SchedulingInput(some, node_pools=[pool(types=TYPES)]))
    assert by_claim(found) == [[each["metadata"]["name"] for each in some]]
    assert report.kept_reason == "no NodeClaim of the plan can be repacked"


def test_where_nothing_has_a_price_fewer_nodes_are_better() -> None:
    free = tuple(
        replace(each, offerings=tuple(replace(offering, price=0.0) for offering in each.offerings)) for each in TYPES
    )
    rule, found, report = improved(SchedulingInput(pods(24, "1500m", "1Gi"), node_pools=[pool(types=free)]))
    assert len(found.new_node_claims) <= len(rule.new_node_claims)
    assert (report.cost, report.bound, report.gap) == (0.0, 0.0, 0.0)


def test_whatever_goes_wrong_there_is_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    question = SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES)])
    rule = simulate(question)
    monkeypatch.setattr(optimize, "solve", lambda *_, **__: 1 / 0)
    assert improve(question, rule)[0] is rule
    assert improve(question, rule)[1].kept_reason.startswith("solver failed: ZeroDivisionError")
    monkeypatch.undo()
    monkeypatch.setattr(optimize, "first_error", lambda *_: "it is green")
    found, report = improve(question, rule, iterations=40)
    assert found is rule
    assert report.kept_reason == "the cheaper plan is invalid: it is green"
    assert report.cost == rule.cost


def test_nothing_to_buy() -> None:
    assert improve(SchedulingInput([]), Results()) == (
        Results(),
        OptimizationReport(0.0, 0.0, 0.0, 0, 0, "the plan has no new nodes"),
    )


def test_daemons_are_counted() -> None:
    agent = {"metadata": {"name": "agent"}, "spec": {"template": pod("600m", "1Gi")}}
    _, found, _ = improved(SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES)], daemon_sets=[agent]))
    for claim in found.new_node_claims:
        assert claim.requests["cpu"] == 900 * len(claim.pods) + 600


def test_the_catalogue_of_kwok() -> None:
    shapes = [("100m", "256Mi"), ("500m", "1Gi"), ("1", "512Mi"), ("1500m", "4Gi")]
    some = [pod(*shapes[at % 4]) for at in range(48)]
    for catalogue in (kwok_linux_amd64_types(), kwok_small_types()):
        rule, found, report = improved(SchedulingInput(some, node_pools=[pool(types=tuple(catalogue))]), 60)
        assert report.gap <= 0.06
        assert found.cost < rule.cost
        for claim in found.new_node_claims:
            assert claim.requirements["karpenter.sh/capacity-type"].values == {"on-demand", "spot"}
