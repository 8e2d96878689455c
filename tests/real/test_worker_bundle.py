"""Workers on a real control plane: the bundle, put right against others, updated, and gone at the end."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.processes import Up
from tests.real.commands import HANG, items, shoal, until
from tests.real.hubs import KubectlAt
from tests.real.kubernetes import Kubernetes, needs_kubernetes

DEPLOY = Path(__file__).parents[2] / "deploy" / "worker"
READY = "the worker's own API is at "
SYSTEM = ("-n", "shoal-system")
DEPLOYMENT = "deployment/shoal-worker-far"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """With nodes that run pods as far as `shoal nodes` does, and one volume at a time for who claims it."""
    with Kubernetes(tmp_path_factory.mktemp("kubernetes")) as server:
        server.start()
        with shoal("nodes", "--kubeconfig", str(server.kubeconfig), "--count", "2"):
            yield server


@pytest.fixture
def inside(kubernetes: Kubernetes, tmp_path: Path) -> KubectlAt:
    kubectl = KubectlAt(kubernetes.kubeconfig, tmp_path / "inside")
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": tmp_path.name.replace("_", "-").lower()},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nowhere"},
        },
    }
    apply(kubectl, tmp_path, volume)
    return kubectl


def apply(kubectl: KubectlAt, directory: Path, *objects: Object) -> None:
    file = directory / "applied.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    kubectl("apply", "-f", str(file))


def secret(server: Kubernetes) -> Object:
    """The administrator's kubeconfig, whole."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = (server.directory / cluster.pop("certificate-authority")).read_bytes()
    cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    data = {"value": base64.b64encode(yaml.safe_dump(config).encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far", "namespace": "default"}, "data": data}


def worker(hub: Up) -> Object:
    spec = {
        "infrastructure": "kind",
        "kubeconfigSecretRef": {"namespace": "default", "name": "far"},
        "hubAddress": f"https://127.0.0.1:{hub.port}",
    }
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "far", "namespace": "shoal-system"},
        "spec": spec,
    }


def at(kubectl: KubectlAt, *what: str) -> Object:
    found: Object = json.loads(kubectl("get", *what, "-o", "json"))
    return found


def condition(kubectl: KubectlAt, type_: str) -> Object:
    found = (at(kubectl, "worker", "far", *SYSTEM).get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == type_), {})


def applied(kubectl: KubectlAt) -> bool:
    return condition(kubectl, "BundleApplied").get("status") == "True"


def joined(inside: KubectlAt, tmp_path: Path) -> Up:
    """The process of its pod, which a simulated node does not start."""
    file = tmp_path / "hub.kubeconfig"
    file.write_bytes(base64.b64decode(at(inside, "secret", "shoal-worker-far", *SYSTEM)["data"]["kubeconfig"]))
    return Up(tmp_path / "far", "--name", "far", "--hub-kubeconfig", str(file), verb="worker", ready=READY)


@needs_kubernetes
def test_a_worker_on_a_real_cluster(kubernetes: Kubernetes, inside: KubectlAt, tmp_path: Path) -> None:
    hub = Up(tmp_path / "hub", verb="hub")
    process: Up | None = None
    try:
        kubectl = KubectlAt(hub.data / "kubeconfig", tmp_path / "home")
        apply(kubectl, tmp_path, secret(kubernetes), worker(hub))
        until(lambda: applied(kubectl))
        managers = {entry["manager"] for entry in at_with_fields(inside)["metadata"]["managedFields"]}
        assert "shoal-bundle" in managers
        process = joined(inside, tmp_path)
        until(lambda: condition(kubectl, "Ready").get("status") == "True")
        assert at(kubectl, "worker", "far", *SYSTEM)["spec"]["infrastructure"] == "kind"

        # Pod Security holds for others, and the worker's own pod is within it.
        with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
            inside("run", "loose", "--image=nginx:1", *SYSTEM)
        assert len(items(inside, "pods", "-l", "shoal.dev/worker=far", *SYSTEM)) == 1

        check_drift(inside, tmp_path)

        # A new image: the hub starts again with it.
        before = applied_policies(inside)
        assert before > 0
        hub.kill()
        hub = Up(tmp_path / "hub", "--worker-image", "registry.example/shoal:2", verb="hub")
        until(lambda: image(inside) == "registry.example/shoal:2")
        inside("rollout", "status", DEPLOYMENT, f"--timeout={HANG:.0f}s", *SYSTEM)
        until(lambda: applied(kubectl))
        assert applied_policies(inside) == before, "what does not differ is not applied"

        kubectl("delete", "worker", "far", "--wait=false", *SYSTEM)
        until(lambda: items(inside, "pods", "-l", "shoal.dev/worker=far", "-A") == [])
        process.terminate()
        until(lambda: items(kubectl, "workers", *SYSTEM) == [])
        assert "shoal-system" not in {obj["metadata"]["name"] for obj in items(inside, "namespaces")}
        token = json.loads(secret_text(secret(kubernetes)))["users"][0]["user"]["token"]
        assert token not in hub.said
    finally:
        hub.close()
        if process is not None:
            process.close()


