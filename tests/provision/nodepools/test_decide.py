"""Table tests of small decisions: durations, NodePool status."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.kinds.karpenter.karpenter import nodepool_hash, parse_duration
from shoal.objects.conditions import condition_is
from shoal.provision.nodepools.decide import hash_patch, node_class_error, node_pool_with_status, validation_error
from tests.provision.hosted import Object, node_class, node_pool

NOW = 1_700_000_000.0
STAMP = rfc3339(NOW)
TAINT = {"key": "team", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0s", 0.0), ("1h30m", 5400.0), ("90s", 90.0), ("Never", None), ("", None), ("soon", None), ("5", None)],
)
def test_durations(text: str, wanted: float | None) -> None:
    assert parse_duration(text) == wanted


def expression(key: str, operator: str = "In", *values: str, **more: Any) -> Object:
    return {"key": key, "operator": operator, "values": list(values), **more}


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (expression("topology.kubernetes.io/zone", "In", "a"), ""),
        (expression("node.cluster.x-k8s.io/pool", "In", "a"), ""),
        (expression("example.com/team", "Exists"), ""),
        (expression("kubernetes.io/hostname", "In", "a"), 'label "kubernetes.io/hostname" is restricted'),
        (expression("karpenter.sh/nodepool", "In", "a"), 'label "karpenter.sh/nodepool" is restricted'),
        (expression("karpenter.sh/other", "In", "a"), 'label domain "karpenter.sh" is restricted'),
        (expression("x.kubernetes.io/y", "In", "a"), ""),
        (expression("example.com/x", "In"), "key example.com/x with operator In must have a value defined"),
        (expression("example.com/x", "Gt", "many"), "operator Gt must have a single positive integer value"),
        (expression("example.com/x", "In", "a", minValues=2), "must have at least minimum number of values defined"),
    ],
)
def test_what_is_wrong_with_a_pool(requirement: Object, said: str) -> None:
    found = validation_error(node_pool(requirements=[requirement]))
    assert said in found
    assert bool(said) == bool(found)


def test_a_pool_speaks_for_its_class() -> None:
    ready = node_class() | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    unready = node_class() | {"status": {"conditions": [{"type": "Ready", "status": "False", "message": "why"}]}}
    assert node_class_error(node_pool(), ready) is None
    assert node_class_error(node_pool(), unready) == ("NodeClassNotReady", "why")
    assert node_class_error(node_pool(), None) == ("NodeClassNotFound", "NodeClass 'default' not found on cluster")
    found = node_pool_with_status(node_pool(), ready, {"nodes": 2, "cpu": 6000}, STAMP)
    assert condition_is(found, "Ready")
    assert found["status"]["nodes"] == 2
    assert node_pool_with_status(found, ready, {"nodes": 2, "cpu": 6000}, STAMP) is found


def test_the_hash_of_a_pool_leaves_out_its_requirements() -> None:
    one = node_pool()
    assert nodepool_hash(one) == nodepool_hash(node_pool(requirements=[expression("x", "Exists")], weight=3))
    assert nodepool_hash(one) != nodepool_hash(node_pool(template={"taints": [TAINT]}))
    patch = hash_patch(one)
    assert patch is not None
    one["metadata"]["annotations"] = patch["metadata"]["annotations"]
    assert hash_patch(one) is None
