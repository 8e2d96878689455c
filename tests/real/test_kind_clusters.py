"""KINDClusters of real containers: a `shoal up` process and plain kubectl, from creation to deletion."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.processes import Up
from tests.real.commands import until
from tests.real.containers.engine import Engine
from tests.real.containers.node_image import NAME
from tests.real.containers.workload_images import BUSYBOX
from tests.real.hubs import KubectlAt

pytestmark = pytest.mark.containers
TIMEOUT = "--timeout=100s"
Object = dict[str, Any]


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """Of a kind cluster, which is gone after the test whatever became of it."""
    name = f"shoal-test-{os.getpid()}"
    yield name
    if name in kind_clusters():
        subprocess.run(["kind", "delete", "cluster", "--name", name], check=True, capture_output=True)


@pytest.fixture
def up(engine: Engine, tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path / "data", environ=dict(os.environ))
    yield running
    running.terminate()


@pytest.fixture
def kubectl(up: Up, tmp_path: Path) -> KubectlAt:
    return KubectlAt(up.data / "kubeconfig", tmp_path / "home")


def kind_clusters() -> list[str]:
    return subprocess.run(["kind", "get", "clusters"], check=True, capture_output=True, text=True).stdout.split()


def apply(kubectl: KubectlAt, directory: Path, *objects: Object) -> None:
    file = directory / "applied.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    kubectl("apply", "-f", str(file))


def waited(kubectl: KubectlAt, *what: str) -> None:
    """A cluster of containers takes minutes on a busy machine, longer than one call of kubectl may."""
    for _ in range(9):
        with suppress(AssertionError):
            kubectl("wait", *what, TIMEOUT)
            return
    kubectl("wait", *what, TIMEOUT)


def created(kubectl: KubectlAt, directory: Path, name: str, nodes: list[Object]) -> KubectlAt:
    """A kubectl of the kind cluster, once its nodes are ready and pods can be created in it."""
    apply(
        kubectl,
        directory,
        {
            "apiVersion": "infrastructure.cluster-k8s.io/v1alpha1",
            "kind": "KINDCluster",
            "metadata": {"name": "real"},
            "spec": {"clusterName": name, "image": NAME, "nodes": nodes},
        },
    )
    waited(kubectl, "kindcluster/real", "--for", "condition=Ready")
    config = kubectl("get", "secret", f"{name}-config", "-o", "jsonpath={.data.config}")
    (directory / "kubeconfig").write_bytes(base64.b64decode(config))
    inside = KubectlAt(directory / "kubeconfig", directory / "inside")
    waited(inside, "nodes", "--all", "--for", "condition=Ready")
    until(lambda: "default" in inside("get", "serviceaccounts", "-o", "name"))
    return inside


def pod(name: str, script: str, labels: dict[str, str] | None = None, **spec: object) -> Object:
    container = {"name": "shell", "image": BUSYBOX, "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **spec},
    }


def succeeded(kubectl: KubectlAt, name: str) -> None:
    waited(kubectl, f"pod/{name}", "--for", "jsonpath={.status.phase}=Succeeded")


@pytest.mark.smoke
def test_a_cluster_of_containers_from_its_creation_to_its_end(
    kubectl: KubectlAt, name: str, engine: Engine, tmp_path: Path
) -> None:
    inside = created(kubectl, tmp_path, name, [{"role": "control-plane"}])
    assert name in kind_clusters()
    apply(inside, tmp_path, pod("hello", "echo the kernel says $((6 * 7)); uname -s"))
    succeeded(inside, "hello")
    assert inside("logs", "hello") == "the kernel says 42\nLinux\n"
    kubectl("delete", "kindcluster", "real", "--wait=false")
    waited(kubectl, "kindcluster/real", "--for", "delete")
    assert "real" not in kubectl("get", "kindclusters", "-o", "name")
    assert name not in kind_clusters()
    assert engine.docker("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={name}") == ""


def test_a_service_reaches_its_pods_on_two_nodes(kubectl: KubectlAt, name: str, tmp_path: Path) -> None:
    """The network, DNS and the proxy of nodes that are made here do what those of kind's own images do."""
    inside = created(kubectl, tmp_path, name, [{"role": "control-plane"}, {"role": "worker"}])
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "page"},
        "spec": {"selector": {"app": "page"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    page = "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"
    # As often as it takes until both pods have answered.
    asks = """
        until [ "$(sort -u /tmp/pages | wc -l)" = 2 ]
        do wget -q -O - http://page.default.svc.cluster.local >> /tmp/pages; sleep 0.2
        done; sort -u /tmp/pages"""
    tolerations = [{"operator": "Exists"}]
    apply(
        inside,
        tmp_path,
        service,
        pod("here", page, labels={"app": "page"}, nodeName=f"{name}-control-plane", tolerations=tolerations),
        pod("there", page, labels={"app": "page"}, nodeName=f"{name}-worker", tolerations=tolerations),
        pod("asks", asks, nodeName=f"{name}-control-plane", tolerations=tolerations),
    )
    succeeded(inside, "asks")
    assert inside("logs", "asks").split()[-2:] == ["here", "there"]
    kubectl("delete", "kindcluster", "real", "--wait=false")
    waited(kubectl, "kindcluster/real", "--for", "delete")
    assert name not in kind_clusters()
