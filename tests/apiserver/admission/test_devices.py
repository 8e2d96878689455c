"""Admission of resource claims: admin access, and who may write a claim's status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Cluster, Server, fresh_cluster

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "a"}
DEVICE = {"driver": "gpu.example.com", "pool": "n", "device": "a"}


@pytest.fixture(scope="module")
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def claim(name: str, **exactly: object) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **body}


def test_administrators_reach_into_devices_where_the_namespace_says_so(cluster: Cluster) -> None:
    refused = cluster.post(CLAIMS, claim("admin", adminAccess=True))
    assert refused.status == 422
    (cause,) = refused["details"]["causes"]
    assert cause["field"] == "spec.devices.requests[0].adminAccess"
    assert cause["message"] == (
        "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the "
        "containing namespace"
    )
    labels = {"resource.kubernetes.io/admin-access": "true"}
    cluster.patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}}).ok()
    cluster.post(CLAIMS, claim("admin", adminAccess=True)).ok()


def test_a_claim_is_bound_by_who_may_bind_and_told_of_by_drivers(cluster: Cluster) -> None:
    cluster.post(CLAIMS, claim("told")).ok()
    for who, resource in (("binder", "resourceclaims/binding"), ("driver", "resourceclaims/driver")):
        rules = [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status", resource], "verbs": ["*"]}]
        cluster.post(f"{ROLES}/clusterroles", {"metadata": {"name": who}, "rules": rules}).ok()
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": who}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": who}
        body = {"metadata": {"name": who}, "roleRef": role, "subjects": [subject]}
        cluster.post(f"{ROLES}/clusterrolebindings", body).ok()
    allocated: dict[str, Any] = {"status": {"allocation": {"devices": {"results": [RESULT]}}}}
    told = {"status": {"devices": [DEVICE]}}

    def says(who: str, body: dict[str, Any]) -> Any:
        return cluster.patch(f"{CLAIMS}/told/status", body, **{"Impersonate-User": who})

    assert 'requires resource="resourceclaims/binding", verb="patch" permission' in says("driver", allocated)["message"]
    assert says("binder", allocated).ok()["status"] == allocated["status"]
    refused = says("binder", told)["message"]
    assert 'requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission' in refused
    assert says("driver", told).ok()["status"]["devices"] == [{**DEVICE, "conditions": None}]
    # What is allocated no more is not told of either.
    assert says("binder", {"status": {"allocation": None}}).ok()["status"] == {}


def test_taints_are_dated(cluster: Cluster) -> None:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "a", "taints": [{"key": "a", "effect": "None"}]}]
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": devices}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": spec}
    assert cluster.post(SLICES, body).ok()["spec"]["devices"][0]["taints"][0]["timeAdded"]
    devices[0]["taints"] = [{"key": "b", "effect": "NoSchedule"}]
    assert cluster.patch(f"{SLICES}/a", {"spec": {"devices": devices}}).ok()["spec"]["devices"][0]["taints"][0][
        "timeAdded"
    ]
