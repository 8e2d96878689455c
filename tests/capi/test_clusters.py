"""One manifest creates a Cluster with three Machines; its deletion leaves nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shoal.client.kubeconfig import load
from shoal.client.rest import GroupVersionResource
from tests.capi.management_cluster import LOGICAL, Management, condition

Object = dict[str, Any]

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)


@pytest.mark.anyio
async def test_one_file_makes_a_cluster_whose_kubeconfig_works(management: Management, tmp_path: Path) -> None:
    management.apply()
    machines = {machine["metadata"]["name"] for machine in management.settled(3)}
    client = load(management.kubeconfig(tmp_path / "kubeconfig"))
    try:
        nodes, _ = await client.list_all(NODES)
        version = await client.request("GET", "/version")
    finally:
        await client.close()
    assert {node["metadata"]["name"] for node in nodes} == machines
    assert version["gitVersion"].startswith("v1.35.1")


def available(management: Management) -> Object | None:
    cluster = management.get("clusters", "east")
    return cluster if (condition(cluster, "Available") or {}).get("status") == "True" else None


def test_a_provisioned_cluster_says_so(management: Management) -> None:
    management.apply()
    management.settled(3)
    cluster = management.eventually(lambda: available(management))
    assert cluster is not None
    status = cluster["status"]
    assert status["phase"] == "Provisioned"
    assert status["initialization"] == {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
    assert status["observedGeneration"] == cluster["metadata"]["generation"]
    assert cluster["metadata"]["finalizers"] == ["cluster.cluster.x-k8s.io"]
    assert cluster["spec"]["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": management.server.port}
    states = {found["type"]: found["status"] for found in status["conditions"]}
    bad_when_true = {"RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused"}
    assert states == {type_: "False" if type_ in bad_when_true else "True" for type_ in states}
    assert {"Available", "InfrastructureReady", "ControlPlaneInitialized", "WorkersAvailable"} <= states.keys()


def test_what_a_cluster_refers_to_is_owned_and_labelled(management: Management) -> None:
    management.apply()
    management.settled(3)
    uid = management.get("clusters", "east")["metadata"]["uid"]
    for plural, name in (
        ("embeddedclusters", "east"),
        ("embeddedmachinetemplates", "east-default"),
        ("machinedeployments", "east-default"),
        ("secrets", "east-kubeconfig"),
    ):
        metadata = management.get(plural, name)["metadata"]
        assert metadata["labels"]["cluster.x-k8s.io/cluster-name"] == "east", plural
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [uid], plural
    assert management.get("secrets", "east-kubeconfig")["type"] == "cluster.x-k8s.io/secret"


def test_deletion_leaves_nothing(management: Management) -> None:
    management.eventually(lambda: ("serviceaccounts", "default") in management.everything())
    before = management.everything()
    management.apply()
    management.settled(3)
    management.delete("clusters", "east")
    management.eventually(lambda: mine(management, management.everything()) == mine(management, before))


def mine(management: Management, found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Logical clusters of other tests come and go meanwhile."""
    return {
        (plural, name)
        for plural, name in found
        if plural != "logicalclusters" or name.startswith(f"{management.namespace}.")
    }


@pytest.mark.usefixtures("impatient_namespaces")
def test_deletion_of_the_namespace_leaves_nothing(management: Management) -> None:
    management.apply()
    management.settled(3)
    management.root.delete(f"/api/v1/namespaces/{management.namespace}").ok()
    management.eventually(lambda: management.root.get(f"/api/v1/namespaces/{management.namespace}").status == 404)
    assert management.root.get(f"{LOGICAL}/{management.namespace}.east").status == 404


def test_a_lost_kubeconfig_comes_back(management: Management) -> None:
    management.apply()
    management.settled(3)
    uid = management.get("secrets", "east-kubeconfig")["metadata"]["uid"]
    management.delete("secrets", "east-kubeconfig")

    def back() -> bool:
        answer = management.root.get(management.path("secrets", "east-kubeconfig"))
        return answer.status == 200 and answer["metadata"]["uid"] != uid

    management.eventually(back)


