"""Where the hub connects for kubeconfigs of workload Clusters."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Cluster, Server, running_server

Object = dict[str, Any]
CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
SECRETS = "/api/v1/namespaces/default/secrets"
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as made:
        yield made


@pytest.fixture
def root(server: Server) -> Iterator[Cluster]:
    made = Cluster(server, "root")
    yield made
    made.close()


def kubeconfig(url: str) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": "0123456789"}}],
            "shoal.dev/hosted-path": "/managedclusters/default/other",
        }
    )


def explained(root: Cluster, name: str, said: str) -> bool:
    """Waits until a condition of the workload Cluster says so."""

    def look() -> bool:
        return said in json.dumps((root.get(f"{CLUSTERS}/{name}").ok().get("status") or {}).get("conditions") or [])

    return root.eventually(look)


def register(root: Cluster, name: str, spec: Object) -> None:
    body = {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    root.post(CLUSTERS, body).ok()


def test_a_worker_does_not_choose_where_the_hub_connects(root: Cluster) -> None:
    """It writes the kubeconfig of its ManagedCluster."""
    spec = {"register": False, "workerSelector": {"matchLabels": {"no": "worker"}}}
    api = "infrastructure.cluster.x-k8s.io/v1alpha1"
    body = {"apiVersion": api, "kind": "ManagedCluster", "metadata": {"name": "far"}, "spec": spec}
    owner = {"apiVersion": api, "kind": "ManagedCluster", "name": "far"}
    owner["uid"] = root.post(MANAGED, body).ok()["metadata"]["uid"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        for name, path, said in (
            ("elsewhere", "", "must name its path at the hub, /managedclusters/default/far"),
            ("other", "/managedclusters/default/other", "must name its path at the hub, /managedclusters/default/far"),
            ("own", "/managedclusters/default/far", "ErrorStartingAPIImporter"),
        ):
            secret = {
                "metadata": {"name": "far-kubeconfig", "ownerReferences": [owner]},
                "type": "cluster.x-k8s.io/secret",
                "data": {"value": base64.b64encode(kubeconfig(address + path).encode()).decode()},
            }
            root.post(SECRETS, secret).ok()
            register(root, name, {"kubeconfigSecretRef": {"namespace": "default", "name": "far-kubeconfig"}})
            assert explained(root, name, said)
            root.delete(f"{SECRETS}/far-kubeconfig").ok()
            root.delete(f"{CLUSTERS}/{name}").ok()
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_kubeconfig_of_people_names_no_link_local_address(root: Cluster) -> None:
    register(root, "metadata", {"kubeconfig": kubeconfig("https://169.254.169.254")})
    assert explained(root, "metadata", "connections to 169.254.169.254 port 443 are not allowed")


def test_a_kubeconfig_of_people_names_loopback(root: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        register(root, "kind", {"kubeconfig": kubeconfig(f"https://127.0.0.1:{listener.getsockname()[1]}")})
        connection, _ = listener.accept()
        connection.close()
