"""The story of the seed on real clusters: two control planes, one pushed to by the hub, one with its own syncer."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.processes import Up, command
from tests.real.commands import HANG, shoal, until
from tests.real.hubs import KubectlAt
from tests.real.kubernetes import Kubernetes, needs_kubernetes

Object = dict[str, Any]

ASSIGNED = "workloads.kcp.dev/cluster"


def deployment(cluster: str, replicas: int, image: str = "web:1") -> Object:
    container = {"name": "web", "image": image, "envFrom": [{"configMapRef": {"name": "settings"}}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"web-{cluster}", "labels": {ASSIGNED: cluster}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": "red"}}


class World:
    def __init__(self, hub: KubectlAt, clusters: dict[str, KubectlAt], home: Path) -> None:
        self.hub, self.clusters, self._home = hub, clusters, home

    def apply(self, *objects: Object) -> str:
        file = self._home / "applied.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return str(self.hub("apply", "-f", str(file)))

    def status(self, cluster: str) -> Object:
        found: Object = json.loads(self.hub("get", "deployment", f"web-{cluster}", "-o", "json"))
        status: Object = found.get("status") or {}
        return status if status.get("observedGeneration") == found["metadata"]["generation"] else {}


def join(hub: Path, *arguments: str) -> str:
    done = subprocess.run(
        command("join-cluster", *arguments, "--kubeconfig", str(hub)),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        up = Up(tmp_path / "data", "--workers", "0")
        stack.callback(up.kill)
        config = tmp_path / "data" / "kubeconfig"
        clusters = {}
        for name in ("east", "west"):
            server = stack.enter_context(Kubernetes(tmp_path / name))
            server.start()
            clusters[name] = KubectlAt(server.kubeconfig, tmp_path / f"home-{name}")
            stack.enter_context(shoal("nodes", "--kubeconfig", str(server.kubeconfig), "--count", "2"))
        join(config, "east", "--kubeconfig-of-cluster", str(tmp_path / "east" / "kubeconfig"))
        manifest = list(yaml.safe_load_all(join(config, "west", "--mode", "pull")))
        (secret,) = (obj for obj in manifest if obj["kind"] == "Secret")
        hub = tmp_path / "west-at-hub"
        hub.write_bytes(base64.b64decode(secret["data"]["kubeconfig"]))
        # What a cluster is given in pull mode is accepted there, and the syncer runs with those rights.
        file = tmp_path / "manifest.yaml"
        file.write_text(yaml.safe_dump_all(manifest))
        clusters["west"]("apply", "-f", str(file))
        config_there = yaml.safe_load((tmp_path / "west" / "kubeconfig").read_text())
        token = clusters["west"]("create", "token", "shoal-syncer", "-n", "shoal-syncer").strip()
        config_there["users"][0]["user"] = {"token": token}
        west = tmp_path / "west" / "syncer-kubeconfig"
        west.write_text(yaml.safe_dump(config_there))
        flags = ("--from-kubeconfig", str(hub), "--to-kubeconfig", str(west), "--cluster", "west")
        stack.enter_context(shoal("syncer", *flags))
        yield World(KubectlAt(config, tmp_path / "home"), clusters, tmp_path)


@needs_kubernetes
def test_deployments_run_in_real_clusters(world: World) -> None:
    for name in world.clusters:
        world.hub("wait", "--for=condition=Ready", f"clusters.workload.kcp.dev/{name}", f"--timeout={HANG:.0f}s")
    world.apply(SETTINGS, *(deployment(name, 3) for name in world.clusters))
    for name, kubectl in world.clusters.items():
        until(lambda name=name: world.status(name).get("readyReplicas") == 3)  # type: ignore[misc]
        assert kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.color}") == "red"
    # Again: kubectl knows the learned kind as the built-in it is.
    assert "unchanged" in world.apply(SETTINGS, *(deployment(name, 3) for name in world.clusters))
    world.apply(*(deployment(name, 5, "web:2") for name in world.clusters))
    for name, kubectl in world.clusters.items():
        until(lambda name=name: world.status(name).get("readyReplicas") == 5)  # type: ignore[misc]
        path = "jsonpath={.spec.template.spec.containers[0].image}"
        assert kubectl("get", "deployment", f"web-{name}", "-o", path) == "web:2"
        world.hub("scale", "deployment", f"web-{name}", "--replicas=1")
        until(lambda name=name: world.status(name).get("readyReplicas") == 1)  # type: ignore[misc]
        kubectl("scale", "deployment", f"web-{name}", "--replicas=9")
        until(lambda name=name, kubectl=kubectl: _replicas(kubectl, name) == "1")  # type: ignore[misc]
    world.hub("delete", "deployment", *(f"web-{name}" for name in world.clusters), f"--timeout={HANG:.0f}s")
    for kubectl in world.clusters.values():
        until(lambda kubectl=kubectl: not kubectl("get", "deployments,configmaps", "-l", ASSIGNED, "-o", "name"))  # type: ignore[misc]


def _replicas(kubectl: KubectlAt, name: str) -> str:
    return str(kubectl("get", "deployment", f"web-{name}", "-o", "jsonpath={.spec.replicas}"))
