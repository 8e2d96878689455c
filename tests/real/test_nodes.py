"""`shoal nodes`: at a real control plane, which knows nothing of Shoal, and at a cluster of Shoal's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml

from tests.faults.processes import Up
from tests.real.commands import HANG, items, shoal, until
from tests.real.hubs import KubectlAt
from tests.real.kubernetes import Kubernetes, needs_kubernetes

GIVEN_UP_SECONDS = 50
"""kube-controller-manager's: a node that renews no Lease for so long is lost."""
Object = dict[str, Any]


def ready(obj: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in obj["status"].get("conditions") or ())


def homes(kubectl: KubectlAt) -> list[str]:
    """The nodes of the pods that are Ready and stay."""
    pods = items(kubectl, "pods", "-l", "app=web")
    return [pod["spec"]["nodeName"] for pod in pods if ready(pod) and "deletionTimestamp" not in pod["metadata"]]


@needs_kubernetes
def test_a_real_control_plane_keeps_them_and_runs_pods_on_them(tmp_path: Path) -> None:
    with Kubernetes(tmp_path / "kubernetes") as server:
        server.start()
        kubectl = KubectlAt(server.kubeconfig, tmp_path / "home")
        flags = ("--count", "5", "--cpu", "8", "--zone", "a", "--zone", "b", "--label", "pool=cheap", "--prefix", "sim")
        with shoal("nodes", "--kubeconfig", str(server.kubeconfig), *flags, "--events") as running:
            begun = time.monotonic()
            until(lambda: len([node for node in items(kubectl, "nodes") if ready(node)]) == 5)
            made = items(kubectl, "nodes", "-l", "pool=cheap")
            assert [node["metadata"]["name"] for node in made] == [f"sim-{number}" for number in range(5)]
            assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in made] == list("ababa")
            assert {node["status"]["allocatable"]["cpu"] for node in made} == {"8"}
            since = {node["metadata"]["uid"]: _transition(node) for node in made}

            kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=20")
            kubectl("rollout", "status", "deployment/web", f"--timeout={HANG:.0f}s")
            assert set(homes(kubectl)) == {f"sim-{number}" for number in range(5)}
            told = {
                event["reason"] for event in items(kubectl, "events") if event["source"].get("component") == "kubelet"
            }
            assert told == {"Pulled", "Created", "Started"}

            kubectl("delete", "node", "sim-4")
            until(lambda: "sim-4" not in homes(kubectl) and len(homes(kubectl)) == 20)

            time.sleep(max(0.0, begun + GIVEN_UP_SECONDS + 12 - time.monotonic()))
            left = items(kubectl, "nodes")
            assert {node["metadata"]["uid"]: _transition(node) for node in left if ready(node)} == {
                uid: since[uid] for node in left if (uid := node["metadata"]["uid"])
            }, "they have been Ready all the time"
            assert len(left) == 4
            assert {lease["metadata"]["name"] for lease in items(kubectl, "leases", "-n", "kube-node-lease")} >= {
                f"sim-{number}" for number in range(4)
            }
            assert running.terminate() == 0
        assert len(items(kubectl, "nodes")) == 4, "they stay"


def _transition(node: Object) -> str:
    (found,) = (each["lastTransitionTime"] for each in node["status"]["conditions"] if each["type"] == "Ready")
    return str(found)


def test_a_cluster_of_shoal_animates_them_itself(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--root-profile", "cluster", verb="hub")
    try:
        body = {"metadata": {"name": "a"}, "spec": {"profile": "cluster"}}
        path = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
        up.client().request("POST", path, {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", **body})
        config = yaml.safe_load((tmp_path / "data" / "kubeconfig").read_text())
        config["clusters"][0]["cluster"]["server"] += "/clusters/a"
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        kubectl = KubectlAt(file, tmp_path / "home")
        with shoal("nodes", "--kubeconfig", str(file), "--count", "5", "--cleanup") as running:
            kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=20")
            kubectl("rollout", "status", "deployment/web", f"--timeout={HANG:.0f}s")
            kubectl("delete", "node", "simulated-4")
            until(lambda: "simulated-4" not in homes(kubectl) and len(homes(kubectl)) == 20)
            assert running.terminate() == 0
        assert items(kubectl, "nodes") == []
    finally:
        up.close()
