"""Provisioning against the running server: unschedulable pods become NodeClaims, Machines and Nodes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects.conditions import condition_is, get_condition
from tests.provision.hosted import (
    CAPACITY,
    CLAIMS,
    CLASSES,
    DEPLOYMENTS,
    NODES,
    PODS,
    POOLS,
    Hosted,
    Object,
    deployment,
    node_class,
    node_pool,
    pod,
    size_objects,
)

TYPE = "node.kubernetes.io/instance-type"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
REJECT_CLAIMS: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-claims"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["karpenter.sh"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["nodeclaims"],
                }
            ]
        },
        "validations": [{"expression": "false", "message": "not today"}],
    },
}
REJECT_CLAIMS_BINDING: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-claims"},
    "spec": {"policyName": "no-claims", "validationActions": ["Deny"]},
}


def ready(hosted: Hosted, path: str, condition: str = "Ready") -> Object:
    def look() -> Object | None:
        found: Object = hosted.cluster.get(path).json
        return found if condition_is(found, condition) else None

    found = hosted.eventually(look)
    assert found is not None
    return found


def test_pending_pods_become_nodes_of_the_cheapest_type_and_go_again(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 3)).ok()
    hosted.running(3)
    (claim,) = hosted.bought()
    assert claim["metadata"]["labels"][TYPE] == "small"
    (node,) = hosted.items(NODES)
    assert node["spec"]["providerID"] == claim["status"]["providerID"]
    (event, *_) = hosted.eventually(lambda: hosted.events("Nominated"))
    assert event == f"Pod should schedule on: nodeclaim/{claim['metadata']['name']}"
    hosted.eventually(lambda: _with_nodes(hosted, "1"))
    whole = {"cpu": "2", "memory": "8Gi", "nodes": "1", "pods": "110"}
    hosted.eventually(lambda: whole.items() <= _with_nodes(hosted, "1")["status"]["resources"].items())
    hosted.cluster.delete(f"{DEPLOYMENTS}/web").ok()
    hosted.eventually(lambda: not hosted.items(CLAIMS) and not hosted.machines() and not hosted.items(NODES))
    assert hosted.replicas() == {"small": 0, "medium": 0, "large": 0}
    left = hosted.eventually(lambda: _with_nodes(hosted, "0"))["status"]["resources"]
    assert set(left.values()) == {"0"}


def _with_nodes(hosted: Hosted, count: str) -> Object:
    found: Object = hosted.cluster.get(f"{POOLS}/default").ok()
    return found if (found["status"].get("resources") or {}).get("nodes") == count else {}


def test_many_pods_are_bought_for_at_once(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 40)).ok()
    hosted.running(40)
    types = [each["metadata"]["labels"][TYPE] for each in hosted.bought()]
    cost = sum({"small": 0.04, "medium": 0.08, "large": 0.30}[each] for each in types)
    assert round(cost, 2) <= 0.40
    assert len(hosted.machines()) == len(types) == sum(hosted.replicas().values())
    owners = {each["metadata"]["annotations"]["karpenter.sh/nodeclaim"] for each in hosted.machines()}
    assert owners == {each["metadata"]["name"] for each in hosted.items(CLAIMS)}


def test_a_node_is_registered_then_initialised(hosted: Hosted) -> None:
    startup = {"key": "example.com/agent", "effect": "NoSchedule"}
    taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
    hosted.pool(labels={"team": "blue"}, template={"taints": [taint], "startupTaints": [startup]})
    tolerations = [{"key": "team", "operator": "Exists"}]
    hosted.cluster.post(PODS, pod("one", tolerations=tolerations)).ok()
    claim = hosted.eventually(lambda: next(iter(hosted.items(CLAIMS)), None))
    assert claim is not None
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    claim = ready(hosted, path, "Registered")
    node = hosted.cluster.get(f"{NODES}/{claim['status']['nodeName']}").ok()
    labels = node["metadata"]["labels"]
    assert {
        "team": "blue",
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/registered": "true",
    }.items() <= labels.items()
    assert "karpenter.sh/initialized" not in labels
    keys = {each["key"] for each in node["spec"]["taints"]}
    assert {"team", "example.com/agent"} <= keys
    assert "karpenter.sh/unregistered" not in keys
    assert node["metadata"]["ownerReferences"][0]["uid"] == claim["metadata"]["uid"]
    hosted.eventually(lambda: _reason(hosted.cluster.get(path).ok(), "Initialized") == "StartupTaintsExist")
    assert not condition_is(hosted.cluster.get(path).ok(), "Ready")
    # The agent has done its work.
    hosted.eventually(lambda: _without_taint(hosted, node["metadata"]["name"], "example.com/agent"))
    claim = ready(hosted, path)
    assert {"cpu": "2", "memory": "8Gi", "pods": "110"}.items() <= claim["status"]["allocatable"].items()
    hosted.running(1)
    labels = hosted.cluster.get(f"{NODES}/{node['metadata']['name']}").ok()["metadata"]["labels"]
    assert labels["karpenter.sh/initialized"] == "true"


def _reason(obj: Object, condition: str) -> Any:
    return (get_condition(obj, condition) or {}).get("reason")


def _without_taint(hosted: Hosted, name: str, key: str) -> bool:
    node = hosted.cluster.get(f"{NODES}/{name}").ok()
    node["spec"]["taints"] = [each for each in node["spec"].get("taints") or () if each["key"] != key]
    return hosted.cluster.put(f"{NODES}/{name}", node).status == 200


def test_pods_that_fit_nothing_are_told_why(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(PODS, pod("giant", "100")).ok()
    wanted = 'nodepool "default", no instance type has enough resources for cpu=100'
    hosted.eventually(lambda: any(wanted in each for each in hosted.events("FailedScheduling")))
    assert not hosted.items(CLAIMS)


def test_pods_are_told_that_there_is_no_node_pool_and_that_none_is_ready(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.provision.provisioning.controller.NO_POOL_DELAY_SECONDS", 0.1)
    hosted.cluster.post(PODS, pod("one", "1")).ok()
    hosted.eventually(lambda: any("no NodePool exists" in each for each in hosted.events("FailedScheduling")))
    hosted.cluster.post(POOLS, node_pool()).ok()
    wanted = 'NodePool "default" is not ready, NodeClassReady: NodeClassNotFound'
    hosted.eventually(lambda: any(wanted in each for each in hosted.events("FailedScheduling")))
    hosted.cluster.post(CLASSES, node_class()).ok()
    hosted.running(1)


def test_a_selector_chooses_among_those_that_take_part(hosted: Hosted) -> None:
    stranger = size_objects("east", "small")
    for each in stranger:
        each["metadata"]["name"] = "east-stranger"
    stranger[1]["metadata"]["labels"] = {"size": "medium"}
    hosted.put(*stranger)
    hosted.cluster.post(CLASSES, node_class(selector={"matchLabels": {"size": "medium"}})).ok()
    hosted.cluster.post(POOLS, node_pool()).ok()
    hosted.cluster.post(PODS, pod("one", "100m")).ok()
    hosted.running(1)
    (claim,) = hosted.bought()
    assert claim["metadata"]["labels"][TYPE] == "medium"
    assert hosted.replicas() == {"small": 0, "medium": 1, "large": 0, "stranger": 0}


def test_limits_of_the_pool_and_sizes_of_deployments_hold(hosted: Hosted) -> None:
    for larger in ("medium", "large"):
        hosted.root.delete(hosted.path("machinedeployments", f"east-{larger}")).ok()
    size = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "2"}
    hosted.root.patch(hosted.path("machinedeployments", "east-small"), {"metadata": {"annotations": size}}).ok()
    hosted.pool()
    for number in range(4):
        hosted.cluster.post(PODS, pod(f"p{number}", "1500m")).ok()
    hosted.running(2)
    hosted.eventually(lambda: len(hosted.events("FailedScheduling")) >= 2)
    assert hosted.replicas() == {"small": 2}
    assert len(hosted.items(CLAIMS)) == 2
    more = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9"}
    hosted.root.patch(hosted.path("machinedeployments", "east-small"), {"metadata": {"annotations": more}}).ok()
    hosted.running(4)
    hosted.cluster.patch(f"{POOLS}/default", {"spec": {"limits": {"cpu": "8"}}}).ok()
    hosted.cluster.post(PODS, pod("p9", "1500m")).ok()
    hosted.eventually(lambda: any("exceed limits" in each for each in hosted.events("FailedScheduling")))
    assert len(hosted.items(CLAIMS)) == 4


@pytest.mark.parametrize("label", ["", "karpenter.sh/reservation-id", "shoal.dev/reservation-id"])
def test_reserved_machines_are_bought_first_and_as_many_as_there_are(hosted: Hosted, label: str) -> None:
    template, deployment_ = size_objects(
        "east", "small", cluster_api_autoscaler_node_group_max_size="1", machine_current_price="0.01"
    )
    annotations = deployment_["metadata"]["annotations"]
    annotations[f"{CAPACITY}/labels"] += ",karpenter.sh/capacity-type=reserved" + (f",{label}=r-1" if label else "")
    for each in (template, deployment_):
        each["metadata"]["name"] = "east-reserved"
    hosted.put(template, deployment_)
    hosted.pool()
    for number in range(2):
        hosted.cluster.post(PODS, pod(f"p{number}", "1500m")).ok()
    hosted.running(2)
    found = {each["metadata"]["labels"]["karpenter.sh/capacity-type"]: each for each in hosted.bought()}
    assert found.keys() == {"reserved", "on-demand"}
    reservation: Object = {"key": "shoal.dev/reservation-id", "operator": "In"}
    reservation["values"] = ["r-1" if label else f"{hosted.namespace}.east-reserved"]
    assert reservation in found["reserved"]["spec"]["requirements"]
    assert hosted.replicas()["reserved"] == 1


def test_a_rejected_nodeclaim_is_an_event_of_its_pods(hosted: Hosted) -> None:
    hosted.cluster.post(POLICIES, REJECT_CLAIMS).ok()
    hosted.cluster.post(BINDINGS, REJECT_CLAIMS_BINDING).ok()
    hosted.pool()
    hosted.cluster.post(PODS, pod("one")).ok()
    wanted = "Failed to schedule pod, the NodeClaim was rejected: "
    hosted.eventually(
        lambda: any(each.startswith(wanted) and "not today" in each for each in hosted.events("FailedScheduling"))
    )
    assert not hosted.items(CLAIMS)


def test_a_pool_says_what_keeps_it_from_buying(hosted: Hosted) -> None:
    hosted.cluster.post(POOLS, node_pool()).ok()
    path = f"{POOLS}/default"
    hosted.eventually(lambda: _reason(hosted.cluster.get(path).ok(), "NodeClassReady") == "NodeClassNotFound")
    pool = hosted.cluster.get(path).ok()
    assert condition_is(pool, "ValidationSucceeded")
    assert condition_is(pool, "Ready", "False")
    hosted.cluster.post(PODS, pod("one")).ok()
    hosted.cluster.post(CLASSES, node_class()).ok()
    ready(hosted, path)
    hosted.running(1)
    ruled_out = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["x"]}]
    refused = hosted.cluster.post(POOLS, node_pool("bad", ruled_out))
    assert (refused.status, 'label "kubernetes.io/hostname" is restricted' in refused["message"]) == (422, True)


def test_a_static_pool_has_as_many_nodes_as_it_says(hosted: Hosted) -> None:
    hosted.pool(
        replicas=2,
        limits={"nodes": "3"},
        disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        requirements=[{"key": TYPE, "operator": "In", "values": ["small"]}],
    )
    hosted.eventually(lambda: len(hosted.items(NODES)) == 2)
    assert [each["metadata"]["labels"][TYPE] for each in hosted.bought()] == ["small", "small"]
    hosted.cluster.post(PODS, pod("one", "1500m")).ok()
    (running,) = hosted.running(1)
    for number in range(2):
        hosted.cluster.post(PODS, pod(f"p{number}", "1500m")).ok()
    hosted.running(2)
    hosted.eventually(lambda: hosted.events("FailedScheduling"))
    hosted.cluster.patch(f"{POOLS}/default/scale", {"spec": {"replicas": 9}}).ok()
    hosted.running(3)
    assert len(hosted.items(CLAIMS)) == 3, "limits.nodes holds"
    for number in range(2):
        hosted.cluster.delete(f"{PODS}/p{number}").ok()
    hosted.cluster.patch(f"{POOLS}/default/scale", {"spec": {"replicas": 1}}).ok()
    hosted.eventually(lambda: len(hosted.items(NODES)) == 1)
    (left,) = hosted.items(NODES)
    assert left["metadata"]["name"] == running["spec"]["nodeName"], "nodes with pods are deleted last"


def test_a_class_without_machine_deployments_is_not_ready(hosted: Hosted) -> None:
    hosted.cluster.post(CLASSES, node_class("none", {"matchLabels": {"size": "none"}})).ok()
    hosted.eventually(lambda: _reason(hosted.cluster.get(f"{CLASSES}/none").ok(), "Ready") == "NoMachineDeployments")


def test_columns(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(PODS, pod("one")).ok()
    hosted.running(1)
    table = hosted.cluster.get(CLAIMS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok()
    names = [column["name"] for column in table["columnDefinitions"] if not column.get("priority")]
    assert names == ["Name", "Type", "Capacity", "Zone", "Node", "Ready", "Age"]
    cells = dict(zip(names, table["rows"][0]["cells"], strict=False))
    assert (cells["Type"], cells["Capacity"], cells["Zone"]) == ("small", "on-demand", "embedded-a")
