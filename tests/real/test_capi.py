"""Cluster API with a real kube-apiserver as the management cluster: `shoal crds`, `shoal controllers`, one file."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import Up, command
from tests.real.commands import HANG, items, shoal, until
from tests.real.hubs import KubectlAt
from tests.real.kubernetes import Kubernetes, needs_kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster-api.yaml"
PER_MACHINE = ("machines.cluster.x-k8s.io", "embeddedmachines.infrastructure.cluster.x-k8s.io")
Object = dict[str, Any]


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(tmp_path_factory.mktemp("kubernetes")) as server:
        server.start()
        yield server


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("hub") / "data", verb="hub")
    yield up
    up.close()


@pytest.fixture
def kubectl(kubernetes: Kubernetes, tmp_path: Path) -> KubectlAt:
    return KubectlAt(kubernetes.kubeconfig, tmp_path / "home")


def everything(kubectl: KubectlAt) -> set[tuple[str, str]]:
    """Every object of every kind, in every namespace, but for what a cluster says of itself all the time."""
    kinds = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    noise = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"}
    found = set()
    for line in kubectl("get", ",".join(sorted(set(kinds) - noise)), "-A", "-o", "name").splitlines():
        kind, _, name = line.partition("/")
        found.add((kind, name))
    return found


def install(kubectl: KubectlAt, directory: Path) -> None:
    file = directory / "crds.yaml"
    file.write_bytes(subprocess.run(command("crds"), capture_output=True, check=True).stdout)
    kubectl("apply", "-f", str(file))


def condition(obj: Object, type_: str) -> Object:
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == type_), {})


def running(kubectl: KubectlAt) -> list[str]:
    """Names of Machines that run, each with its Node."""
    found = items(kubectl, "machines")
    fine = [obj for obj in found if (obj.get("status") or {}).get("phase") == "Running" and obj["status"]["nodeRef"]]
    return sorted(obj["metadata"]["name"] for obj in fine) if len(fine) == len(found) else []


@needs_kubernetes
def test_a_missing_definition_is_named_with_the_command_that_installs_it(kubernetes: Kubernetes) -> None:
    arguments = command("controllers", "--kubeconfig", str(kubernetes.kubeconfig), "--loops", "capi")
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: the server does not serve clusters.cluster.x-k8s.io/v1beta2",
        f"hint: shoal crds | kubectl --kubeconfig {kubernetes.kubeconfig} apply -f -",
    ]


@needs_kubernetes
def test_one_file_makes_a_cluster_that_scales_and_leaves_nothing(
    kubernetes: Kubernetes, hub: Up, kubectl: KubectlAt, tmp_path: Path
) -> None:
    install(kubectl, tmp_path)
    hosting = KubectlAt(hub.data / "kubeconfig", tmp_path / "hub")
    flags = ("--kubeconfig", str(kubernetes.kubeconfig), "--hosting-kubeconfig", str(hub.data / "kubeconfig"))
    with shoal("controllers", *flags, "--loops", "capi") as process:
        before, hosted_before = everything(kubectl), everything(hosting)
        kubectl("apply", "-f", str(EXAMPLE))
        until(lambda: len(running(kubectl)) == 3)
        until(lambda: condition(items(kubectl, "clusters.cluster.x-k8s.io")[0], "Available").get("status") == "True")
        (cluster,) = items(kubectl, "clusters.cluster.x-k8s.io")
        assert cluster["status"]["phase"] == "Provisioned"

        secret = json.loads(kubectl("get", "secret", "east-kubeconfig", "-o", "json"))
        file = tmp_path / "east"
        file.write_bytes(base64.b64decode(secret["data"]["value"]))
        inside = KubectlAt(file, tmp_path / "inside")
        names = {node["metadata"]["name"] for node in items(inside, "nodes")}
        assert names == set(running(kubectl))
        inside("create", "deployment", "web", "--image=nginx:1", "--replicas=4")
        inside("rollout", "status", "deployment/web", f"--timeout={HANG:.0f}s")

        kubectl("scale", "machinedeployment", "east-small", "--replicas=50")
        until(lambda: len(running(kubectl)) == 50)
        assert len(items(inside, "nodes")) == 50
        process.kill()
    with shoal("controllers", *flags, "--loops", "capi") as process:
        kubectl("scale", "machinedeployment", "east-small", "--replicas=3")
        until(lambda: [len(items(kubectl, kind)) for kind in PER_MACHINE] == [3, 3])
        until(lambda: len(items(inside, "nodes")) == 3)

        kubectl("delete", "cluster.cluster.x-k8s.io", "east", f"--timeout={HANG:.0f}s")
        until(lambda: everything(kubectl) == before)
        until(lambda: everything(hosting) == hosted_before)
        assert process.terminate() == 0
        assert "Traceback" not in process.said()
    lease = json.loads(kubectl("get", "lease", "shoal-controllers-capi", "-n", "kube-system", "-o", "json"))
    assert lease["spec"]["holderIdentity"] == "", "given back, so that another need not wait"


@needs_kubernetes
def test_without_a_hosting_server_an_embedded_cluster_says_what_it_needs(
    kubernetes: Kubernetes, kubectl: KubectlAt, tmp_path: Path
) -> None:
    install(kubectl, tmp_path)
    with shoal("controllers", "--kubeconfig", str(kubernetes.kubeconfig), "--leader-elect=false"):
        before = everything(kubectl)
        kubectl("apply", "-f", str(EXAMPLE))
        until(lambda: condition(items(kubectl, "clusters.cluster.x-k8s.io")[0], "InfrastructureReady").get("reason"))
        kubectl(
            "wait", "cluster.cluster.x-k8s.io/east", "--for=condition=InfrastructureReady=False", f"--timeout={HANG}s"
        )

        def said() -> bool:
            (cluster,) = items(kubectl, "clusters.cluster.x-k8s.io")
            found = condition(cluster, "InfrastructureReady")
            return found["reason"] == "NoHostingServer" and "--hosting-kubeconfig" in found["message"]

        until(said)
        kubectl("delete", "cluster.cluster.x-k8s.io", "east", f"--timeout={HANG:.0f}s")
        until(lambda: everything(kubectl) == before)
