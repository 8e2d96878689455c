"""Placement of pods: existing nodes first, then NodePools, with every constraint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shoal.fit.requirements import Requirements
from shoal.fit.resources import parse_amounts, pod_requests
from shoal.provision.provisioning.existing_nodes import existing_nodes, pool_usage
from shoal.provision.provisioning.nodeclaim import free_name, new_node_claim
from shoal.provision.simulation.model import ExistingNode
from tests.provision.catalogue import MEDIUM, SMALL, Object, bought, kind, plan, pod, pods, pool

ARCH, ZONE, TYPE = "kubernetes.io/arch", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
TAINT = {"key": "team", "value": "blue", "effect": "NoSchedule"}


def place(name: str, cpu: str = "4", **more: Any) -> ExistingNode:
    free = parse_amounts({"cpu": cpu, "memory": "16Gi", "pods": "110"})
    more.setdefault("initialized", more.get("kind") != "NodeClaim")
    return ExistingNode(name, more.pop("kind", "Node"), more.pop("labels", {}), more.pop("taints", []), free, **more)


def needs(key: str, operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_what_is_there_or_coming_is_used_before_anything_is_bought() -> None:
    there, coming = place("n1", "1"), place("default-1", "2", kind="NodeClaim")
    found = plan(pods(6), [there, coming], [pool()])
    assert [name for _, _, name in found.nominations] == [
        "n1",
        "n1",
        "default-1",
        "default-1",
        "default-1",
        "default-1",
    ]
    assert not found.new_node_claims
    assert bought(plan(pods(7), [place("n1", "1"), place("c", "2")], [pool()])) == ["small"]


def test_a_pod_stays_with_the_node_that_is_coming_for_it() -> None:
    first, second = pod("2"), pod("1")
    coming = [place("a", "2", kind="NodeClaim"), place("b", "2", kind="NodeClaim")]
    promised = {first["metadata"]["uid"]: "b", second["metadata"]["uid"]: "a"}
    found = plan([first, second], coming, [pool()], [], promised)
    assert {name for each, _, name in found.nominations if each is first} == {"b"}
    node = place("n", "2", node_claim="b")
    (kept,) = plan([first], [place("a", "2"), node], [pool()], [], promised).nominations
    assert kept[2] == "n", "the NodeClaim has become a node meanwhile"


def test_taints_of_the_pool_and_of_what_is_there() -> None:
    tainted = pool(template={"taints": [TAINT]})
    (failure,) = plan(pods(1), [place("n1", taints=[TAINT])], [tainted]).failures
    assert failure[1] == 'incompatible with nodepool "default", did not tolerate taint team=blue:NoSchedule'
    tolerant = pods(1, tolerations=[{"key": "team", "operator": "Exists"}])
    assert bought(plan(tolerant, [], [tainted])) == ["small"]
    startup = pool(template={"startupTaints": [TAINT]})
    assert bought(plan(pods(1), [], [startup])) == ["small"], "startup taints are no obstacle"
    announced = pool(types=(kind("x", 2, "8Gi", 0.01, taints=(TAINT,)), SMALL))
    assert bought(plan(pods(1), [], [announced])) == ["small"]


def test_node_selectors_and_affinity_choose_types_and_zones() -> None:
    types = (kind("a", 2, "8Gi", 0.04, zones=("z1", "z2")), kind("b", 2, "8Gi", 0.05, zones=("z3",)))
    mine = pool(types=types)
    (claim,) = plan(pods(1, nodeSelector={ZONE: "z3"}), [], [mine]).new_node_claims
    assert claim.types == ("b",)
    assert claim.requirements[ZONE].values == {"z3"}
    (claim,) = plan(pods(1, affinity=needs(ZONE, "NotIn", "z1")), [], [mine]).new_node_claims
    assert claim.types == ("a", "b")
    two = [pod(nodeSelector={ZONE: "z1"}), pod(nodeSelector={ZONE: "z2"})]
    assert len(plan(two, [], [mine]).new_node_claims) == 2, "no node is in two zones"
    (failure,) = plan(pods(1, nodeSelector={ZONE: "z9"}), [], [mine]).failures
    assert f"no instance type meets all requirements, {ZONE} In [z9]" in failure[1]
    narrow = pool(types=types, requirements=[{"key": ZONE, "operator": "In", "values": ["z1"]}])
    (failure,) = plan(pods(1, nodeSelector={ZONE: "z2"}), [], [narrow]).failures
    assert f"incompatible requirements, key {ZONE}, In [z2] not in In [z1]" in failure[1]


def test_the_alternatives_of_affinity_are_all_tried() -> None:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]} for zone in ("z8", "a")]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert bought(plan(pods(1, affinity=affinity), [], [pool()])) == ["small"]


@pytest.mark.parametrize(
    ("operator", "values", "some"), [("In", ["x"], 0), ("Exists", [], 0), ("NotIn", ["x"], 1), ("DoesNotExist", [], 1)]
)
def test_a_label_nobody_defined_is_on_no_node(operator: str, values: list[str], some: int) -> None:
    found = plan(pods(1, affinity=needs("example.com/disk", operator, *values)), [], [pool()])
    assert len(found.new_node_claims) == some


DISK = "example.com/disk"


@pytest.mark.parametrize(
    ("operator", "values", "types", "price"),
    [
        ("In", ["ssd"], ["fast", "mixed"], 0.5),
        ("Exists", [], ["fast", "mixed"], 0.5),
        ("NotIn", ["ssd"], ["small", "mixed"], 0.4),
        ("DoesNotExist", [], ["small", "mixed"], 0.4),
        ("In", ["tape"], [], 0.0),
    ],
)
def test_a_label_of_some_machines_is_not_on_others(
    operator: str, values: list[str], types: list[str], price: float
) -> None:
    fast, small = kind("fast", 4, "16Gi", 0.7, labels={DISK: "ssd"}), kind("small", 2, "8Gi", 0.6)
    labelled = kind("mixed", 4, "16Gi", 0.5, labels={DISK: "ssd"}).offerings
    mixed = kind("mixed", 4, "16Gi", 0.4, zones=("b",))
    mixed = replace(mixed, offerings=labelled + mixed.offerings, requirements=Requirements())
    asking = pods(1, affinity=needs(DISK, operator, *values))
    found = plan(asking, [], [pool(types=(small, fast, mixed))])
    assert [sorted(claim.types) for claim in found.new_node_claims] == ([sorted(types)] if types else [])
    assert [claim.price for claim in found.new_node_claims] == ([price] if types else [])


def test_a_label_of_the_pool_is_on_all_its_nodes() -> None:
    types = (SMALL, kind("fast", 4, "16Gi", 0.5, labels={DISK: "ssd"}))
    sets_it = pool(types=types, requirements=[{"key": DISK, "operator": "In", "values": ["ssd"]}])
    assert bought(plan(pods(1, nodeSelector={DISK: "ssd"}), [], [sets_it])) == ["small"]
    (failure,) = plan(pods(1, "1", nodeSelector={"shoal.dev/reservation-id": "r1"}), [], [sets_it]).failures
    assert 'label "shoal.dev/reservation-id" does not have known values' in failure[1]


def test_a_pool_with_several_values_gives_the_one_that_is_asked_for() -> None:
    wanted = [{"key": "example.com/team", "operator": "In", "values": ["a", "b"]}]
    mine = pool(requirements=wanted)
    found = plan([pod(nodeSelector={"example.com/team": team}) for team in ("a", "b", "a")], [], [mine])
    teams = sorted(claim.requirements.labels()["example.com/team"] for claim in found.new_node_claims)
    assert teams == ["a", "b"]
    assert new_node_claim(mine.node_pool, found.new_node_claims[0])["metadata"]["labels"]["example.com/team"] in (
        "a",
        "b",
    )


def test_limits_hold_for_what_there_is_and_what_is_bought() -> None:
    limited = pool(limits={"cpu": "6"}, used={"cpu": "2"})
    found = plan(pods(5, "1500m"), [], [limited])
    assert bought(found) == ["medium"], "four cpus are left"
    assert len(found.failures) == 3
    assert 'exceed limits for nodepool: "default"' in found.failures[0][1]
    assert found.new_node_claims[0].types == ("medium",), "nothing larger may come instead"
    assert not plan(pods(1), [], [pool(limits={"nodes": "0"})]).new_node_claims


def test_pools_are_tried_by_weight() -> None:
    cheap, dear = pool("cheap"), pool("dear", types=(kind("gold", 4, "16Gi", 9.0),), weight=10)
    assert bought(plan(pods(1), [], [cheap, dear])) == ["gold"]
    found = plan([pod(nodeSelector={"karpenter.sh/nodepool": "cheap"})], [], [cheap, dear])
    assert [claim.pool for claim in found.new_node_claims] == ["cheap"]
    full = pool("full", types=(kind("gold", 4, "16Gi", 9.0, room=1),), weight=10)
    found = plan(pods(16), [], [cheap, full])
    assert sorted(claim.pool for claim in found.new_node_claims) == ["cheap", "full"], (
        "what one cannot take the next does"
    )


def test_min_values_keep_the_choice_wide() -> None:
    wide = [{"key": TYPE, "operator": "Exists", "minValues": 2}]
    (claim,) = plan(pods(1), [], [pool(requirements=wide)]).new_node_claims
    assert claim.types == ("small", "medium", "large")
    assert {"key": TYPE, "operator": "In", "values": ["large", "medium", "small"], "minValues": 2} in (
        claim.requirements.to_expressions()
    )
    found = plan(pods(40), [], [pool(requirements=wide, types=(SMALL, MEDIUM))])
    assert all(len(each.types) == 2 for each in found.new_node_claims)
    assert sum(len(each.pods) for each in found.new_node_claims) == 40
    narrow = [{"key": TYPE, "operator": "Exists", "minValues": 3}]
    assert len(plan(pods(1), [], [pool(requirements=narrow, types=(SMALL, MEDIUM))]).failures) == 1


def daemon(cpu: str, **spec: Any) -> Object:
    return {"spec": {"template": {"spec": pod(cpu, "128Mi", **spec)["spec"]}}}


def test_daemonsets_have_their_room() -> None:
    everywhere, elsewhere = daemon("500m"), daemon("1500m", nodeSelector={ARCH: "arm64"})
    types = (
        kind("small", 2, "8Gi", 0.04, labels={ARCH: "amd64"}),
        kind("medium", 4, "16Gi", 0.08, labels={ARCH: "amd64"}),
    )
    found = plan(pods(4), [], [pool(types=types)], [everywhere, elsewhere], {})
    assert bought(found) == ["medium"]
    assert found.new_node_claims[0].requests["cpu"] == 2500
    assert found.new_node_claims[0].requests["pods"] == 5


def test_why_a_pod_gets_no_node_is_said() -> None:
    def reason(one: Object, *pools: Any) -> str:
        ((_, said),) = plan([one], [], pools or [pool()]).failures
        return said

    assert "no instance type has enough resources for cpu=100, memory=256Mi, pods=1" in reason(pod("100"))
    assert reason(pod(), pool(types=())) == 'incompatible with nodepool "default", it has no instance types'
    assert "no NodePool is ready" in plan([pod()], [], []).failures[0][1]
    small = pool(types=(kind("small", 2, "8Gi", 0.04, labels={ARCH: "amd64"}, zones=("z1",)),))
    soldout = pool(types=(kind("small", 2, "8Gi", 0.04, room=0, zones=("z1",)), MEDIUM))
    assert reason(pod(nodeSelector={ZONE: "z9"}), small).endswith(
        f"no instance type meets all requirements, {ZONE} In [z9]"
    )
    taken = reason(pod(nodeSelector={ZONE: "z1"}), soldout)
    assert taken.endswith("sold out, or at the maximum number of machines: small")
    large_taken = (SMALL, MEDIUM, kind("large", 16, "64Gi", 0.3, room=0))
    all_taken = tuple(replace(each, offerings=large_taken[2].offerings) for each in large_taken)
    for types in (large_taken, all_taken):
        assert reason(pod("10"), pool(types=types)).endswith("maximum number of machines: large"), (
            "others are too small"
        )
        assert "no instance type has enough resources for cpu=100," in reason(pod("100"), pool(types=types))

    def reason_beside(daemons: Object, one: Object) -> str:
        ((_, said),) = plan([one], [], [small], [daemons], {}).failures
        return said

    assert reason_beside(daemon("500m"), pod("1800m")).endswith(
        "no instance type has enough resources for cpu=1800m, memory=256Mi, pods=1"
        " beside DaemonSets, which use cpu=500m, memory=128Mi, pods=1 of small"
    )
    assert "beside DaemonSets" not in reason_beside(daemon("500m"), pod("3"))
    assert reason_beside(daemon("3"), pod()).endswith("the requests of DaemonSets exceed each of its instance types")
    on_port: Any = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}
    assert reason_beside({"spec": {"template": {"spec": on_port}}}, pod(**on_port)).endswith(
        "DaemonSets use its host ports on each instance type: 8080/TCP"
    )
    both = reason(pod("100"), pool("a"), pool("b"))
    assert 'nodepool "a"' in both
    assert 'nodepool "b"' in both


def claim(name: str, status: Object | None = None, **metadata: Any) -> Object:
    meta = {"name": name, "uid": f"uid-{name}", "labels": {"karpenter.sh/nodepool": "default"}, **metadata}
    return {"metadata": meta, "spec": {"requirements": [], "taints": [TAINT]}, "status": status or {}}


def test_places_are_nodes_that_are_ready_and_claims_that_will_be() -> None:
    has = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    initialized = [{"type": "Initialized", "status": "True"}]
    nodes: list[Object] = [
        {"metadata": {"name": "plain", "labels": {"x": "y"}}, "status": {"allocatable": has}},
        {"metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}, "status": {"allocatable": has}},
        {"metadata": {"name": "going", "deletionTimestamp": "x"}, "status": {"allocatable": has}},
        {"metadata": {"name": "mine"}, "spec": {"providerID": "p://1"}, "status": {"allocatable": has}},
        {"metadata": {"name": "new"}, "spec": {"providerID": "p://2"}, "status": {"allocatable": has}},
        {"metadata": {"name": "left"}, "spec": {"providerID": "p://3"}, "status": {"allocatable": has}},
    ]
    claims = [
        claim("c1", {"providerID": "p://1", "conditions": initialized}),
        claim("c2", {"providerID": "p://2", "allocatable": has}),
        claim("c3", {"providerID": "p://3", "conditions": initialized}, deletionTimestamp="x"),
        claim("c4", {"allocatable": has}),
        claim("c5"),
    ]
    on = {"plain": [pod("1")], "new": [pod("500m")]}

    def requests(one: Object) -> dict[str, int]:
        return {name: amount for name, amount in pod_requests(one).items() if name != "memory"}

    found = existing_nodes(nodes, claims, {}, [], lambda name: on.get(name, []), requests)
    assert [(each.kind, each.name) for each in found] == [
        ("Node", "cordoned"),
        ("Node", "mine"),
        ("Node", "plain"),
        ("NodeClaim", "c2"),
        ("NodeClaim", "c4"),
    ]
    free = {each.name: each.free["cpu"] for each in found}
    assert free == {"cordoned": 4000, "mine": 4000, "plain": 3000, "c2": 3500, "c4": 4000}
    assert found[0].taints[0]["key"] == "node.kubernetes.io/unschedulable"
    assert found[1].node_claim == "c1"
    assert pool_usage(claims, "default", {})["nodes"] == 5


def test_pods_whose_place_others_took_get_a_node_claim_of_another_name() -> None:
    initialized = [{"type": "Initialized", "status": "True"}]
    known = {each["metadata"]["name"]: each for each in (claim("p-1"), claim("p-2", {"conditions": initialized}))}
    assert free_name("p-9", known.get) == "p-9"
    assert free_name("p-1", known.get) == "", "it is on its way"
    other = free_name("p-2", known.get)
    assert other not in ("", "p-2")
    assert free_name("p-2", known.get) == other
    known[other] = claim(other, deletionTimestamp="x")
    assert free_name("p-2", known.get) not in ("", "p-2", other)


def test_a_node_claim_carries_what_the_pool_says() -> None:
    template = {"taints": [TAINT], "expireAfter": "720h", "terminationGracePeriod": "1h"}
    mine = pool(labels={"team": "blue"}, template=template)
    (new,) = plan(pods(2, tolerations=[{"operator": "Exists"}]), [], [mine]).new_node_claims
    made = new_node_claim(mine.node_pool, new)
    assert made["metadata"]["labels"] == {
        "team": "blue",
        "karpenter.sh/nodepool": "default",
        "karpenter.cluster.x-k8s.io/clusterapinodeclass": "default",
    }
    assert made["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-default"
    assert made["spec"]["taints"] == [TAINT]
    assert made["spec"]["terminationGracePeriod"] == "1h"
    assert made["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "512Mi", "pods": "2"}
    (again,) = plan(list(new.pods), [], [mine]).new_node_claims
    assert again.name == new.name, "the same pods ask for the same NodeClaim"