def applied_policies(inside: KubectlAt) -> float:
    """How often NetworkPolicies were applied, by the server's count."""
    lines = inside("get", "--raw", "/metrics").splitlines()
    counted = [line for line in lines if line.startswith("apiserver_request_total{") and 'verb="APPLY"' in line]
    return sum(float(line.split()[-1]) for line in counted if 'resource="networkpolicies"' in line)


def secret_text(obj: Object) -> str:
    return json.dumps(yaml.safe_load(base64.b64decode(obj["data"]["value"])))


def image(inside: KubectlAt) -> str:
    found: str = at(inside, DEPLOYMENT, *SYSTEM)["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


def at_with_fields(inside: KubectlAt) -> Object:
    found: Object = json.loads(inside("get", DEPLOYMENT, "-o", "json", "--show-managed-fields", *SYSTEM))
    return found


def check_drift(inside: KubectlAt, tmp_path: Path) -> None:
    """Somebody scales it, somebody else applies it, somebody deletes a part of it."""
    inside("scale", DEPLOYMENT, "--replicas=3", *SYSTEM)
    until(lambda: at(inside, DEPLOYMENT, *SYSTEM)["spec"]["replicas"] == 1)
    other = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shoal-worker-far", "namespace": "shoal-system", "labels": {"team": "blue"}},
        "spec": {"replicas": 2},
    }
    file = tmp_path / "other.yaml"
    file.write_text(yaml.safe_dump(other))
    theirs = ("apply", "--server-side", "--field-manager=blue", "-f", str(file))
    with pytest.raises(AssertionError, match='conflict with "shoal-bundle": \\.spec\\.replicas'):
        inside(*theirs)
    inside(*theirs, "--force-conflicts")
    until(lambda: at(inside, DEPLOYMENT, *SYSTEM)["spec"]["replicas"] == 1)
    assert at(inside, DEPLOYMENT, *SYSTEM)["metadata"]["labels"]["team"] == "blue", "that is not ours"
    inside("delete", "networkpolicy", "shoal-worker-far", *SYSTEM)
    until(lambda: len(items(inside, "networkpolicies", *SYSTEM)) == 1)


@needs_kubernetes
def test_the_files_are_taken_by_kubectl(inside: KubectlAt, tmp_path: Path) -> None:
    directory = tmp_path / "worker"
    shutil.copytree(DEPLOY, directory)
    (directory / "hub.kubeconfig").write_text("kubeconfig")
    inside("apply", "-k", str(directory))
    inside("rollout", "status", DEPLOYMENT, f"--timeout={HANG:.0f}s", *SYSTEM)
    assert at(inside, "secret", "shoal-worker-far", *SYSTEM)["metadata"]["labels"]["shoal.dev/worker"] == "far"
    inside("delete", "-k", str(directory), f"--timeout={HANG:.0f}s")


@needs_kubernetes
def test_a_cluster_that_is_not_there_is_unknown(kubernetes: Kubernetes, tmp_path: Path) -> None:
    hub = Up(tmp_path / "hub", verb="hub")
    try:
        kubectl = KubectlAt(hub.data / "kubeconfig", tmp_path / "home")
        given = secret(kubernetes)
        text = base64.b64decode(given["data"]["value"]).decode().replace(f":{kubernetes.port}", ":1")
        given["data"]["value"] = base64.b64encode(text.encode()).decode()
        apply(kubectl, tmp_path, given, worker(hub))
        until(lambda: condition(kubectl, "BundleApplied").get("reason") == "ClusterUnreachable")
        assert condition(kubectl, "BundleApplied")["status"] == "Unknown"
        kubectl("delete", "worker", "far", f"--timeout={HANG:.0f}s", *SYSTEM)
    finally:
        hub.close()
