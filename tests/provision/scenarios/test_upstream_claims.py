"""Contents of NodeClaims and pod requests, as in Karpenter's provisioning suite."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import parse_amounts
from shoal.provision.simulator import fake
from tests.provision.scenarios.conftest import Make, default_types
from tests.provision.scenarios.words import (
    ARCH,
    ARM,
    POOL,
    SYSTEM,
    TYPE,
    absent,
    daemon,
    expression,
    outside,
    pod,
    pods,
    pool,
    there,
    within,
)
from tests.provision.scenarios.world import World

Object = dict[str, Any]


def claim_of(world: World) -> Object:
    (found,) = world.claims.values()
    return found


# --- its requirements, labels and requests ---


@pytest.mark.parametrize(
    ("requirements", "asked", "found"),
    [
        ([], {}, {TYPE: {each.name for each in default_types()}, POOL: {"default"}}),
        ([within("key", "value"), within("key2", "value")], {}, {"key": {"value"}, "key2": {"value"}}),
        ([within(ARCH, "arm64")], {}, {ARCH: {"arm64"}, TYPE: {ARM}}),
        ([within(SYSTEM, "ios")], {}, {SYSTEM: {"ios"}, TYPE: {ARM}}),
        ([], {"requests": {fake.VENDOR_A: "1"}}, {TYPE: {"gpu-vendor-instance-type"}}),
    ],
    ids=["all types", "custom keys", "architecture", "operating system", "resources"],
)
def test_requirements(rule: Make, requirements: list[Object], asked: Object, found: dict[str, set[str]]) -> None:
    world = rule(pool("default", *requirements))
    world.provision(pod(**asked))
    wanted = from_expressions(claim_of(world)["spec"]["requirements"])
    assert {key: set(wanted[key].values) for key in found} == found
    assert "kubernetes.io/hostname" not in wanted


def test_labels_of_every_kind_of_requirement(rule: Make) -> None:
    listed = [
        within("key-2", "value-2"),
        outside("key-3", "value-3"),
        expression("key-4", "Lt", "4"),
        expression("key-5", "Gt", "5"),
        there("key-6"),
        absent("key-7"),
        outside("node.kubernetes.io/windows-build", "no"),
    ]
    world = rule(pool("default", *listed, labels={"key-1": "value-1"}))
    asked = pod()
    world.provision(asked)
    labels = world.labels_of(asked)
    assert (labels[POOL], labels["key-1"], labels["key-2"]) == ("default", "value-1", "value-2")
    assert labels.get("key-3", "") != "value-3"
    assert int(labels["key-4"]) < 4
    assert int(labels["key-5"]) > 5
    assert "key-6" in labels
    assert "key-7" not in labels
    assert labels.get("node.kubernetes.io/windows-build", "") != "no"


def test_owner_class_and_template(rule: Make) -> None:
    own = pool("default", template={"terminationGracePeriod": "1h", "expireAfter": "48h"})
    own["spec"]["template"]["metadata"] = {"annotations": {"team": "a"}}
    world = rule(own)
    world.provision(pod())
    found = claim_of(world)
    (owner,) = found["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "name": "default",
        "uid": own["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    assert found["spec"]["nodeClassRef"] == own["spec"]["template"]["spec"]["nodeClassRef"]
    assert (found["spec"]["terminationGracePeriod"], found["spec"]["expireAfter"]) == ("1h", "48h")
    assert found["metadata"]["annotations"]["team"] == "a"


@pytest.mark.parametrize(
    ("count", "asked", "daemons", "requests"),
    [
        (
            1,
            {"cpu": "1", "memory": "1Mi", "requests": {fake.VENDOR_A: "1"}},
            [],
            {"cpu": "1", "memory": "1Mi", fake.VENDOR_A: "1", "pods": "1"},
        ),
        (
            1,
            {"cpu": "1", "memory": "1Mi"},
            [{"cpu": "1", "memory": "1Mi"}],
            {"cpu": "2", "memory": "2Mi", "pods": "2"},
        ),
        (
            2,
            {"cpu": "1", "memory": "1Mi"},
            [{"cpu": "1", "memory": "1Mi"}],
            {"cpu": "3", "memory": "3Mi", "pods": "3"},
        ),
    ],
    ids=["of the pod", "with the DaemonSet's", "with the DaemonSet's once"],
)
def test_requests(rule: Make, count: int, asked: Object, daemons: list[Object], requests: dict[str, str]) -> None:
    world = rule()
    world.daemons = [daemon(**each) for each in daemons]
    world.provision(*pods(count, **asked))
    assert parse_amounts(claim_of(world)["spec"]["resources"]["requests"]) == parse_amounts(requests)


# --- containers that run at once, and after one another ---

SIZES = [
    *default_types(),
    *(
        fake.fake_type(f"size-{cpu}", {"cpu": str(cpu), "memory": f"{memory}Gi"})
        for cpu, memory in ((10, 4), (11, 5), (12, 6))
    ),
]


def container(cpu: str, memory: str, *, sidecar: bool = False) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": f"c{cpu}".replace(".", "-"), "image": "registry.example/c:1", "resources": resources, **always}


@pytest.mark.parametrize(
    ("asked", "inits", "more", "kind"),
    [
        (("6", "2Gi"), [container("10", "4Gi"), container("4.9", "2.9Gi", sidecar=True)], {}, "size-11"),
        (("6", "2Gi"), [container("4.9", "2.9Gi", sidecar=True), container("5", "1Gi")], {}, "size-11"),
        (("5", "1Gi"), [container("4.9", "2.9Gi", sidecar=True), container("6", "2Gi")], {}, "size-11"),
        (
            ("5", "1Gi"),
            [container("6", "2Gi"), container("4", "2Gi", sidecar=True)],
            {"resources": {"requests": {"cpu": "9.9", "memory": "3.9Gi"}}},
            "size-10",
        ),
    ],
    ids=["init first", "sidecar first, small init", "sidecar first, large init", "of the pod as a whole"],
)
def test_sidecars_and_init_containers(
    make: Make, asked: tuple[str, str], inits: list[Object], more: Object, kind: str
) -> None:
    world = make(types=SIZES)
    wanted = pod(cpu=asked[0], memory=asked[1], initContainers=inits, **more)
    world.provision(wanted)
    assert world.labels_of(wanted)[TYPE] == kind
