"""A whole small fleet for commands: a hub, one worker, two clusters with nodes, one Deployment that is split."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from shoal.assemble.server.hub import HubWithWorkers, ShoalServerSettings
from shoal.cli.main import shoal
from shoal.fleet.join.controller import ensure_worker_namespace
from tests.serving import Cluster, Server, running_server

Run = Callable[..., Result]
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"


def managed_cluster(name: str, nodes: int = 1) -> str:
    api_version = "infrastructure.cluster.x-k8s.io/v1alpha1"
    body = {"apiVersion": api_version, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": {"nodes": nodes}}
    return yaml.safe_dump(body)


def deployment(replicas: int = 2, name: str = "web") -> str:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="session")
def fleet() -> Iterator[Server]:
    with running_server() as server:
        up = HubWithWorkers(server.shoal, [])
        settings = ShoalServerSettings(server.shoal.directory.path, port=server.port)
        server.call(ensure_worker_namespace(server.shoal.client("test")))
        up.workers.append(server.call(up.start_worker("worker-1", settings, 10)))
        root = Cluster(server, "root")
        for name in ("east", "west"):
            root.post(MANAGED, yaml.safe_load(managed_cluster(name))).ok()
        # The hub learns Deployments from its clusters.
        root.eventually(lambda: root.post(DEPLOYMENTS, yaml.safe_load(deployment())).status < 300)
        root.eventually(lambda: root.get(f"{DEPLOYMENTS}/web").ok().get("status", {}).get("readyReplicas") == 2)
        root.close()
        yield server
        server.call(up.workers[0].stop())


@pytest.fixture(scope="session")
def hub(fleet: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The administrator's kubeconfig."""
    root = Cluster(fleet, "root")
    try:
        return root.kubeconfig(tmp_path_factory.mktemp("hub") / "kubeconfig")
    finally:
        root.close()


@pytest.fixture
def run(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command at that hub, in this process."""
    monkeypatch.setenv("SHOAL_KUBECONFIG", str(hub))

    def run(*arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(shoal, list(arguments), input=given)

    return run


def said(result: Result) -> str:
    """Returns the output of a successful command."""
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return result.stdout


def found(result: Result) -> object:
    return json.loads(said(result))
