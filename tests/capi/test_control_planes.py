"""A Cluster whose control plane object is of an external kind, and kinds of tools that are served empty."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.capi.external import contract_version, plural_candidates
from tests.capi.management_cluster import ONE_FILE, Management, condition
from tests.serving import DEFINITIONS

Object = dict[str, Any]

GROUP = "controlplane.example.com"
REFERENCED = ONE_FILE.replace(
    "spec:\n  infrastructureRef",
    f"spec:\n  controlPlaneRef: {{apiGroup: {GROUP}, kind: RemoteControlPlane, name: east}}\n  infrastructureRef",
    1,
)


def definition() -> Object:
    preserved = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": preserved, "status": preserved}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"kind": "RemoteControlPlane", "plural": "remotecontrolplanes"}
    labels = {"cluster.x-k8s.io/v1beta1": "v1alpha1", "cluster.x-k8s.io/v1beta2": "v1alpha2_v1"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"remotecontrolplanes.{GROUP}", "labels": labels},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def said(management: Management, type_: str) -> tuple[str, str, str]:
    found = condition(management.get("clusters", "east"), type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def test_a_control_plane_of_others_is_waited_for_and_followed(management: Management) -> None:
    root = management.root
    root.post(DEFINITIONS, definition()).ok()
    path = f"/apis/{GROUP}/v1/namespaces/{management.namespace}/remotecontrolplanes"
    management.eventually(lambda: root.get(path).status == 200)
    management.apply(REFERENCED)
    missing = "RemoteControlPlane does not exist"
    management.eventually(lambda: said(management, "ControlPlaneAvailable") == ("False", "ObjectDoesNotExist", missing))
    assert said(management, "ControlPlaneInitialized") == ("Unknown", "ObjectDoesNotExist", missing)
    spec = {"replicas": 3, "controlPlaneEndpoint": {"host": "api.example.com", "port": 443}}
    plane = {"apiVersion": f"{GROUP}/v1", "kind": "RemoteControlPlane", "metadata": {"name": "east"}, "spec": spec}
    root.post(path, plane).ok()
    not_yet = "RemoteControlPlane status.initialization.controlPlaneInitialized is false"
    management.eventually(lambda: said(management, "ControlPlaneAvailable") == ("False", "NotAvailable", not_yet))
    status = {"initialization": {"controlPlaneInitialized": True}, "replicas": 3, "readyReplicas": 2}
    busy = {"type": "ScalingUp", "status": "True", "reason": "ScalingUp", "message": "Scaling up from 2 to 3 replicas"}
    root.patch(f"{path}/east/status", {"status": {**status, "conditions": [busy]}}).ok()
    management.eventually(lambda: said(management, "ControlPlaneInitialized")[0] == "True")
    cluster = management.get("clusters", "east")
    assert cluster["status"]["initialization"]["controlPlaneInitialized"] is True
    management.eventually(
        lambda: (
            (management.get("clusters", "east")["status"]["controlPlane"])
            == {"desiredReplicas": 3, "replicas": 3, "readyReplicas": 2}
        )
    )
    told = "* RemoteControlPlane east: Scaling up from 2 to 3 replicas"
    management.eventually(lambda: said(management, "ScalingUp") == ("True", "ScalingUp", told))
    metadata = root.get(f"{path}/east").ok()["metadata"]
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["Cluster"]
    assert metadata["labels"]["cluster.x-k8s.io/cluster-name"] == "east"
    management.settled(3)
    management.delete("clusters", "east")
    management.eventually(lambda: root.get(management.path("clusters", "east")).status == 404)
    assert root.get(f"{path}/east").status == 404


def test_the_endpoint_comes_from_the_control_plane(management: Management) -> None:
    root = management.root
    root.post(DEFINITIONS, definition())
    path = f"/apis/{GROUP}/v1/namespaces/{management.namespace}/remotecontrolplanes"
    management.eventually(lambda: root.get(path).status == 200)
    spec = {"controlPlaneEndpoint": {"host": "api.example.com", "port": 443}}
    plane = {"apiVersion": f"{GROUP}/v1", "kind": "RemoteControlPlane", "metadata": {"name": "east"}, "spec": spec}
    root.post(path, plane).ok()
    reference = {"apiGroup": GROUP, "kind": "RemoteControlPlane", "name": "east"}
    alone = {"name": "east", "annotations": {"workloads.kcp.dev/register": "false"}}
    body = {"metadata": alone, "spec": {"controlPlaneRef": reference}}
    root.post(management.path("clusters"), {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", **body}).ok()
    management.eventually(lambda: said(management, "ControlPlaneInitialized")[1] == "NotInitialized")
    assert "controlPlaneEndpoint" not in management.get("clusters", "east")["spec"]
    root.patch(f"{path}/east/status", {"status": {"initialization": {"controlPlaneInitialized": True}}}).ok()
    management.eventually(lambda: management.get("clusters", "east")["status"].get("phase") == "Provisioned")
    assert management.get("clusters", "east")["spec"]["controlPlaneEndpoint"] == spec["controlPlaneEndpoint"]


def test_a_kind_that_does_not_exist_is_said_and_holds_nothing_up(management: Management) -> None:
    management.apply(REFERENCED.replace("RemoteControlPlane", "NoSuchControlPlane"))
    missing = ("False", "ObjectDoesNotExist", "NoSuchControlPlane does not exist")
    management.eventually(lambda: said(management, "ControlPlaneAvailable") == missing)
    assert management.get("clusters", "east")["status"]["phase"] in ("Provisioning", "Provisioned")
    management.delete("clusters", "east")
    management.eventually(lambda: management.root.get(management.path("clusters", "east")).status == 404)


def test_machine_pools_are_listed_and_refused(management: Management) -> None:
    assert management.all("machinepools") == []
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "metadata": {"name": "p"}, "spec": {}}
    answer = management.root.post(management.path("machinepools"), body)
    assert answer.status == 422
    assert "MachinePools are not supported: use a MachineDeployment" in answer["message"]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("KubeadmControlPlane", "kubeadmcontrolplanes"), ("Policy", "policies"), ("Box", "boxes"), ("Class", "classes")],
)
def test_plurals(kind: str, plural: str) -> None:
    assert plural_candidates(kind)[0] == plural


def test_the_last_version_that_keeps_the_contract() -> None:
    assert contract_version(definition()) == "v1"
    assert contract_version({"metadata": {"name": "x"}}) == ""
