"""Karpenter's algorithm by example: the effect of each constraint."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.simulation.model import BEST_EFFORT, FALLBACK, IGNORE, ExistingNode, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from tests.provision.catalogue import INSTANCE_TYPE, ZONE, Object, bought, kind, pod, pods, pool

HOST = "kubernetes.io/hostname"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
WIDE = (kind("small", 2, "8Gi", 0.04, zones=("a", "b", "c")), kind("large", 16, "64Gi", 0.3, zones=("a", "b", "c")))
APP = {"app": "x"}


def term(key: str, labels: Object | None = None) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels or APP}}


def spread(key: str, skew: int = 1, **more: Any) -> Object:
    return {**term(key), "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}


def zones(plan: Results) -> dict[str, int]:
    found: dict[str, int] = {}
    for claim in plan.new_node_claims:
        (zone,) = claim.requirements[ZONE].values
        found[zone] = found.get(zone, 0) + len(claim.pods)
    return found


def named(plan: Results) -> dict[str, str]:
    return {each["metadata"]["uid"]: name for each, _, name in plan.nominations}


def node(name: str, zone: str = "a", *there: Object, **more: Any) -> ExistingNode:
    free = parse_amounts({"cpu": "4", "memory": "16Gi", "pods": "110"})
    return ExistingNode(name, "Node", {ZONE: zone, HOST: name}, (), free, pods=list(there), **more)


def test_pods_are_spread_over_zones_and_hosts() -> None:
    both = [spread(ZONE), spread(HOST, 2)]
    found = simulate(
        SchedulingInput(
            [pod(labels=APP, topologySpreadConstraints=both) for _ in range(11)], node_pools=[pool(types=WIDE)]
        )
    )
    assert zones(found) == {"a": 4, "b": 4, "c": 3}
    assert max(len(claim.pods) for claim in found.new_node_claims) == 2


def test_a_spread_without_enough_domains_puts_one_in_each() -> None:
    mine = [pod(labels=APP, topologySpreadConstraints=[spread(ZONE, minDomains=4)]) for _ in range(5)]
    found = simulate(SchedulingInput(mine, node_pools=[pool(types=WIDE)]))
    assert zones(found) == {"a": 1, "b": 1, "c": 1}
    assert found.failures[0][1] == (
        'incompatible with nodepool "default", unsatisfiable topology constraint: topology spread by '
        "topology.kubernetes.io/zone"
    )


def test_what_runs_already_is_counted_unless_it_is_to_move() -> None:
    there = pod(labels=APP, nodeSelector={ZONE: "c"})
    one = pod(labels=APP, topologySpreadConstraints=[spread(ZONE)])
    question = SchedulingInput([one], [node("n1", "a", there)], [pool(types=WIDE)])
    assert zones(simulate(question)) == {"b": 1}
    found = simulate(replace(question, pods=[there, one]))
    assert named(found) == {one["metadata"]["uid"]: "n1"}
    assert zones(found) == {"c": 1}


def test_pods_that_want_to_be_together_are_and_the_first_may_go_anywhere() -> None:
    near = {"podAffinity": {REQUIRED: [term(ZONE)]}}
    found = simulate(
        SchedulingInput([pod("1500m", labels=APP, affinity=near) for _ in range(3)], node_pools=[pool(types=WIDE[:1])])
    )
    assert zones(found) == {"a": 3}
    lost = simulate(SchedulingInput([pod(labels={"app": "y"}, affinity=near)], node_pools=[pool(types=WIDE)]))
    assert len(lost.failures) == 1, "nobody it wants to be with is there"
    host = {"podAffinity": {REQUIRED: [term(HOST)]}}
    found = simulate(
        SchedulingInput([pod("1", labels=APP, affinity=host) for _ in range(5)], node_pools=[pool(types=WIDE[:1])])
    )
    assert [len(claim.pods) for claim in found.new_node_claims] == [2]
    assert len(found.failures) == 3
    assert all(ask.fixed_to_claim for ask in found.pod_constraints.values())


def test_pods_wait_in_line_for_those_they_follow() -> None:
    follower = pod("2", labels={"app": "z"}, affinity={"podAffinity": {REQUIRED: [term(ZONE)]}})
    leader = pod("100m", labels=APP, nodeSelector={ZONE: "c"})
    assert zones(simulate(SchedulingInput([follower, leader], node_pools=[pool(types=WIDE)]))) == {"c": 2}


def test_anti_affinity_works_both_ways() -> None:
    loner = pod(labels={"app": "loner"}, affinity={"podAntiAffinity": {REQUIRED: [term(ZONE)]}})
    there = copy.deepcopy(loner)
    there["metadata"]["uid"] = "there"
    others = [pod(labels=APP) for _ in range(2)]
    found = simulate(SchedulingInput(others, [node("n1", "a", there)], [pool(types=WIDE)]))
    assert not found.nominations, "the one that is there does not want them"
    assert all("a" not in claim.requirements[ZONE].values for claim in found.new_node_claims)
    apart = {"podAntiAffinity": {REQUIRED: [term(HOST)]}}
    found = simulate(
        SchedulingInput([pod(labels=APP, affinity=apart) for _ in range(3)], node_pools=[pool(types=WIDE)])
    )
    assert [len(claim.pods) for claim in found.new_node_claims] == [1, 1, 1]
    assert {(ask.host_limits, len(ask.host_topologies)) for ask in found.pod_constraints.values()} == {(((0, 1),), 1)}


def test_an_anti_affine_pod_blocks_every_zone_it_might_be_in() -> None:
    apart = {"podAntiAffinity": {REQUIRED: [term(ZONE)]}}
    found = simulate(
        SchedulingInput([pod(labels=APP, affinity=apart) for _ in range(3)], node_pools=[pool(types=WIDE)])
    )
    assert len(found.new_node_claims) == 1
    assert len(found.failures) == 2


def test_namespaces_are_chosen_by_name_and_by_label() -> None:
    def near(**more: Any) -> Object:
        return pod(affinity={"podAffinity": {REQUIRED: [term(ZONE) | more]}})

    there = pod(labels=APP)
    there["metadata"]["namespace"] = "other"
    places, pools = [node("n1", "b", there)], [pool(types=WIDE)]
    labels = {"default": {}, "other": {"kind": "shared"}}
    assert simulate(SchedulingInput([near()], places, pools, namespaces=labels)).failures
    shared: list[Object] = [{"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": labels["other"]}}]
    for more in ({"namespaces": ["other"]}, *shared):
        assert named(simulate(SchedulingInput([near(**more)], places, pools, namespaces=labels))), more


def prefers(*weighted: tuple[int, str, str]) -> Object:
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}
        for weight, key, value in weighted
    ]
    return {"nodeAffinity": {PREFERRED: terms}}


def test_the_heaviest_preference_that_can_be_had_is() -> None:
    liked = prefers((1, ZONE, "a"), (50, ZONE, "b"), (100, INSTANCE_TYPE, "nowhere"))
    question = SchedulingInput([pod(affinity=liked)], node_pools=[pool(types=WIDE)])
    assert zones(simulate(question)) == {"b": 1}
    assert ZONE not in simulate(replace(question, preference_policy=IGNORE)).new_node_claims[0].requirements


def test_preferences_among_pods_and_spreads_are_given_up_last_to_first() -> None:
    apart = {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(HOST)}]}}
    limited = pool(types=WIDE[1:], limits={"nodes": "1"})
    found = simulate(SchedulingInput([pod(labels=APP, affinity=apart) for _ in range(3)], node_pools=[limited]))
    assert [len(claim.pods) for claim in found.new_node_claims] == [3], "rather together than not at all"
    anyway = [spread(HOST) | {"whenUnsatisfiable": "ScheduleAnyway"}]
    found = simulate(
        SchedulingInput([pod(labels=APP, topologySpreadConstraints=anyway) for _ in range(3)], node_pools=[limited])
    )
    assert [len(claim.pods) for claim in found.new_node_claims] == [3]


def test_a_taint_that_is_a_preference_is_held_first() -> None:
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    avoided = pool("avoided", types=WIDE, weight=50, template={"taints": [soft]})
    assert [
        claim.pool
        for claim in simulate(SchedulingInput(pods(1), node_pools=[avoided, pool("plain", types=WIDE)])).new_node_claims
    ] == ["plain"]
    assert [claim.pool for claim in simulate(SchedulingInput(pods(1), node_pools=[avoided])).new_node_claims] == [
        "avoided"
    ]


def test_volumes_bring_their_zones_as_alternatives() -> None:
    one = pod(nodeSelector={ZONE: "c"})
    volumes = {
        one["metadata"]["uid"]: [
            from_expressions([{"key": ZONE, "operator": "In", "values": [zone]}]) for zone in ("a", "c")
        ]
    }
    assert zones(simulate(SchedulingInput([one], node_pools=[pool(types=WIDE)], volume_requirements=volumes))) == {
        "c": 1
    }
    wrong = {one["metadata"]["uid"]: volumes[one["metadata"]["uid"]][:1]}
    (failure,) = simulate(SchedulingInput([one], node_pools=[pool(types=WIDE)], volume_requirements=wrong)).failures
    assert failure[1] == 'incompatible with nodepool "default", incompatible with the zones of its volumes'


def test_ports_of_pods_and_of_daemon_sets() -> None:
    def listening(port: int) -> Object:
        return pod() | {"spec": {"containers": [{"name": "x", "ports": [{"containerPort": 1, "hostPort": port}]}]}}

    found = simulate(SchedulingInput([listening(80), listening(80), listening(81)], node_pools=[pool(types=WIDE)]))
    assert sorted(len(claim.pods) for claim in found.new_node_claims) == [1, 2]
    agent = {"spec": {"template": {"spec": {**listening(80)["spec"], "nodeSelector": {INSTANCE_TYPE: "small"}}}}}
    (claim,) = simulate(
        SchedulingInput([listening(80)], node_pools=[pool(types=WIDE)], daemon_sets=[agent])
    ).new_node_claims
    assert claim.types == ("large",), "on the other the agent has the port"


def test_min_values_may_be_lowered_when_that_is_allowed() -> None:
    many = [{"key": INSTANCE_TYPE, "operator": "Exists", "minValues": 3}]
    question = SchedulingInput(pods(1), node_pools=[pool(types=WIDE, requirements=many)])
    (failure,) = simulate(question).failures
    assert "minValues requirement is not met" in failure[1]
    (claim,) = simulate(replace(question, min_values_policy=BEST_EFFORT)).new_node_claims
    assert claim.min_values_relaxed
    assert claim.requirements[INSTANCE_TYPE].min_values == 2


def test_of_a_limit_the_largest_type_that_could_come_is_taken() -> None:
    limited = pool(types=WIDE, limits={"cpu": "18"})
    apart = {"podAntiAffinity": {REQUIRED: [term(HOST)]}}
    found = simulate(SchedulingInput([pod(labels=APP, affinity=apart) for _ in range(3)], node_pools=[limited]))
    assert [claim.types for claim in found.new_node_claims] == [("small", "large"), ("small",)]
    assert 'all available instance types exceed limits for nodepool: "default"' in found.failures[0][1]


def test_equal_pools_are_tried_from_the_last_name() -> None:
    assert [
        claim.pool for claim in simulate(SchedulingInput(pods(1), node_pools=[pool("a"), pool("b")])).new_node_claims
    ] == ["b"]


def reserved(name: str, cpu: int, price: float, reservation: str = "") -> InstanceType:
    has = parse_amounts({"cpu": str(cpu), "memory": f"{cpu}Gi", "pods": "5"})
    labels = {INSTANCE_TYPE: name, ZONE: "a", "karpenter.sh/capacity-type": "on-demand"}
    offerings = [Offering(f"{name}-od", labels, price)]
    if reservation:
        more = {"karpenter.sh/capacity-type": "reserved", "shoal.dev/reservation-id": reservation}
        sold = Offering(f"{name}-r", labels | more, 0.0, reservation=reservation, reservation_capacity=1)
        offerings.append(sold)
    return InstanceType(name, has, has, tuple(offerings))


def test_a_claim_holds_the_reservations_it_could_be_had_of_and_others_wait() -> None:
    types = (reserved("l", 6, 0.6), reserved("m", 3, 0.3, "r-m"), reserved("s", 2, 0.2, "r-s"))
    apart = {"podAntiAffinity": {REQUIRED: [term(HOST)]}}
    question = SchedulingInput(
        [pod("1800m", labels=APP, affinity=apart) for _ in range(3)], node_pools=[pool(types=types)]
    )
    found = simulate(question)
    (claim,) = found.new_node_claims
    assert claim.requirements["karpenter.sh/capacity-type"].values == {"reserved"}
    assert claim.requirements["shoal.dev/reservation-id"].values == {"r-m", "r-s"}
    assert len(found.awaiting_reservation) == 2
    assert not found.failures
    found = simulate(replace(question, reserved_offering_mode=FALLBACK))
    assert len(found.new_node_claims) == 3
    assert not found.awaiting_reservation


def test_no_more_depend_on_an_offering_than_can_be_had() -> None:
    types = (kind("few", 2, "8Gi", 0.01, room=1), kind("some", 4, "16Gi", 0.1, room=2))
    apart = {"podAntiAffinity": {REQUIRED: [term(HOST)]}}
    found = simulate(
        SchedulingInput([pod(labels=APP, affinity=apart) for _ in range(5)], node_pools=[pool(types=types)])
    )
    assert bought(found) == ["few", "some", "some"]
    assert round(found.cost, 9) == 0.21
    assert len(found.failures) == 2


def test_offerings_with_taints_are_for_pods_that_bear_them() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    types = (kind("gpu", 2, "8Gi", 0.01, taints=(taint,)), kind("plain", 2, "8Gi", 0.04))
    bearing = pods(1, tolerations=[{"key": "gpu", "operator": "Exists"}], nodeSelector={INSTANCE_TYPE: "gpu"})
    (claim,) = simulate(SchedulingInput(bearing, node_pools=[pool(types=types)])).new_node_claims
    assert (claim.types, claim.taints) == (("gpu",), (taint,))
    (claim,) = simulate(SchedulingInput(pods(1), node_pools=[pool(types=types)])).new_node_claims
    assert (claim.types, claim.taints) == (("plain",), ())


def test_a_place_that_is_settling_takes_only_pods_that_have_no_node() -> None:
    moving = pod(nodeName="old")
    question = SchedulingInput(
        [moving, pod()], [node("n1", pending_pods_only=True), node("n2")], draining_nodes=[node("old")]
    )
    assert named(simulate(question))[moving["metadata"]["uid"]] == "n2"
    assert set(named(simulate(question)).values()) == {"n1", "n2"}


def test_a_node_with_a_csi_limit_takes_as_many_volumes() -> None:
    asked = pods(3)
    first, second, third = (each["metadata"]["uid"] for each in asked)
    attachments = {uid: frozenset([("ebs", uid)]) for uid in (first, second)} | {third: frozenset([("efs", third)])}
    limited = node("n1", attach_limits={"ebs": 2}, attachments=frozenset([("ebs", "there")]))
    found = simulate(SchedulingInput(asked, [limited], [pool()], attachments=attachments))
    assert named(found) == {first: "n1", third: "n1"}
    assert bought(found) == ["small"], "a new node has no limit that is known"
    shared = {uid: frozenset([("ebs", "there")]) for uid in (first, second, third)}
    found = simulate(SchedulingInput(asked, [limited], [pool()], attachments=shared))
    assert set(named(found).values()) == {"n1"}
    assert not found.new_node_claims


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"resourceClaims": [{"name": "x"}]}, "(dynamic resource allocation) are not supported"),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{}]}]}}}},
            "with matchFields is not supported",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(spec: Object, said: str) -> None:
    (failure,) = simulate(SchedulingInput([pod(**spec)], [node("n1")], [pool()])).failures
    assert said in failure[1]


def test_a_pod_with_a_problem_is_left_alone() -> None:
    one = pod()
    found = simulate(
        SchedulingInput([one], [node("n1")], [pool()], pod_errors={one["metadata"]["uid"]: "its volume is gone"})
    )
    assert found.failures == ((one, "its volume is gone"),)


def test_old_names_of_labels_mean_the_new_ones() -> None:
    old = pods(
        1, nodeSelector={"beta.kubernetes.io/instance-type": "large", "failure-domain.beta.kubernetes.io/zone": "b"}
    )
    found = simulate(SchedulingInput(old, node_pools=[pool(types=WIDE)]))
    assert bought(found) == ["large"]
    assert zones(found) == {"b": 1}
