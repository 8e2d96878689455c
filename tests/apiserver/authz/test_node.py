"""The Node authorizer: a kubelet may access its own Node, Lease and pods, and the objects those reference by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Cluster, Server, config_map, fresh_cluster

Object = dict[str, Any]

CORE, SPACE = "/api/v1", "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODE = {"Impersonate-User": "system:node:one", "Impersonate-Group": "system:nodes"}
OTHER = {"Impersonate-User": "system:node:two", "Impersonate-Group": "system:nodes"}


def pod(name: str, node: str, **metadata: Any) -> Object:
    volumes = [
        {"name": "s", "secret": {"secretName": "mine"}},
        {"name": "c", "configMap": {"name": "mine"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "mine"}},
    ]
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


@pytest.fixture(scope="module")
def cluster(still_server: Server) -> Iterator[Cluster]:
    """Two nodes; on the first a pod that needs what is called "mine"."""
    found = fresh_cluster(still_server, profile="cluster")
    for name in ("one", "two"):
        found.post(f"{CORE}/nodes", {"metadata": {"name": name}}).ok()
    for name in ("mine", "others"):
        found.post(f"{SPACE}/secrets", {"metadata": {"name": name}}).ok()
        found.post(f"{SPACE}/configmaps", config_map(name)).ok()
        found.post(f"{SPACE}/serviceaccounts", {"metadata": {"name": name}}).ok()
        capacity = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
        secret = {"name": f"stage-{name}", "namespace": "default"}
        csi = {"driver": "d.example.com", "volumeHandle": name, "nodeStageSecretRef": secret}
        found.post(f"{CORE}/persistentvolumes", {"metadata": {"name": name}, "spec": {**capacity, "csi": csi}}).ok()
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
        found.post(f"{SPACE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim}).ok()
        found.post(f"{SPACE}/secrets", {"metadata": {"name": f"stage-{name}"}}).ok()
    made = pod("p", "one")
    made["spec"]["serviceAccountName"] = "mine"
    found.post(f"{SPACE}/pods", made).ok()
    other = {"metadata": {"name": "q"}, "spec": {"nodeName": "two", "containers": [{"name": "c", "image": "i"}]}}
    found.post(f"{SPACE}/pods", other).ok()
    yield found
    found.close()


READABLE = [
    f"{CORE}/nodes/one",
    f"{CORE}/nodes?fieldSelector=metadata.name%3Done",
    f"{CORE}/pods?fieldSelector=spec.nodeName%3Done",
    f"{SPACE}/pods/p",
    f"{SPACE}/secrets/mine",
    f"{SPACE}/secrets?fieldSelector=metadata.name%3Dmine",
    f"{SPACE}/secrets/stage-mine",
    f"{SPACE}/configmaps/mine",
    f"{SPACE}/serviceaccounts/mine",
    f"{SPACE}/persistentvolumeclaims/mine",
    f"{CORE}/persistentvolumes/mine",
    f"{CORE}/services",
    "/apis/node.k8s.io/v1/runtimeclasses",
]
REFUSED = [
    f"{CORE}/nodes/two",
    f"{CORE}/nodes",
    f"{CORE}/pods",
    f"{CORE}/pods?fieldSelector=spec.nodeName%3Dtwo",
    f"{SPACE}/pods/q",
    f"{SPACE}/secrets",
    f"{SPACE}/secrets/others",
    f"{SPACE}/secrets/nowhere",
    f"{SPACE}/secrets/stage-others",
    f"{SPACE}/configmaps/others",
    f"{SPACE}/serviceaccounts/others",
    f"{SPACE}/persistentvolumeclaims/others",
    f"{CORE}/persistentvolumes/others",
    f"{CORE}/namespaces",
    "/apis/apps/v1/deployments",
]


@pytest.mark.parametrize("path", READABLE)
def test_what_its_pods_need_a_node_reads(cluster: Cluster, path: str) -> None:
    cluster.get(path, **NODE).ok()


@pytest.mark.parametrize("path", REFUSED)
def test_anything_else_it_does_not(cluster: Cluster, path: str) -> None:
    assert cluster.get(path, **NODE).status == 403


def test_the_name_alone_makes_no_node(cluster: Cluster) -> None:
    assert cluster.get(f"{CORE}/nodes/one", **{"Impersonate-User": "system:node:one"}).status == 403


def test_a_node_makes_and_changes_its_own_node_only(cluster: Cluster) -> None:
    three = {"Impersonate-User": "system:node:three", "Impersonate-Group": "system:nodes"}
    refused = cluster.post(f"{CORE}/nodes", {"metadata": {"name": "four"}}, **three)
    assert refused.status == 403
    assert 'node "three" is not allowed to modify node "four"' in refused.json["message"]
    cluster.post(f"{CORE}/nodes", {"metadata": {"name": "three"}}, **three).ok()
    conditions = [{"type": "Ready", "status": "True"}]
    cluster.patch(f"{CORE}/nodes/three/status", {"status": {"conditions": conditions}}, **three).ok()
    assert cluster.patch(f"{CORE}/nodes/one/status", {"status": {"conditions": conditions}}, **three).status == 403
    assert cluster.delete(f"{CORE}/nodes/three", **three).status == 403


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"metadata": {"labels": {"kubernetes.io/hostname": "one", "example.com/x": "y"}}}, 200),
        ({"metadata": {"labels": {"node-restriction.kubernetes.io/secure": "yes"}}}, 403),
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, 403),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, 403),
    ],
)
def test_labels_and_taints_that_steer_pods_are_not_its_own(cluster: Cluster, change: Object, status: int) -> None:
    assert cluster.patch(f"{CORE}/nodes/one", change, **NODE).status == status


def test_its_own_lease(cluster: Cluster) -> None:
    lease = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "one"}}
    cluster.post(LEASES, lease, **NODE).ok()
    cluster.patch(f"{LEASES}/one", {"spec": {"leaseDurationSeconds": 40}}, **NODE).ok()
    assert cluster.patch(f"{LEASES}/one", {"spec": {"leaseDurationSeconds": 40}}, **OTHER).status == 403
    assert cluster.post(LEASES, {"metadata": {"name": "else"}}, **NODE).status == 403


def test_pods_are_mirrors_of_its_own(cluster: Cluster) -> None:
    plain = {"containers": [{"name": "c", "image": "i"}], "nodeName": "one"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "one", "uid": "u", "controller": True}
    mirror = {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    cluster.post(f"{SPACE}/pods", {"metadata": mirror, "spec": plain}, **NODE).ok()
    elsewhere = {**plain, "nodeName": "two"}
    for metadata, spec in ((mirror, elsewhere), ({"name": "static2"}, plain)):
        assert cluster.post(f"{SPACE}/pods", {"metadata": metadata, "spec": spec}, **NODE).status == 403
    curious = pod("static3", "one", **{key: mirror[key] for key in ("annotations", "ownerReferences")})
    assert "can not create pods that reference" in cluster.post(f"{SPACE}/pods", curious, **NODE).json["message"]
    cluster.patch(f"{SPACE}/pods/p/status", {"status": {"phase": "Running"}}, **NODE).ok()
    assert cluster.patch(f"{SPACE}/pods/p/status", {"status": {"phase": "Failed"}}, **OTHER).status == 403
    assert cluster.delete(f"{SPACE}/pods/static", **OTHER).status == 403
    cluster.delete(f"{SPACE}/pods/static?gracePeriodSeconds=0", **NODE).ok()


def test_tokens_are_bound_to_a_pod_of_its_own(cluster: Cluster) -> None:
    path = f"{SPACE}/serviceaccounts/mine/token"
    assert cluster.post(path, {"spec": {}}, **NODE).status == 403
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = cluster.post(path, {"spec": {"boundObjectRef": bound}}, **NODE).ok()["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    said = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", review).ok()["status"]["user"]
    extra = said["extra"]
    assert said["username"] == "system:serviceaccount:default:mine"
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/node-name"] == ["one"]


def test_tokens_are_bound_to_what_is_there_and_fits(cluster: Cluster) -> None:
    path = f"{SPACE}/serviceaccounts/others/token"
    for reference, status in (
        ({"kind": "Pod", "apiVersion": "v1", "name": "p"}, 400),
        ({"kind": "Pod", "apiVersion": "v1", "name": "nowhere"}, 404),
        ({"kind": "ConfigMap", "apiVersion": "v1", "name": "mine"}, 400),
        ({"kind": "Node", "apiVersion": "v1", "name": "one", "uid": "another"}, 409),
        ({"kind": "Node", "apiVersion": "v1", "name": "one"}, 201),
        ({"kind": "Secret", "apiVersion": "v1", "name": "mine"}, 201),
    ):
        assert cluster.post(path, {"spec": {"boundObjectRef": reference}}).status == status, reference
