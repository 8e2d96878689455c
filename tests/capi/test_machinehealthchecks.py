"""MachineHealthCheck decisions, one snapshot at a time: when a Machine is unhealthy, when it is remediated, and which
Machines are deleted.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.capi.machinehealthchecks import decide as checks
from shoal.capi.machinehealthchecks.health import HealthTarget, check_health, go_duration
from shoal.capi.machinesets.remediation import plan_remediation
from shoal.clock import rfc3339
from tests.capi.test_decide import DELETED, NOW, STAMP, machine, machine_set, made

Object = dict[str, Any]

NODE_DOWN = {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}
OLD = rfc3339(NOW - 1000)


def said(type_: str, status: str, since: float = NOW - 1000, reason: str = "Why") -> Object:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": rfc3339(since)}


def settled_cluster(**conditions: str) -> Object:
    states = {"ControlPlaneInitialized": "True", "InfrastructureReady": "True", **conditions}
    return made("Cluster", "east", {}, {"conditions": [said(type_, status) for type_, status in states.items()]})


def node(*conditions: Object) -> Object:
    return {"metadata": {"name": "n"}, "status": {"conditions": list(conditions)}}


def aged(name: str = "m", node_ref: bool = True, conditions: tuple[Object, ...] = (), **metadata: Any) -> Object:
    status = {"conditions": list(conditions), **({"nodeRef": {"name": "n"}} if node_ref else {})}
    labels = {"cluster.x-k8s.io/cluster-name": "east", "team": "blue"}
    return {**machine(name, creationTimestamp=OLD, labels=labels, **metadata), "status": status}


@pytest.mark.parametrize(
    ("found", "kubelet", "wanted", "status", "reason", "again"),
    [
        pytest.param(aged(), node(said("Ready", "True")), NODE_DOWN, "True", "HealthCheckSucceeded", None, id="fine"),
        pytest.param(aged(), node(said("Ready", "Unknown")), NODE_DOWN, "False", "UnhealthyNode", None, id="too long"),
        pytest.param(aged(), node(said("Ready", "Unknown", NOW - 100)), NODE_DOWN, None, None, 201.0, id="not yet"),
        pytest.param(aged(), node(said("Ready", "False")), NODE_DOWN, "True", "HealthCheckSucceeded", None, id="other"),
        pytest.param(aged(), None, NODE_DOWN, "False", "NodeDeleted", None, id="the Node is gone"),
        pytest.param(aged(node_ref=False), None, {}, "False", "NodeStartupTimeout", None, id="no Node comes"),
        pytest.param(
            aged(node_ref=False), None, {"nodeStartupTimeoutSeconds": 1100}, None, None, 101.0, id="it may come"
        ),
        pytest.param(aged(node_ref=False), None, {"nodeStartupTimeoutSeconds": 0}, None, None, None, id="for ever"),
        pytest.param(
            aged(node_ref=False, conditions=(said("InfrastructureReady", "True", NOW - 10),)),
            None, {}, None, None, 591.0, id="counted from when the infrastructure was there",
        ),
        pytest.param(
            aged(annotations={"cluster.x-k8s.io/remediate-machine": ""}), node(said("Ready", "True")),
            {}, "False", "HasRemediateAnnotation", None, id="marked by hand",
        ),
        pytest.param(
            aged(conditions=(said("DiskOk", "False"),)), node(said("Ready", "True")),
            {"unhealthyMachineConditions": [{"type": "DiskOk", "status": "False", "timeoutSeconds": 60}]},
            "False", "UnhealthyMachine", None, id="a condition of the Machine",
        ),
        pytest.param(aged(**DELETED), node(said("Ready", "True")), {}, None, None, None, id="on its way out"),
    ],
)  # fmt: skip
def test_verdicts(
    found: Object, kubelet: Object | None, wanted: Object, status: str | None, reason: str | None, again: float | None
) -> None:
    got = check_health(wanted, HealthTarget(found, kubelet, settled_cluster()), NOW)
    assert (got.condition and got.condition.status, got.condition and got.condition.reason) == (status, reason)
    assert got.requeue_after == again


def test_all_reasons_are_told() -> None:
    wanted = {**NODE_DOWN, "unhealthyMachineConditions": [{"type": "DiskOk", "status": "False", "timeoutSeconds": 60}]}
    found = aged(conditions=(said("DiskOk", "False"),))
    got = check_health(
        wanted, HealthTarget(found, node(said("Ready", "Unknown", reason="Lost")), settled_cluster()), NOW
    )
    assert got.condition is not None
    assert got.condition.message == (
        "Health check failed:\n"
        "  * Condition DiskOk on Machine is reporting status False with reason Why for more than 1m0s\n"
        "  * Condition Ready on Node is reporting status Unknown with reason Lost for more than 5m0s"
    )


@pytest.mark.parametrize("missing", ["ControlPlaneInitialized", "InfrastructureReady"])
def test_machines_are_not_blamed_for_their_cluster(missing: str) -> None:
    cluster = settled_cluster(**{missing: "False"})
    assert check_health({}, HealthTarget(aged(node_ref=False), None, cluster), NOW).condition is None


def test_control_plane_machines_are_looked_at_before_there_is_a_control_plane() -> None:
    first = aged(node_ref=False)
    first["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = ""
    cluster = settled_cluster(ControlPlaneInitialized="False")
    assert check_health({}, HealthTarget(first, None, cluster), NOW).is_unhealthy


def test_durations_as_go_prints_them() -> None:
    assert [go_duration(each) for each in (0, 30, 60, 300, 3600, 3725)] == [
        "0s", "30s", "1m0s", "5m0s", "1h0m0s", "1h2m5s",
    ]  # fmt: skip


def check(remediation: Object | None = None, **metadata: Any) -> Object:
    spec: Object = {"clusterName": "east", "selector": {"matchLabels": {"team": "blue"}}}
    return made(
        "MachineHealthCheck", "c", {**spec, **({"remediation": remediation} if remediation else {})}, **metadata
    )


@pytest.mark.parametrize(
    ("trigger", "total", "unhealthy", "allowed", "left"),
    [
        ({}, 3, 3, "True", 0),
        ({"unhealthyLessThanOrEqualTo": "40%"}, 5, 2, "True", 0),
        ({"unhealthyLessThanOrEqualTo": "40%"}, 5, 3, "False", 0),
        ({"unhealthyLessThanOrEqualTo": "50%"}, 3, 1, "True", 0),
        ({"unhealthyLessThanOrEqualTo": 3}, 10, 1, "True", 2),
        ({"unhealthyLessThanOrEqualTo": 0}, 10, 1, "False", 0),
        ({"unhealthyInRange": "[2-4]"}, 10, 1, "False", 0),
        ({"unhealthyInRange": "[2-4]"}, 10, 3, "True", 1),
        ({"unhealthyInRange": "[2-4]", "unhealthyLessThanOrEqualTo": 1}, 10, 3, "True", 1),
        ({"unhealthyInRange": "[2-4]"}, 10, 5, "False", 0),
    ],
)
def test_too_many_unhealthy_machines_are_left_alone(
    trigger: Object, total: int, unhealthy: int, allowed: str, left: int
) -> None:
    got = checks.remediation_allowance(check({"triggerIf": trigger}), total, unhealthy)
    assert (got.condition.status, got.remaining) == (allowed, left)
    assert (got.condition.reason == "TooManyUnhealthy") == (allowed == "False")


def test_external_remediation_is_refused_by_name() -> None:
    template = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "RebootTemplate", "name": "r"}
    got = checks.remediation_allowance(check({"templateRef": template}), 3, 1).condition
    assert (got.status, got.reason) == ("False", "ExternalRemediationNotSupported")
    assert got.message.startswith("spec.remediation.templateRef: RebootTemplate: external remediation is not supported")


def conditions(obj: Object) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in obj["status"]["conditions"]}


def test_what_a_check_writes() -> None:
    bad, good = aged("bad"), aged("good")
    skipped = aged("skipped", annotations={"cluster.x-k8s.io/skip-remediation": ""})
    red = aged("red")
    red["metadata"]["labels"]["team"] = "red"
    fine = node(said("Ready", "True"))
    seen = checks.HealthCheckSnapshot(
        check(), settled_cluster(), [(bad, None), (good, fine), (skipped, None), (red, None)]
    )
    decision = checks.decide(seen, NOW, STAMP)
    assert decision.patch is not None
    assert decision.patch["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "east"}
    assert {each["metadata"]["name"]: conditions(each) for each in decision.machine_statuses} == {
        "bad": {
            "HealthCheckSucceeded": ("False", "NodeDeleted"),
            "OwnerRemediated": ("False", "WaitingForRemediation"),
        },
        "good": {"HealthCheckSucceeded": ("True", "HealthCheckSucceeded")},
    }
    assert decision.status is not None
    status = decision.status["status"]
    assert (status["expectedMachines"], status["currentHealthy"], status["remediationsAllowed"]) == (2, 1, 1)
    assert status["targets"] == ["bad", "good"]
    assert status["observedGeneration"] == 1
    again = checks.HealthCheckSnapshot(
        decision.status, settled_cluster(), [(each, fine) for each in decision.machine_statuses[1:]]
    )
    assert checks.decide(again, NOW, STAMP).machine_statuses == ()


def test_nothing_is_handed_over_when_too_many_are_unhealthy() -> None:
    none_allowed = check({"triggerIf": {"unhealthyLessThanOrEqualTo": 0}})
    decision = checks.decide(checks.HealthCheckSnapshot(none_allowed, settled_cluster(), [(aged(), None)]), NOW, STAMP)
    assert [conditions(each) for each in decision.machine_statuses] == [
        {"HealthCheckSucceeded": ("False", "NodeDeleted")}
    ]


def test_a_paused_check_does_nothing() -> None:
    paused = check(annotations={"cluster.x-k8s.io/paused": ""})
    decision = checks.decide(checks.HealthCheckSnapshot(paused, settled_cluster(), [(aged(), None)]), NOW, STAMP)
    assert (decision.patch, decision.machine_statuses) == (None, ())
    assert decision.status is not None
    assert conditions(decision.status) == {"Paused": ("True", "Paused")}


def unhealthy(name: str, reason: str = "WaitingForRemediation", **metadata: Any) -> Object:
    found = (said("HealthCheckSucceeded", "False"), said("OwnerRemediated", "False", reason=reason))
    return aged(name, conditions=found, **metadata)


def deployment(limit: object, revision: str = "1") -> Object:
    spec = {"replicas": 10, **({"remediation": {"maxInFlight": limit}} if limit is not None else {})}
    revisions = {"machinedeployment.clusters.x-k8s.io/revision": revision}
    return made("MachineDeployment", "d", spec, annotations=revisions)


OWN = machine_set(10, annotations={"machinedeployment.clusters.x-k8s.io/revision": "1"})


@pytest.mark.parametrize(
    ("above", "machines", "deleted", "reasons"),
    [
        pytest.param(
            None, [unhealthy("a"), unhealthy("b"), aged("c")], ["a", "b"],
            {"a": "MachineDeleting", "b": "MachineDeleting"}, id="all at once",
        ),
        pytest.param(
            deployment(1), [unhealthy("a"), unhealthy("b")], ["a"],
            {"a": "MachineDeleting", "b": "RemediationDeferred"}, id="one at a time",
        ),
        pytest.param(
            deployment("15%"), [unhealthy(name) for name in "abc"], ["a", "b"],
            {"a": "MachineDeleting", "b": "MachineDeleting", "c": "RemediationDeferred"}, id="a share, rounded up",
        ),
        pytest.param(
            deployment(1), [unhealthy("a", "MachineDeleting", **DELETED), unhealthy("b")], [],
            {"b": "RemediationDeferred"}, id="one is on its way out",
        ),
        pytest.param(
            deployment(1), [unhealthy("a"), unhealthy("b", annotations={"cluster.x-k8s.io/remediate-machine": ""})],
            ["b"], {"a": "RemediationDeferred", "b": "MachineDeleting"}, id="those marked by hand first",
        ),
        pytest.param(
            deployment(None, "2"), [unhealthy("a")], [], {"a": "CannotBeRemediated"}, id="the rollout replaces it",
        ),
        pytest.param(None, [unhealthy("a", **DELETED)], [], {}, id="it goes already"),
    ],
)  # fmt: skip
def test_remediation(above: Object | None, machines: list[Object], deleted: list[str], reasons: dict[str, str]) -> None:
    got = plan_remediation(OWN, above, machines, STAMP)
    assert [each["metadata"]["name"] for each in got.delete] == deleted
    assert {
        each["metadata"]["name"]: conditions(each)["OwnerRemediated"][1] for each in got.machine_statuses
    } == reasons


def test_newer_machines_go_first() -> None:
    young = unhealthy("z")
    young["metadata"]["creationTimestamp"] = STAMP
    got = plan_remediation(OWN, deployment(1), [unhealthy("a"), young], STAMP)
    assert [each["metadata"]["name"] for each in got.delete] == ["z"]


def test_a_machine_that_is_well_again_stays() -> None:
    found = (said("HealthCheckSucceeded", "True"), said("OwnerRemediated", "False"))
    got = plan_remediation(OWN, None, [aged("a", conditions=found)], STAMP)
    assert got.delete == ()
    assert [conditions(each) for each in got.machine_statuses] == [{"HealthCheckSucceeded": ("True", "Why")}]
