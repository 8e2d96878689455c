"""Validation of NodePools, as in the suites of Karpenter v1.14."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import is_managed_node_class, nodepool_hash, nodepool_template_spec
from shoal.provision.nodepools.decide import claim_hash_patch, node_pool_with_status, validation_error
from tests.provision.hosted import node_class, node_pool

Object = dict[str, Any]

ZONE, TYPE, CAPACITY = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
NOW = "2026-11-16T00:00:00Z"
LONG = "a" * 250


def wants(key: str, operator: str = "In", *values: str, **more: Any) -> Object:
    return {"key": key, "operator": operator, "values": list(values), **more}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


@pytest.mark.parametrize(
    "requirements",
    [
        [],
        [wants("Test", "Exists"), wants("test.com/Test", "Exists"), wants("test.com.com/test", "Exists")],
        [wants(ZONE, "In", "test"), wants(ZONE, "Gt", "1"), wants(ZONE, "Lt", "1"), wants(ZONE, "Gte", "1")],
        [wants(ZONE, "Lte", "1"), wants(ZONE, "NotIn", "1"), wants(ZONE, "Exists"), wants(ZONE, "DoesNotExist")],
        [wants("kubernetes.io/test", "In", "test"), wants("subdomain.k8s.io/test", "In", "test")],
        [wants("node.cluster.x-k8s.io", "In", "workload-target")],
        *([wants(key, "In", "test")] for key in (ZONE, TYPE, "kubernetes.io/arch", "node.kubernetes.io/windows-build")),
        [wants(ZONE, "In", "test", "foo"), wants(ZONE, "NotIn", "test", "bar")],
        [wants(TYPE, "In", *(f"instance{number}" for number in range(90)))],
        [wants(CAPACITY, "In", "spot", "nonsense")],
        [wants(CAPACITY, "Exists")],
        [wants(TYPE, "In", "a", "b", minValues=2)],
    ],
)
def test_requirements_that_are_fine(requirements: list[Object]) -> None:
    assert validation_error(node_pool(requirements=requirements)) == ""


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (wants(ZONE, "unknown", "test"), f"key {ZONE} has an unsupported operator unknown not in "),
        (wants("karpenter.sh/test", "In", "test"), 'label domain "karpenter.sh" is restricted'),
        (wants("sub.karpenter.sh/test", "In", "test"), 'label domain "karpenter.sh" is restricted'),
        (wants("karpenter.sh/nodepool", "In", "test"), 'label "karpenter.sh/nodepool" is restricted'),
        (wants("kubernetes.io/hostname", "In", "a"), 'label "kubernetes.io/hostname" is restricted'),
        (wants("kubernetes.io/hostname/test", "In", "a"), "is not a qualified name"),
        (wants("test.com.com}", "Exists"), "key test.com.com} is not a qualified name, name part must consist of"),
        (wants("Test.com/test", "Exists"), "is not a qualified name, prefix part"),
        (
            wants(f"test.com.test.{LONG}/test", "Exists"),
            "is not a qualified name, prefix part must be no more than 253",
        ),
        (wants(f"test.com.test/{LONG}", "Exists"), "is not a qualified name, name part must be no more than 63"),
        (wants("test", "In", "a b"), "invalid value a b for key test, a valid label must be an empty string or"),
        (wants("Test"), "key Test with operator In must have a value defined"),
        *(
            (wants(ZONE, operator, *values), f"key {ZONE} with operator {operator} must have a single positive integer")
            for operator in ("Gt", "Lt", "Gte", "Lte")
            for values in ((), ("1", "2"), ("a",), ("-1",))
        ),
        (
            wants(TYPE, "In", "one", minValues=2),
            f"key {TYPE} with operator In must have at least minimum number of values defined in 'values' field",
        ),
        (
            wants(CAPACITY, "In", "test"),
            f"no valid values found in [test] for {CAPACITY}, expected one of: [on-demand reserved spot], got: [test]",
        ),
        (wants(CAPACITY, "In", "spot", "x", minValues=2), f"not enough valid values found in [spot x] for {CAPACITY}"),
    ],
)
def test_requirements_that_are_not(requirement: Object, said: str) -> None:
    assert said in validation_error(node_pool(requirements=[requirement]))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"foo": "bar", "kops.k8s.io/instancegroup": "karpenter-nodes", "subdomain.kubernetes.io/key": "x"}, ""),
        ({"kubernetes.io": "test-value", CAPACITY: "spot"}, ""),
        ({"karpenter.sh/nodepool": "x"}, 'label "karpenter.sh/nodepool" is restricted'),
        ({"karpenter.sh/unknown": "x"}, 'label domain "karpenter.sh" is restricted'),
        ({"kubernetes.io/hostname": "x"}, 'label "kubernetes.io/hostname" is restricted'),
        ({"spaces are not allowed": "x"}, 'invalid key name "spaces are not allowed" in labels, "name part must'),
        ({"a": "/ is not allowed"}, "invalid value: / is not allowed for label[a], a valid label must"),
    ],
)
def test_labels(labels: dict[str, str], said: str) -> None:
    found = validation_error(node_pool(labels=labels))
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("taints", "startup", "said"),
    [
        (
            [taint("a", value="b"), taint("c", "NoExecute", "d"), taint("test.com/Test", "PreferNoSchedule", "f")],
            [],
            "",
        ),
        ([taint("a"), taint("a", "NoExecute")], [], ""),
        ([taint("a"), taint("a")], [], "duplicate taint Key/Effect pair a=NoSchedule"),
        ([taint("a")], [taint("a")], "duplicate taint Key/Effect pair a=NoSchedule"),
        ([], [taint("Test.com/test")], "invalid value: prefix part"),
        ([taint("invalid-value", value="???")], [], "invalid value: name part must consist of"),
        ([taint("invalid-effect", "???")], [], 'invalid value: "???" in taints'),
        ([taint(f"test.com.test/{LONG}")], [], "invalid value: name part must be no more than 63"),
    ],
)
def test_taints(taints: list[Object], startup: list[Object], said: str) -> None:
    found = validation_error(node_pool(template={"taints": taints, "startupTaints": startup}))
    assert said in found
    assert bool(found) == bool(said)


def test_a_schedule_goes_with_a_duration() -> None:
    both, one = {"nodes": "1", "schedule": "@daily", "duration": "1h"}, {"nodes": "1", "duration": "20m"}
    assert validation_error(node_pool(disruption={"budgets": [{"nodes": "10"}, both]})) == ""
    assert validation_error(node_pool(disruption={"budgets": [both, one]})) == "'schedule' must be set with 'duration'"


def test_what_a_pool_says_of_itself() -> None:
    ready = {**node_class(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    pool = node_pool(requirements=[wants("Test")])
    pool["status"] = {"conditions": [{"type": "NodeRegistrationHealthy", "status": "True"}]}
    found = node_pool_with_status(pool, ready, {"cpu": 6000, "nodes": 2}, NOW)
    assert node_pool_with_status(found, ready, {"cpu": 6000, "nodes": 2}, "later") is found
    status = found["status"]
    assert (status["nodes"], status["resources"]) == (
        2,
        {"cpu": "6", "ephemeral-storage": "0", "memory": "0", "nodes": "2", "pods": "0"},
    )
    assert {each["type"]: (each["status"], each.get("reason")) for each in status["conditions"]} == {
        "NodeRegistrationHealthy": ("True", None),
        "ValidationSucceeded": ("False", "NodePoolValidationFailed"),
        "NodeClassReady": ("True", "NodeClassReady"),
        "Ready": ("False", "UnhealthyDependents"),
    }
    mended = node_pool_with_status({**found, "spec": node_pool()["spec"]}, ready, {}, NOW)
    assert {each["type"]: each["status"] for each in mended["status"]["conditions"]}["Ready"] == "True"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "NodeClassReadinessUnknown"),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, "NodeClassReadinessUnknown"),
        (
            {"conditions": [{"type": "Ready", "status": "False", "reason": "NoMachineDeployments"}]},
            "NoMachineDeployments",
        ),
    ],
)
def test_a_pool_repeats_what_its_class_says(said: Object, reason: str) -> None:
    found = node_pool_with_status(node_pool(), {**node_class(), "status": said}, {}, NOW)
    conditions = {each["type"]: each for each in found["status"]["conditions"]}
    assert (conditions["NodeClassReady"]["status"], conditions["NodeClassReady"]["reason"]) == ("False", reason)


def test_pools_of_other_providers_are_not_ours() -> None:
    other = {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}
    assert is_managed_node_class(nodepool_template_spec(node_pool()))
    assert not is_managed_node_class(nodepool_template_spec(node_pool(template=other)))


def test_the_hash_is_of_what_nodes_are_not_of_how_it_is_written() -> None:
    one = node_pool(template={"taints": [taint("a"), taint("b")], "expireAfter": "1h"}, labels={"a": "b"})
    same = node_pool(
        requirements=[wants(ZONE, "In", "z")],
        template={"taints": [taint("b"), taint("a")], "expireAfter": "60m", "startupTaints": []},
        labels={"a": "b"},
    )
    assert nodepool_hash(one) == nodepool_hash(same)
    assert nodepool_hash(one).isdecimal()
    others = [
        node_pool(template={"taints": [taint("a")], "expireAfter": "1h"}, labels={"a": "b"}),
        node_pool(template={"taints": [taint("a"), taint("b")], "expireAfter": "2h"}, labels={"a": "b"}),
        node_pool(template={"taints": [taint("a"), taint("b")], "expireAfter": "1h"}, labels={"a": "c"}),
        node_pool(template={"taints": [], "startupTaints": [taint("a"), taint("b")]}, labels={"a": "b"}),
    ]
    assert len({nodepool_hash(each) for each in [one, *others]}) == 5


def test_a_claim_of_an_older_hash_is_not_outdated_by_that() -> None:
    hash_, version = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
    pool = node_pool()
    old: Object = {"metadata": {"name": "x", "annotations": {hash_: "1", version: "v2"}}}
    assert claim_hash_patch(pool, old) == {"metadata": {"annotations": {version: "v3", hash_: nodepool_hash(pool)}}}
    drifted = {**old, "status": {"conditions": [{"type": "Drifted", "status": "True"}]}}
    assert claim_hash_patch(pool, drifted) == {"metadata": {"annotations": {version: "v3"}}}
    assert claim_hash_patch(pool, {"metadata": {"name": "x", "annotations": {hash_: "1", version: "v3"}}}) is None
