"""kubectl enters a hosted cluster as a user of the hub: with a token it asks for itself, and through `shoal`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.assemble.storage.datadir import render_kubeconfig
from tests.isolation.tenants import BINDINGS, MANAGED, Hub, eventually, phase
from tests.real.programs import kubectls
from tests.serving import HANG, Cluster

SHOAL = Path(sys.prefix) / "bin" / "shoal"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the cluster east, which alice may look at."""
    hub = Hub(tmp_path_factory.mktemp("hub") / "data")
    root = Cluster(hub, "root")
    try:
        hub.shoal.server.core.authenticator.add_static_token("token-of-alice", User("alice", ("developers",)))
        rbac = "rbac.authorization.k8s.io"
        rule = {"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["managedclusters/token"]}
        root.post(ROLES, {"metadata": {"name": "enter"}, "rules": [{**rule, "verbs": ["create"]}]}).ok()
        subject = {"kind": "Group", "name": "developers", "apiGroup": rbac}
        role = {"kind": "ClusterRole", "name": "enter", "apiGroup": rbac}
        root.post(BINDINGS, {"metadata": {"name": "enter"}, "roleRef": role, "subjects": [subject]}).ok()
        spec = {"nodes": 0, "access": [{"role": "view", "users": ["alice"]}]}
        kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
        root.post(MANAGED, {**kind, "metadata": {"name": "east"}, "spec": spec}).ok()
        eventually(lambda: phase(root.get(f"{MANAGED}/east").ok()) == "Running")
        yield hub
    finally:
        root.close()
        hub.stop()


def run(*command: str | Path, home: Path, standard_input: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(
        command, input=standard_input, capture_output=True, text=True, timeout=HANG, env=environment, check=False
    )


@pytest.mark.parametrize("title", list(kubectls()) or [pytest.param("none", marks=pytest.mark.skip(reason="kubectl"))])
def test_kubectl_enters_as_a_user_of_the_hub(hub: Hub, title: str, tmp_path: Path) -> None:
    kubectl, own = kubectls()[title], tmp_path / "alice.kubeconfig"
    own.write_text(render_kubeconfig(f"https://localhost:{hub.port}", hub.authority, "token-of-alice"))
    asked = run(
        *(kubectl, "--kubeconfig", own, "create", "--raw", f"{MANAGED}/east/token", "-f", "-"),
        home=tmp_path,
        standard_input=json.dumps(REQUEST),
    )
    assert asked.returncode == 0, asked.stderr
    token = json.loads(asked.stdout)["status"]["token"]
    inside = tmp_path / "raw.kubeconfig"
    server = f"https://localhost:{hub.port}/managedclusters/default/east"
    inside.write_text(render_kubeconfig(server, hub.authority, token))

    printed = run(SHOAL, "kubeconfig", "east", "--kubeconfig", own, home=tmp_path)
    assert printed.returncode == 0, printed.stderr
    renewing = tmp_path / "east.kubeconfig"
    renewing.write_text(printed.stdout)
    assert f"server: {server}" in printed.stdout
    assert "token:" not in printed.stdout

    for file in (inside, renewing):
        read = run(kubectl, "--kubeconfig", file, "get", "namespaces", "-o", "name", home=tmp_path)
        assert "namespace/kube-system" in read.stdout, read.stderr
        refused = run(kubectl, "--kubeconfig", file, "create", "configmap", "x", home=tmp_path)
        assert 'User "hub:alice" cannot create resource "configmaps"' in refused.stderr
        may = run(kubectl, "--kubeconfig", file, "auth", "can-i", "list", "pods", home=tmp_path)
        assert may.stdout.strip() == "yes"
