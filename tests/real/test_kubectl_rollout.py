"""Deployments with kubectl, in a cluster with a simulated node: create, scale, set image, rollout in all its forms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.programs import Kubectl
from tests.serving import Cluster, Server, fresh_cluster


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    capacity = {"cpu": "100", "memory": "400Gi", "pods": "1000"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"shoal.dev/simulated": "true"}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    cluster.post("/api/v1/nodes", node).ok()
    yield cluster
    cluster.close()


def test_a_rollout_forth_and_back(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
    said = kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert 'deployment "web" successfully rolled out' in said
    assert kubectl.rows("get", "deployment", "web", "--no-headers")[0][:4] == ["web", "3/3", "3", "3"]
    kubectl("scale", "deployment/web", "--replicas=5")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("set", "image", "deployment/web", "web=web:2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    images = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    assert set(images.split()) >= {"web:2"}
    history = kubectl.rows("rollout", "history", "deployment/web")
    assert [row[0] for row in history if row and row[0].isdigit()] == ["1", "2"]
    assert "web:1" in kubectl("rollout", "history", "deployment/web", "--revision=1")
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    history = kubectl.rows("rollout", "history", "deployment/web")
    assert [row[0] for row in history if row and row[0].isdigit()] == ["2", "3"]
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}") == "web:1"


def test_pause_resume_restart(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", "web=web:2")
    assert "paused" in kubectl.fails("rollout", "restart", "deployment/web")
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    described = kubectl("describe", "deployment", "web")
    assert "Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable" in described
    assert "NewReplicaSetAvailable" in described
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=30s")
    cluster.eventually(lambda: not kubectl("get", "replicasets,pods", "-o", "name"))


def test_wait_for_a_replica_set(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
    kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=30s")
    (name,) = kubectl("get", "replicasets", "-o", "name").split()
    kubectl("wait", name, "--for=jsonpath={.status.readyReplicas}=2", "--timeout=30s")
