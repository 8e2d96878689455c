"""Bundles end to end on a server with all its controllers: pods run on simulated nodes, the worker that the bundle
starts is a real process, and everything is deleted at the end.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.storage.datadir import render_kubeconfig
from tests.controlplane.simulated_nodes import simulated_cluster
from tests.faults.processes import Up
from tests.fleet.bundle.bundle_hub import hub_of, said
from tests.fleet.fleets import condition, managed, phase
from tests.serving import Cluster, Server

Object = dict[str, Any]

GROUP = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1"
WORKERS = f"{GROUP}/namespaces/shoal-system/workers"
CLUSTERS = f"{GROUP}/namespaces/default/managedclusters"
SECRETS = "/api/v1/namespaces/shoal-system/secrets"
KIND_CLUSTERS = "/apis/infrastructure.cluster-k8s.io/v1alpha1/namespaces/shoal-system/kindclusters"
INSIDE = "/apis/apps/v1/namespaces/shoal-system/deployments/shoal-worker-"
READY = "the worker's own API is at "


@pytest.fixture
def root(server: Server) -> Iterator[Cluster]:
    found = Cluster(server, "root")
    yield found
    found.close()


def secret(inside: Cluster, name: str, key: str = "value", **metadata: Any) -> Object:
    url = f"https://127.0.0.1:{inside.server.port}{inside.prefix}"
    text = render_kubeconfig(url, inside.server.authority, inside.server.token)
    data = {key: base64.b64encode(text.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}, "data": data}


def worker(root: Cluster, name: str, **spec: Any) -> Object:
    asked = {"infrastructure": "kind", "hubAddress": f"https://127.0.0.1:{root.server.port}", **spec}
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": name},
        "spec": asked,
    }


def says(root: Cluster, name: str, reason: str) -> Object:
    def look() -> Object | None:
        found: Object = root.get(f"{WORKERS}/{name}").ok()
        return found if condition(found, "BundleApplied").get("reason") == reason else None

    found = root.eventually(look)
    assert found is not None
    return found


def started(inside: Cluster, name: str, tmp_path: Path) -> Up:
    """The worker of the bundle, as the kubelet would start it: the arguments of its container, the Secret as a file."""
    deployment = inside.get(f"{INSIDE}{name}").ok()
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    given = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert [arguments[0], *given] == ["worker", "--name", "--hub-kubeconfig", "--data-dir", "--listen"]
    file = tmp_path / "hub.kubeconfig"
    file.write_text(yaml.safe_dump(hub_of(inside.get(f"{SECRETS}/shoal-worker-{name}").ok())))
    home = tmp_path / "volume" / "worker"
    return Up(home, "--name", given["--name"], "--hub-kubeconfig", str(file), verb="worker", ready=READY)


def test_a_worker_comes_by_its_bundle_hosts_and_leaves_nothing(root: Cluster, tmp_path: Path) -> None:
    inside = simulated_cluster(root.server, "n1")
    root.post(SECRETS, secret(inside, "place-admin")).ok()
    reference = {"namespace": "shoal-system", "name": "place-admin"}
    declared = worker(root, "bundled", kubeconfigSecretRef=reference, capacity=7, location="north")
    root.post(WORKERS, declared).ok()
    found = says(root, "bundled", "Applied")
    assert phase(found) == "Pending", "its pod is a simulated one"
    process = started(inside, "bundled", tmp_path)
    try:
        root.eventually(lambda: phase(root.get(f"{WORKERS}/bundled").ok()) == "Running")
        found = root.get(f"{WORKERS}/bundled").ok()
        assert (found["spec"]["capacity"], found["spec"]["location"]) == (7, "north"), "as they were declared"
        assert found["spec"]["infrastructure"] == "kind"
        root.eventually(lambda: hub_of(inside.get(f"{SECRETS}/shoal-worker-bundled").ok())["users"][0]["user"] == {})
        process.kill()
        file = tmp_path / "hub.kubeconfig"
        file.write_text(yaml.safe_dump(hub_of(inside.get(f"{SECRETS}/shoal-worker-bundled").ok())))
        process = Up(process.data, "--name", "bundled", "--hub-kubeconfig", str(file), verb="worker", ready=READY)
        root.post(CLUSTERS, managed("on-bundle", location="north")).ok()
        root.eventually(lambda: phase(root.get(f"{CLUSTERS}/on-bundle").ok()) == "Running")

        root.delete(f"{WORKERS}/bundled").ok()
        root.eventually(lambda: condition(root.get(f"{WORKERS}/bundled").ok(), "Deleting"))
        assert inside.get(f"{INSIDE}bundled").status == 200, "it hosts something"
        root.delete(f"{CLUSTERS}/on-bundle").ok()
        root.eventually(lambda: inside.get(f"{INSIDE}bundled").status == 404)
        process.terminate()
        root.eventually(lambda: root.get(f"{WORKERS}/bundled").status == 404)
        assert inside.get("/api/v1/namespaces/shoal-system").status == 404
        assert inside.get("/api/v1/persistentvolumes").ok()["items"] == []
        assert root.get("/api/v1/namespaces/kube-system/secrets?labelSelector=shoal.dev/bundle").ok()["items"] == []
        assert root.get(f"{SECRETS}/place-admin").status == 200, "it is not ours"
    finally:
        process.close()
        inside.close()


def test_one_without_a_cluster_gets_a_kind_cluster_that_goes_with_it(root: Cluster) -> None:
    """There is no kind here: the Secret that its provider would write is written by the test."""
    inside = simulated_cluster(root.server, "n1")
    root.post(WORKERS, worker(root, "made", nodes=2, version="v1.35.0")).ok()
    found = says(root, "made", "ClusterNotReady")
    assert said(found)[2].startswith("KINDCluster shoal-system/made: ")
    cluster = root.get(f"{KIND_CLUSTERS}/made").ok()
    wanted = {"clusterName": "made", "kubernetesVersion": "1.35"}
    assert cluster["spec"].items() >= wanted.items()
    assert [(node["role"], node.get("count", 1)) for node in cluster["spec"]["nodes"]] == [
        ("control-plane", 1),
        ("worker", 2),
    ]
    (owner,) = cluster["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Worker", "made", True)
    reference = {"apiVersion": cluster["apiVersion"], "kind": cluster["kind"], "name": "made"}
    foreign = secret(inside, "made-config", "config")
    root.post(SECRETS, foreign).ok()
    owned = [{**reference, "uid": cluster["metadata"]["uid"]}]
    root.patch(f"{SECRETS}/made-config", {"metadata": {"ownerReferences": owned}}).ok()
    root.patch(f"{KIND_CLUSTERS}/made", {"metadata": {"annotations": {"a": "change"}}}).ok()
    says(root, "made", "Applied")
    root.delete(f"{WORKERS}/made").ok()
    root.eventually(lambda: root.get(f"{WORKERS}/made").status == 404)
    assert root.get(f"{KIND_CLUSTERS}/made").status == 404
    assert inside.get("/api/v1/namespaces/shoal-system").status == 404
    inside.close()


def test_what_is_of_others_stays_and_a_cluster_that_does_not_answer_holds_its_worker(root: Cluster) -> None:
    inside = simulated_cluster(root.server, "n1")
    root.post(SECRETS, secret(inside, "kept-admin")).ok()
    reference = {"namespace": "shoal-system", "name": "kept-admin"}
    root.post(WORKERS, worker(root, "kept", kubeconfigSecretRef=reference)).ok()
    says(root, "kept", "Applied")
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}
    inside.post("/api/v1/namespaces/shoal-system/configmaps", theirs).ok()
    root.delete(f"{SECRETS}/kept-admin").ok()
    root.delete(f"{WORKERS}/kept").ok()
    found = says(root, "kept", "RemovalFailed")
    why = "cannot delete the bundle from the cluster: Secret shoal-system/kept-admin not found; "
    assert said(found)[2].startswith(why)
    assert inside.get(f"{INSIDE}kept").status == 200
    root.post(SECRETS, secret(inside, "kept-admin")).ok()
    root.eventually(lambda: root.get(f"{WORKERS}/kept").status == 404)
    assert inside.get(f"{INSIDE}kept").status == 404
    assert inside.get("/api/v1/namespaces/shoal-system/configmaps/theirs").status == 200
    inside.close()