def is_paused(management: Management, plural: str, name: str) -> bool:
    return (condition(management.get(plural, name), "Paused") or {}).get("status") == "True"


def test_nothing_is_done_while_paused(management: Management) -> None:
    management.apply()
    management.settled(3)
    management.patch("clusters", "east", {"spec": {"paused": True}})
    for plural, name in (("clusters", "east"), ("machinedeployments", "east-default"), ("embeddedclusters", "east")):
        management.eventually(partial(is_paused, management, plural, name))
    management.scale(5)
    management.delete("clusters", "east")
    management.patch("machinedeployments", "east-default", {"metadata": {"annotations": {"x": "y"}}})
    assert len(management.all("machines")) == 3
    assert management.get("clusters", "east")["status"]["phase"] == "Provisioned"
    management.patch("clusters", "east", {"spec": {"paused": False}})
    management.eventually(lambda: management.root.get(management.path("clusters", "east")).status == 404)


def test_one_object_is_paused_by_annotation(management: Management) -> None:
    management.apply()
    management.settled(3)
    management.patch(
        "machinedeployments", "east-default", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    )
    management.scale(4)

    management.eventually(partial(is_paused, management, "machinedeployments", "east-default"))
    assert len(management.all("machines")) == 3
    management.patch(
        "machinedeployments", "east-default", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}
    )
    management.settled(4)


def test_a_foreign_logical_cluster_is_neither_adopted_nor_deleted(management: Management) -> None:
    name = f"{management.namespace}.east"
    body = {"metadata": {"name": name}, "spec": {"profile": "cluster"}}
    made = management.root.post(LOGICAL, {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", **body})
    uid = made.ok()["metadata"]["uid"]
    management.apply()

    def ready() -> Object:
        return condition(management.get("embeddedclusters", "east"), "Ready") or {}

    management.eventually(lambda: ready().get("reason") == "NameTaken")
    assert ready()["message"] == f"LogicalCluster {name} already exists and was not created for this EmbeddedCluster"
    management.delete("clusters", "east")
    management.eventually(lambda: management.root.get(management.path("clusters", "east")).status == 404)
    assert management.root.get(f"{LOGICAL}/{name}").ok()["metadata"]["uid"] == uid
    management.root.delete(f"{LOGICAL}/{name}").ok()


def test_the_hosted_cluster_is_upgraded_in_place(management: Management) -> None:
    management.apply()
    management.settled(3)
    management.patch("embeddedclusters", "east", {"spec": {"version": "v1.36.0"}})
    hosted = management.hosted()
    management.eventually(lambda: hosted.get("/version")["gitVersion"].startswith("v1.36.0"))
    hosted.close()


def test_v1beta1_is_not_served(management: Management) -> None:
    path = management.path("clusters").replace("v1beta2", "v1beta1")
    assert management.root.get(path).status == 404


def test_what_the_docs_say_to_type(management: Management) -> None:
    project = Path(__file__).parents[2]
    management.apply((project / "examples/cluster-api.yaml").read_text())
    page = (project / "docs/cluster-api.md").read_text().partition("## Machines that fail")[2]
    management.apply(page.partition("```yaml\n")[2].partition("```")[0])

    def healthy() -> bool:
        return (management.get("machinehealthchecks", "east").get("status") or {}).get("currentHealthy") == 3

    management.eventually(healthy)


def test_kubectl_sees_upstreams_columns(management: Management) -> None:
    management.apply()
    management.settled(3)
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    columns = {}
    for plural in ("clusters", "machines", "machinesets", "machinedeployments"):
        answer = management.root.get(management.path(plural), Accept=table).ok()
        columns[plural] = [column["name"] for column in answer["columnDefinitions"]]
    assert columns["machinedeployments"][1:9] == [
        "Cluster", "Available", "Desired", "Current", "Ready", "Available", "Up-to-date", "Paused",
    ]  # fmt: skip
    assert columns["machines"][1:4] == ["Cluster", "Node Name", "Provider ID"]
    assert columns["clusters"][1:4] == ["ClusterClass", "Available", "CP Desired"]
