"""`shoal provisioner` at a real control plane: its scheduler finds no node, Machines come, and go when nothing runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.faults.processes import command
from tests.provision.hosted import node_class, node_pool, size_objects
from tests.real.commands import HANG, items, shoal, until
from tests.real.hubs import KubectlAt
from tests.real.infrastructure import Infrastructure
from tests.real.kubernetes import Kubernetes, needs_kubernetes

DEPLOY = Path(__file__).parents[2] / "deploy" / "provisioner"
OURS = ("karpenter.sh", "karpenter.cluster.x-k8s.io")
LEFT = "nodes,nodeclaims.karpenter.sh,machines.cluster.x-k8s.io"
Object = dict[str, Any]


def apply(kubectl: KubectlAt, file: Path, *objects: Object) -> None:
    file.write_text(yaml.safe_dump_all(objects))
    kubectl("apply", "-f", str(file))


def identity(server: Kubernetes, kubectl: KubectlAt, name: str, namespace: str) -> Path:
    """A kubeconfig of a ServiceAccount."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", name, "-n", namespace).strip()}
    file = server.kubeconfig.with_name(f"{name}.kubeconfig")
    file.write_text(yaml.safe_dump(config))
    return file


def workload(replicas: int) -> Object:
    labels = {"app": "web"}
    asked = {"requests": {"cpu": "900m", "memory": "64Mi"}}
    container = {"name": "main", "image": "registry.example/web:1", "resources": asked}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


@needs_kubernetes
def test_pods_get_nodes_and_nodes_go_with_the_pods(tmp_path: Path) -> None:
    with Kubernetes(tmp_path / "kubernetes") as server:
        server.start()
        kubectl = KubectlAt(server.kubeconfig, tmp_path / "home")
        printed = yaml.safe_load_all(subprocess.run(command("crds"), capture_output=True, check=True).stdout)
        definitions = [each for each in printed if each["spec"]["group"] not in OURS]
        rights = [
            each
            for name in ("provisioner.yaml", "machines.yaml")
            for each in yaml.safe_load_all((DEPLOY / name).read_text())
            if each["kind"] != "Deployment"
        ]
        apply(kubectl, tmp_path / "rights", *definitions, *rights)
        inside = identity(server, kubectl, "shoal-provisioner", "shoal-provisioner")
        machines = identity(server, kubectl, "shoal-provisioner-machines", "default")
        cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "east"}}
        cluster["spec"] = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": server.port}}
        kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={HANG:.0f}s")
        apply(kubectl, tmp_path / "east", cluster, *size_objects("east", "small"), *size_objects("east", "medium"))
        where = ("--kubeconfig", str(server.kubeconfig))
        flags = ["--kubeconfig", str(inside), "--cluster-api-kubeconfig", str(machines), "--cluster", "default/east"]
        flags += ("--install-crds", "--leader-elect-namespace", "shoal-provisioner", "--batch-idle-duration", "200ms")
        with (
            shoal("controllers", *where, "--loops", "capi", "--leader-elect=false"),
            shoal("nodes", *where),
            Infrastructure(server.kubeconfig, server.kubeconfig),
            shoal("provisioner", *flags) as provisioner,
        ):
            when = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
            apply(kubectl, tmp_path / "pool", node_class(), node_pool(disruption=when), workload(8))
            kubectl("rollout", "status", "deployment/web", f"--timeout={HANG:.0f}s")
            bought = {each["status"]["nodeName"] for each in items(kubectl, "nodeclaims")}
            assert bought == {each["metadata"]["name"] for each in items(kubectl, "nodes")}
            assert {each["spec"]["nodeName"] for each in items(kubectl, "pods", "-l", "app=web")} == bought
            assert len(items(kubectl, "machines")) == len(bought)
            until(lambda: [each["status"]["nodes"] for each in items(kubectl, "nodepools")] == [len(bought)])
            scheduled = [each for each in items(kubectl, "events") if each["reason"] == "Scheduled"]
            assert {each["reportingComponent"] for each in scheduled} == {"default-scheduler"}

            kubectl("scale", "deployment", "web", "--replicas=0")
            until(lambda: items(kubectl, LEFT) == [])
            until(lambda: {each["spec"]["replicas"] for each in items(kubectl, "machinedeployments")} == {0})
            assert provisioner.terminate() == 0
            assert "Traceback" not in provisioner.said()
        lease = json.loads(kubectl("get", "lease", "shoal-provisioner", "-n", "shoal-provisioner", "-o", "json"))
        assert lease["spec"]["holderIdentity"] == ""
