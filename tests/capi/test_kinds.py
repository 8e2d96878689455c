"""Names and builders of Cluster API and of the embedded provider."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.apiextensions.validation import validate_crd
from shoal.kinds.clusterapi import capi, embedded
from shoal.kinds.shoal_crds import shoal_crds
from shoal.kinds.versions import KUBERNETES_VERSION
from tests.capi.management_cluster import Management

ANY = {"status": "False", "timeoutSeconds": 1}


def test_definitions_are_valid_and_name_the_contract() -> None:
    found = {crd["metadata"]["name"]: crd for crd in shoal_crds("root")}
    ours = [crd for name, crd in found.items() if name.endswith("cluster.x-k8s.io")]
    assert [validate_crd(crd) for crd in ours] == [[]] * len(ours)
    for name, short in (("clusters", "cl"), ("machines", "ma"), ("machinesets", "ms"), ("machinedeployments", "md")):
        assert found[f"{name}.cluster.x-k8s.io"]["spec"]["names"]["shortNames"] == [short]
    assert found["machinehealthchecks.cluster.x-k8s.io"]["spec"]["names"]["shortNames"] == ["mhc", "mhcs"]
    for name in ("embeddedclusters", "embeddedmachines", "embeddedmachinetemplates"):
        labels = found[f"{name}.infrastructure.cluster.x-k8s.io"]["metadata"]["labels"]
        assert labels["cluster.x-k8s.io/v1beta2"] == "v1alpha1"


def test_a_machine_without_a_version_has_the_servers() -> None:
    assert embedded.DEFAULT_KUBELET_VERSION == KUBERNETES_VERSION


@pytest.mark.parametrize(
    ("key", "propagated"),
    [
        ("node-role.kubernetes.io/worker", True),
        ("node-restriction.kubernetes.io/a", True),
        ("x.node.cluster.x-k8s.io/a", True),
        ("node.cluster.x-k8s.io/karpenter-member", True),
        ("cluster.x-k8s.io/cluster-name", False),
        ("team", False),
    ],
)
def test_labels_that_reach_nodes(key: str, propagated: bool) -> None:
    assert (key in capi.node_labels({key: ""})) is propagated


def test_addresses_stay_the_same_and_are_in_the_shared_range() -> None:
    (address, hostname) = embedded.node_addresses("default", "m")
    assert embedded.node_addresses("default", "m") == [address, hostname]
    first, second, *_ = (int(part) for part in address["address"].split("."))
    assert first == 100
    assert 64 <= second < 128


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": {}}, "spec.selector"),
        ({"checks": {"nodeStartupTimeoutSeconds": 10}}, "spec.checks.nodeStartupTimeoutSeconds"),
        ({"checks": {"unhealthyMachineConditions": [{**ANY, "type": "Ready"}]}}, "unhealthyMachineConditions[0].type"),
        ({"checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False"}]}}, "timeoutSeconds"),
        ({"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "some"}}}, "unhealthyLessThanOrEqualTo"),
        ({"remediation": {"triggerIf": {"unhealthyInRange": "3-5"}}}, "spec.remediation.triggerIf.unhealthyInRange"),
    ],
)
def test_health_checks_are_checked(management: Management, spec: dict[str, Any], field: str) -> None:
    whole = {"clusterName": "east", "selector": {"matchLabels": {"a": "b"}}, **spec}
    body = {"apiVersion": capi.API_VERSION, "kind": capi.MACHINE_HEALTH_CHECK, "metadata": {"name": "c"}, "spec": whole}
    answer = management.root.post(management.path("machinehealthchecks"), body)
    assert answer.status == 422
    assert field in answer["message"]


def test_health_checks_wait_ten_minutes_for_a_node(management: Management) -> None:
    spec = {"clusterName": "east", "selector": {"matchLabels": {"a": "b"}}}
    body = {"apiVersion": capi.API_VERSION, "kind": capi.MACHINE_HEALTH_CHECK, "metadata": {"name": "c"}, "spec": spec}
    made = management.root.post(management.path("machinehealthchecks"), body).ok()
    assert made["spec"]["checks"] == {"nodeStartupTimeoutSeconds": 600}
