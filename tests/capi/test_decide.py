"""Decisions of the Cluster API reconcilers, one snapshot at a time."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from shoal.capi.clusters import decide as clusters
from shoal.capi.conditions import READY_REASONS, Condition, aggregate_condition, summary_condition
from shoal.capi.machines import decide as machines
from shoal.capi.machinesets import decide as machinesets
from shoal.capi.machinesets.decide import machines_to_delete
from shoal.capi.metadata_patches import claim_patch
from shoal.capi.providers.embedded.clusters import decide as hosts
from shoal.capi.providers.embedded.machines import decide as guests
from shoal.kinds.clusterapi import capi
from shoal.kinds.clusterapi.embedded import OWNER_UID_ANNOTATION, parse_duration

Object = dict[str, Any]

NOW, STAMP = 1_700_000_000.0, "2023-11-14T22:13:20Z"
INFRASTRUCTURE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedCluster", "name": "east"}
MACHINE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedMachine", "name": "m"}
TEMPLATE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedMachineTemplate", "name": "t"}
SERVER = hosts.HostingServer("https://127.0.0.1:6443", "PEM")


def made(kind: str, name: str, spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    group = "infrastructure.cluster.x-k8s.io/v1alpha1" if kind.startswith("Embedded") else "cluster.x-k8s.io/v1beta2"
    own = {"namespace": "default", "name": name, "uid": f"{kind}-{name}", "resourceVersion": "1", "generation": 1}
    obj = {"apiVersion": group, "kind": kind, "metadata": {**own, "creationTimestamp": STAMP, **metadata}}
    return {**obj, "spec": spec or {}, **({"status": status} if status else {})}


def cluster(**metadata: Any) -> Object:
    facts = {"initialization": {"infrastructureProvisioned": True}}
    return made("Cluster", "east", {"infrastructureRef": INFRASTRUCTURE}, facts, **metadata)


def machine(name: str = "m", **metadata: Any) -> Object:
    spec = {"clusterName": "east", "bootstrap": {}, "infrastructureRef": {**MACHINE, "name": name}}
    return made("Machine", name, spec, **metadata)


def machine_set(replicas: int, **metadata: Any) -> Object:
    template = {"spec": {"clusterName": "east", "infrastructureRef": TEMPLATE}}
    return made("MachineSet", "s", {"clusterName": "east", "replicas": replicas, "template": template}, **metadata)


DELETED: dict[str, Any] = {"deletionTimestamp": STAMP}


@pytest.mark.parametrize(
    ("wanted", "current", "said"),
    [
        ("v1.99.0", None, 'spec.version: Unsupported value: "v1.99.0": supported values: "v1.27", '),
        ("v1.35.0", "v1.36.4", "spec.version: Forbidden: a cluster cannot be downgraded from v1.36.4 to v1.35.0"),
        ("v1.35.0", "", "spec.version: Forbidden: a cluster cannot be downgraded from v1.36.4 to v1.35.0"),
    ],
)
def test_a_version_that_cannot_be_hosted_is_told(wanted: str, current: str | None, said: str) -> None:
    """Here it may come from a topology, which admission does not look at."""
    asks = cluster()
    asks["spec"]["topology"] = {"version": wanted}
    host = made("EmbeddedCluster", "east", ownerReferences=[])
    logical = None
    if current is not None:
        logical = made(
            "LogicalCluster",
            "default.east",
            {"version": current},
            annotations={OWNER_UID_ANNOTATION: host["metadata"]["uid"]},
        )
    decision = hosts.decide(hosts.EmbeddedClusterSnapshot(host, asks, logical, None, None), SERVER, STAMP)
    assert (decision.create_logical_cluster, decision.patch_logical_cluster) == (None, None)
    assert decision.status is not None
    (ready,) = [found for found in decision.status["status"]["conditions"] if found["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "VersionNotSupported")
    assert ready["message"].startswith(said)


@pytest.mark.parametrize(
    ("left", "deleted"),
    [
        pytest.param({"deployments", "sets", "machines", "infrastructure"}, "MachineDeployment", id="deployments"),
        pytest.param({"sets", "machines", "infrastructure"}, "MachineSet", id="sets"),
        pytest.param({"machines", "infrastructure"}, "Machine", id="machines"),
        pytest.param({"infrastructure"}, "EmbeddedCluster", id="infrastructure"),
    ],
)
def test_a_cluster_is_deleted_in_order(left: set[str], deleted: str) -> None:
    deployment = made("MachineDeployment", "d", {"clusterName": "east", "replicas": 1})
    seen = clusters.ClusterSnapshot(
        cluster=cluster(finalizers=["cluster.cluster.x-k8s.io"], **DELETED),
        infrastructure=made("EmbeddedCluster", "east") if "infrastructure" in left else None,
        control_plane=None,
        deployments=[deployment] if "deployments" in left else [],
        machine_sets=[machine_set(1)] if "sets" in left else [],
        machines=[machine()] if "machines" in left else [],
    )
    decision = clusters.decide(seen, STAMP)
    assert [obj["kind"] for obj in decision.delete] == [deleted]
    assert decision.patch is None
    assert decision.status is not None
    assert decision.status["status"]["phase"] == "Deleting"


def test_a_cluster_goes_when_nothing_is_left() -> None:
    gone = cluster(finalizers=["cluster.cluster.x-k8s.io", "other"], **DELETED)
    decision = clusters.decide(clusters.ClusterSnapshot(gone, None, None, [], [], []), STAMP)
    assert decision == clusters.ClusterDecision(patch={"metadata": {"finalizers": ["other"]}})


def test_a_cluster_whose_infrastructure_vanished_has_failed() -> None:
    decision = clusters.decide(clusters.ClusterSnapshot(cluster(), None, None, [], [], []), STAMP)
    assert decision.status is not None
    assert decision.status["status"]["phase"] == "Failed"


def test_a_cluster_takes_the_endpoint_only_of_provisioned_infrastructure() -> None:
    endpoint = {"controlPlaneEndpoint": {"host": "h", "port": 1}}
    seen = clusters.ClusterSnapshot(
        made("Cluster", "east", {"infrastructureRef": INFRASTRUCTURE}, finalizers=["cluster.cluster.x-k8s.io"]),
        made("EmbeddedCluster", "east", endpoint),
        None, [], [], [],
    )  # fmt: skip
    assert clusters.decide(seen, STAMP).patch is None
    ready = made("EmbeddedCluster", "east", endpoint, {"initialization": {"provisioned": True}})
    assert clusters.decide(replace(seen, infrastructure=ready), STAMP).patch == {"spec": endpoint}


@pytest.mark.parametrize(
    ("infrastructure", "node", "phase"),
    [
        pytest.param(None, None, "Pending", id="no infrastructure object"),
        pytest.param(made("EmbeddedMachine", "m"), None, "Provisioning", id="not provisioned"),
        pytest.param(
            made("EmbeddedMachine", "m", {"providerID": "x"}, {"initialization": {"provisioned": True}}),
            None,
            "Provisioned",
            id="no node",
        ),
        pytest.param(
            made("EmbeddedMachine", "m", {"providerID": "x"}, {"initialization": {"provisioned": True}}),
            {"metadata": {"name": "m"}},
            "Running",
            id="a node",
        ),
    ],
)
def test_the_phases_of_a_machine(infrastructure: Object | None, node: Object | None, phase: str) -> None:
    seen = machines.MachineSnapshot(machine(), cluster(), infrastructure, node)
    decision = machines.decide(seen, NOW, STAMP)
    assert decision.patch is not None
    spec = {**seen.machine["spec"], **decision.patch.get("spec", {})}
    decision = machines.decide(replace(seen, machine={**seen.machine, "spec": spec}), NOW, STAMP)
    assert decision.status is not None
    assert decision.status["status"]["phase"] == phase


def test_a_machine_that_lost_its_node_is_not_healthy() -> None:
    lost = machine()
    lost["status"] = {"nodeRef": {"name": "m"}, "initialization": {"infrastructureProvisioned": True}}
    decision = machines.decide(
        machines.MachineSnapshot(lost, cluster(), made("EmbeddedMachine", "m"), None), NOW, STAMP
    )
    assert decision.status is not None
    found = {each["type"]: each for each in decision.status["status"]["conditions"]}
    assert (found["NodeHealthy"]["status"], found["NodeHealthy"]["reason"]) == ("False", "NodeDeleted")
    assert found["NodeHealthy"]["message"] == "Node m has been deleted while the Machine still exists"
    assert found["Ready"]["status"] == "False"
    assert decision.status["status"]["nodeRef"] == {"name": "m"}


def test_a_decision_that_was_carried_out_is_not_made_again() -> None:
    seen = machines.MachineSnapshot(machine(), cluster(), made("EmbeddedMachine", "m"), None)
    status = machines.decide(seen, NOW, STAMP).status
    assert status is not None
    assert machines.decide(replace(seen, machine=status), NOW + 5, "2023-11-14T22:13:25Z").status is None


def test_names_of_machines_repeat_until_the_machine_set_changes() -> None:
    seen = machinesets.MachineSetSnapshot(machine_set(3), cluster(), [], made("EmbeddedMachineTemplate", "t"))
    first = [obj["metadata"]["name"] for obj in machinesets.decide(seen, STAMP).create]
    assert len(set(first)) == 3
    assert [obj["metadata"]["name"] for obj in machinesets.decide(seen, STAMP).create] == first
    one = machine(first[0], ownerReferences=[])
    seen = replace(seen, machines=[one], reserved_names=frozenset({first[0]}))
    assert [obj["metadata"]["name"] for obj in machinesets.decide(seen, STAMP).create] == first[1:]
    later = {**seen.machine_set, "metadata": {**seen.machine_set["metadata"], "resourceVersion": "2"}}
    assert not set(first) & {
        obj["metadata"]["name"] for obj in machinesets.decide(replace(seen, machine_set=later), STAMP).create
    }


def test_a_machine_without_infrastructure_gets_it_once() -> None:
    template = made("EmbeddedMachineTemplate", "t", {"template": {"spec": {}}})
    fresh = machine("fresh")
    lost = machine("lost")
    lost["status"] = {"initialization": {"infrastructureProvisioned": True}}
    seen = machinesets.MachineSetSnapshot(machine_set(2), cluster(), [fresh, lost], template)
    assert machinesets.decide(seen, STAMP).clone_infrastructure == (fresh,)
    assert (
        machinesets.decide(replace(seen, machines_with_infrastructure=frozenset({"fresh"})), STAMP).clone_infrastructure
        == ()
    )


def test_deleting_machines_count_until_they_are_gone() -> None:
    template = made("EmbeddedMachineTemplate", "t")
    going = [machine("a", **DELETED), machine("b")]
    decision = machinesets.decide(machinesets.MachineSetSnapshot(machine_set(2), cluster(), going, template), STAMP)
    assert decision.create == ()
    decision = machinesets.decide(machinesets.MachineSetSnapshot(machine_set(1), cluster(), going, template), STAMP)
    assert decision.delete == ()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("Random", ["d", "c", "b", "a", "e"]),
        ("Newest", ["d", "c", "b", "e", "a"]),
        ("Oldest", ["d", "c", "b", "a", "e"]),
    ],
)
def test_who_goes_first(order: str, expected: list[str]) -> None:
    healthy = {"nodeRef": {"name": "n"}}
    found = [
        {**machine("a", creationTimestamp="2023-01-01T00:00:00Z"), "status": healthy},
        {**machine("e", creationTimestamp="2023-01-02T00:00:00Z"), "status": healthy},
        machine("b"),
        {**machine("c", annotations={"cluster.x-k8s.io/delete-machine": ""}), "status": healthy},
        {**machine("d", **DELETED), "status": healthy},
    ]
    assert [obj["metadata"]["name"] for obj in machines_to_delete(found, 5, order)] == expected


def hosted(uid: str = "EmbeddedCluster-east", **metadata: Any) -> Object:
    return {"metadata": {"name": "default.east", "annotations": {OWNER_UID_ANNOTATION: uid}, **metadata}, "spec": {}}


ACCOUNT: Object = {"metadata": {"name": "shoal-admin", "uid": "uid-of-admin"}}
YEAR, MONTH = 365 * 86_400, 30 * 86_400


def token(uid: str = "uid-of-admin", lasts: float = YEAR) -> str:
    claims = {"kubernetes.io": {"serviceaccount": {"uid": uid}}, "exp": NOW + lasts}
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


def test_a_host_is_made_step_by_step() -> None:
    obj = made("EmbeddedCluster", "east", {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}},
               finalizers=["embeddedcluster.infrastructure.cluster.x-k8s.io"])  # fmt: skip
    seen = hosts.EmbeddedClusterSnapshot(obj, None, None, None, None)
    assert hosts.decide(seen, SERVER, STAMP).create_logical_cluster is None
    seen = replace(seen, cluster=cluster())
    host = hosts.decide(seen, SERVER, STAMP).create_logical_cluster
    assert host is not None
    assert (host["metadata"]["name"], host["spec"]) == ("default.east", {"profile": "cluster"})
    seen = replace(seen, logical_cluster=hosted())
    assert hosts.decide(seen, SERVER, STAMP).create_admin
    seen = replace(seen, account=ACCOUNT)
    assert hosts.decide(seen, SERVER, STAMP) == hosts.EmbeddedClusterDecision(request_token=True)
    seen = replace(seen, token=token())
    decision = hosts.decide(seen, SERVER, STAMP)
    assert decision.kubeconfig is not None
    text = base64.b64decode(decision.kubeconfig["data"]["value"]).decode()
    assert "server: https://127.0.0.1:6443/clusters/default.east\n" in text
    assert f"token: {token()}\n" in text
    assert decision.status is not None
    assert decision.status["status"]["initialization"] == {"provisioned": True, "controlPlaneInitialized": True}
    seen = replace(seen, kubeconfig=decision.kubeconfig, infrastructure=decision.status, token="")
    assert hosts.decide(seen, SERVER, STAMP) == hosts.EmbeddedClusterDecision(renew_after=YEAR - MONTH)
    moved = hosts.decide(seen, hosts.HostingServer("https://127.0.0.1:7443", "PEM"), STAMP)
    assert moved.patch == {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 7443}}}
    assert moved.kubeconfig is not None


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(token(uid="of-an-earlier-account"), id="of an account that was replaced"),
        pytest.param(token(lasts=MONTH), id="that ends in a month"),
        pytest.param(token(lasts=-1.0), id="that has expired"),
        pytest.param(token(lasts=136 * YEAR), id="from when tokens lasted for ever"),
        pytest.param("not-a-token", id="that is none"),
    ],
)
def test_a_token_of_the_kubeconfig_is_replaced(kept: str) -> None:
    text = capi.kubeconfig("east", "https://127.0.0.1:6443/clusters/default.east", "UEVN", kept)
    existing = {"metadata": {}, "data": {"value": base64.b64encode(text.encode()).decode()}}
    seen = hosts.EmbeddedClusterSnapshot(made("EmbeddedCluster", "east"), cluster(), hosted(), ACCOUNT, existing)
    assert hosts.decide(seen, SERVER, STAMP).request_token
    decision = hosts.decide(replace(seen, token=token()), SERVER, STAMP)
    assert decision.kubeconfig is not None
    assert f"token: {token()}\n" in base64.b64decode(decision.kubeconfig["data"]["value"]).decode()


@pytest.mark.parametrize(
    ("logical", "delete", "released"),
    [
        pytest.param(hosted(), True, False, id="mine"),
        pytest.param(hosted(**DELETED), False, False, id="mine, on its way out"),
        pytest.param(hosted("somebody"), False, True, id="a foreign one"),
        pytest.param(None, False, True, id="gone"),
    ],
)
def test_the_deletion_of_a_host(logical: Object | None, delete: bool, released: bool) -> None:
    obj = made("EmbeddedCluster", "east", finalizers=["embeddedcluster.infrastructure.cluster.x-k8s.io"], **DELETED)
    decision = hosts.decide(hosts.EmbeddedClusterSnapshot(obj, None, logical, None, None), SERVER, STAMP)
    assert (decision.delete_logical_cluster, decision.patch is not None) == (delete, released)


def guest(**changes: Any) -> guests.EmbeddedMachineSnapshot:
    obj = made("EmbeddedMachine", "m", {"providerID": "embedded://default/m", "startupDelay": "10s"},
               finalizers=["embeddedmachine.infrastructure.cluster.x-k8s.io"])  # fmt: skip
    return replace(guests.EmbeddedMachineSnapshot(obj, machine(), cluster(), hosted(), None), **changes)


def test_a_node_is_made_when_the_machine_has_started() -> None:
    early = guests.decide(guest(), NOW + 4, STAMP)
    assert (early.create_node, early.requeue_after) == (None, 6.0)
    assert early.status is not None
    assert early.status["status"]["initialization"] == {"provisioned": True}
    late = guests.decide(guest(), NOW + 10, STAMP)
    assert late.create_node is not None
    assert late.create_node["spec"] == {"providerID": "embedded://default/m"}


def test_another_machines_node_is_left_alone() -> None:
    foreign = {"metadata": {"name": "m"}, "spec": {"providerID": "embedded://default/other"}}
    decision = guests.decide(guest(node=foreign), NOW + 10, STAMP)
    assert decision.create_node is None
    assert decision.status is not None
    assert decision.status["status"]["conditions"][0]["reason"] == "NodeNameTaken"
    gone = made("EmbeddedMachine", "m", finalizers=["embeddedmachine.infrastructure.cluster.x-k8s.io"], **DELETED)
    decision = guests.decide(guest(node=foreign, infrastructure=gone), NOW, STAMP)
    assert (decision.delete_node, decision.patch) == (False, {"metadata": {"finalizers": []}})


def test_a_node_goes_with_its_machine() -> None:
    gone = made("EmbeddedMachine", "m", finalizers=["embeddedmachine.infrastructure.cluster.x-k8s.io"], **DELETED)
    mine = {"metadata": {"name": "m"}, "spec": {"providerID": "embedded://default/m"}}
    assert guests.decide(guest(infrastructure=gone, node=mine), NOW, STAMP) == guests.EmbeddedMachineDecision(
        delete_node=True
    )
    held = {**mine, "metadata": {"name": "m", "finalizers": ["karpenter.sh/termination"], **DELETED}}
    assert guests.decide(guest(infrastructure=gone, node=held), NOW, STAMP).patch == {"metadata": {"finalizers": []}}
    assert guests.decide(guest(infrastructure=gone, node=mine, logical_cluster=None), NOW, STAMP).delete_node is False


def test_an_owner_is_added_once_and_a_foreign_controller_stays() -> None:
    owner = {"apiVersion": "v", "kind": "Machine", "name": "m", "uid": "1", "controller": True}
    obj = made("EmbeddedMachine", "m")
    patch = claim_patch(obj, owner=owner)
    assert patch == {"metadata": {"ownerReferences": [owner]}}
    obj["metadata"] |= patch["metadata"]
    assert claim_patch(obj, owner=owner) is None
    assert claim_patch(obj, owner={**owner, "name": "other"}) is None


def test_conditions_are_summed_up() -> None:
    found = {"A": Condition("A", "True", "Fine"), "B": Condition("B", "True", "Busy", "at work")}
    said = summary_condition("Ready", found, ["A", "B", "C"], READY_REASONS, ["B"])
    assert said == Condition("Ready", "False", "NotReady", "* B: at work\n* C: Condition not yet reported")
    assert summary_condition("Ready", found, ["A"], READY_REASONS) == Condition("Ready", "True", "Ready")
    unready = {"conditions": [{"type": "Ready", "status": "False", "message": "broken"}]}
    several = [made("Machine", name, {}, unready) for name in "abcde"]
    said = aggregate_condition("MachinesReady", several, "Ready", "Machine", READY_REASONS)
    assert said == Condition("MachinesReady", "False", "NotReady", "* Machines a, b, c, ... (2 more): broken")


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0.0), ("30s", 30.0), ("1m30s", 90.0), ("1.5s", 1.5), ("200ms", 0.2)]
)
def test_durations(text: str, expected: float) -> None:
    assert parse_duration(text) == pytest.approx(expected)
