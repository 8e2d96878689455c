"""With kubectl, in a cluster with simulated nodes: expose a Deployment, cordon and drain nodes, describe
a pod that waits, claim a volume."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.programs import Kubectl
from tests.serving import Cluster, Server, fresh_cluster

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: db, image: "db:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""
AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    capacity = {"cpu": "100", "memory": "400Gi", "pods": "1000"}
    for name in ("n1", "n2"):
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"shoal.dev/simulated": "true"}},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        cluster.post("/api/v1/nodes", node).ok()
    yield cluster
    cluster.close()


def test_expose(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
    kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080", "--type=NodePort")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    ips = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}").split()
    slices = "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"
    labelled = ("endpointslices", "-l", "kubernetes.io/service-name=web")
    cluster.eventually(lambda: sorted(kubectl("get", *labelled, "-o", slices).split()) == sorted(ips))
    described = kubectl("describe", "service", "web")
    assert all(f"{ip}:8080" in described for ip in ips)
    kubectl("scale", "deployment/web", "--replicas=0")
    cluster.eventually(lambda: not kubectl("get", *labelled, "-o", slices))
    kubectl("delete", "service", "web")
    cluster.eventually(lambda: not kubectl("get", *labelled, "-o", "name"))


def test_drain_under_a_budget(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
    kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    allowed = "jsonpath={.status.disruptionsAllowed}/{.status.expectedPods}"
    cluster.eventually(lambda: kubectl("get", "pdb", "web", "-o", allowed) == "1/3")
    assert kubectl.rows("get", "pdb", "web", "--no-headers")[0][:4] == ["web", "2", "N/A", "1"]
    said = kubectl("drain", "n1", "--timeout=60s", "--ignore-daemonsets")
    assert "node/n1 drained" in said
    nodes = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert "n1" not in nodes.split()
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":3}}')
    cluster.eventually(lambda: kubectl("get", "pdb", "web", "-o", allowed) == "0/3")
    refused = kubectl.fails("drain", "n2", "--timeout=3s", "--ignore-daemonsets")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert len(kubectl("get", "pods", "-l", "app=web", "-o", "name").split()) == 3
    kubectl("uncordon", "n1")


def test_a_pod_that_waits_says_why(kubectl: Kubectl, cluster: Cluster) -> None:
    assert kubectl("cordon", "n1") == "node/n1 cordoned\n"
    kubectl("cordon", "n2")
    standing = ("get", "node", "n1", "--no-headers")
    cluster.eventually(lambda: kubectl.rows(*standing)[0][1] == "Ready,SchedulingDisabled")
    kubectl("run", "web", "--image=web:1")
    cluster.eventually(lambda: "FailedScheduling" in kubectl("describe", "pod", "web"))
    waiting = kubectl("describe", "pod", "web")
    assert "default-scheduler" in waiting
    assert "0/2 nodes are available: 2 node(s) were unschedulable." in waiting
    assert kubectl("uncordon", "n2") == "node/n2 uncordoned\n"
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
    cluster.eventually(lambda: "Successfully assigned default/web to n2" in kubectl("describe", "pod", "web"))
    assert "pod/web" in kubectl("get", "all")


def test_claims(kubectl: Kubectl, cluster: Cluster) -> None:
    assert kubectl.rows("get", "storageclass", "--no-headers")[0][:4] == [
        "simulated",
        "(default)",
        "shoal.dev/simulated",
        "Delete",
    ]
    kubectl("apply", "-f", "-", given=CLAIM)
    kubectl("wait", "pvc/data", "--for=jsonpath={.status.phase}=Bound", "--timeout=30s")
    kubectl("wait", "pod/db", "--for=condition=Ready", "--timeout=30s")
    row = kubectl.rows("get", "pvc", "data", "--no-headers")[0]
    assert (row[1], row[3:6]) == ("Bound", ["1Gi", "RWO", "simulated"])
    described = kubectl("describe", "pvc", "data")
    assert "ProvisioningSucceeded" in described
    assert "Used By:       db" in described
    kubectl("delete", "pvc", "data", "--wait=false")
    assert kubectl.rows("get", "pvc", "data", "--no-headers")[0][1] == "Terminating"
    kubectl("delete", "pod", "db", "--grace-period=1")
    kubectl("wait", "pvc/data", "--for=delete", "--timeout=30s")
    cluster.eventually(lambda: not kubectl("get", "pv", "-o", "name"))


def test_an_autoscaler_is_refused_by_name(kubectl: Kubectl, cluster: Cluster) -> None:
    said = kubectl.fails("apply", "-f", "-", given=AUTOSCALER)
    assert "HorizontalPodAutoscalers are not supported" in said
    kubectl("get", "all")
