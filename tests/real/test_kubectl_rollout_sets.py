"""StatefulSets, DaemonSets and ReplicationControllers with kubectl, in a cluster with simulated nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.simulated_nodes import simulated_cluster
from tests.controlplane.workloads import Object, template
from tests.real.programs import Kubectl
from tests.serving import Cluster, Server


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = simulated_cluster(server, "n1", "n2", "n3")
    yield cluster
    cluster.close()


def apply(kubectl: Kubectl, directory: Path, kind: str, **spec: object) -> None:
    selector = {"matchLabels": {"app": "web"}}
    made: Object = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": template(), **spec},
    }
    path = directory / "web.yaml"
    path.write_text(yaml.safe_dump(made))
    kubectl("apply", "-f", str(path))


def numbers(kubectl: Kubectl, what: str) -> list[str]:
    return [row[0] for row in kubectl.rows("rollout", "history", what) if row and row[0].isdigit()]


def image(kubectl: Kubectl) -> set[str]:
    return set(kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}").split())


@pytest.mark.parametrize(
    ("what", "kind", "spec"),
    [("statefulset/web", "StatefulSet", {"replicas": 3, "serviceName": "web"}), ("daemonset/web", "DaemonSet", {})],
)
def test_a_rollout_forth_and_back(
    kubectl: Kubectl, cluster: Cluster, tmp_path: Path, what: str, kind: str, spec: Object
) -> None:
    apply(kubectl, tmp_path, kind, **spec)
    kubectl("rollout", "status", what, "--timeout=30s")
    kubectl("annotate", what, "kubernetes.io/change-cause=second")
    kubectl("set", "image", what, "c=web:2")
    said = kubectl("rollout", "status", what, "--timeout=30s")
    assert "roll out complete" in said or "successfully rolled out" in said
    assert image(kubectl) == {"web:2"}
    assert numbers(kubectl, what) == ["1", "2"]
    assert "second" in kubectl("rollout", "history", what)
    assert "web:1" in kubectl("rollout", "history", what, "--revision=1")
    kubectl("rollout", "undo", what)
    kubectl("rollout", "status", what, "--timeout=30s")
    assert image(kubectl) == {"web:1"}
    assert numbers(kubectl, what) == ["2", "3"]
    # kubectl compares letter by letter what it would write itself: versions before 1.36 find a difference.
    said = kubectl("rollout", "undo", what, "--to-revision=3")
    assert "rolled back" in said or "skipped rollback (current template already matches revision 3)" in said
    assert numbers(kubectl, what) == ["2", "3"]
    kubectl("rollout", "undo", what, "--to-revision=2")
    kubectl("rollout", "status", what, "--timeout=30s")
    assert image(kubectl) == {"web:2"}
    kubectl("rollout", "restart", what)
    kubectl("rollout", "status", what, "--timeout=30s")
    assert numbers(kubectl, what) == ["3", "4", "5"]
    assert "SuccessfulCreate" in kubectl("describe", what)
    kubectl("delete", what, "--cascade=foreground", "--timeout=30s")
    cluster.eventually(lambda: not kubectl("get", "controllerrevisions,pods", "-o", "name"))


def test_how_they_look(kubectl: Kubectl, cluster: Cluster, tmp_path: Path) -> None:
    apply(kubectl, tmp_path, "StatefulSet", replicas=2, serviceName="web")
    kubectl("rollout", "status", "statefulset/web", "--timeout=30s")
    assert kubectl.rows("get", "statefulset", "web", "--no-headers")[0][:2] == ["web", "2/2"]
    kubectl("scale", "statefulset/web", "--replicas=3")
    kubectl("wait", "statefulset/web", "--for=jsonpath={.status.availableReplicas}=3", "--timeout=30s")
    assert [row[0] for row in kubectl.rows("get", "pods", "--no-headers")] == ["web-0", "web-1", "web-2"]
    kubectl("delete", "statefulset", "web")
    apply(kubectl, tmp_path, "DaemonSet")
    kubectl("rollout", "status", "daemonset/web", "--timeout=30s")
    assert kubectl.rows("get", "daemonset", "web", "--no-headers")[0][:6] == ["web", "3", "3", "3", "3", "3"]
    described = kubectl("describe", "daemonset", "web")
    assert "Desired Number of Nodes Scheduled: 3" in described
    assert "Pods Status:  3 Running / 0 Waiting / 0 Succeeded / 0 Failed" in described


def test_a_replication_controller(kubectl: Kubectl, cluster: Cluster, tmp_path: Path) -> None:
    made = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"app": "web"}, "template": template()},
    }
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump(made))
    kubectl("create", "-f", str(path))
    kubectl("wait", "rc/web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=30s")
    kubectl("scale", "rc/web", "--replicas=1")
    kubectl("wait", "rc/web", "--for=jsonpath={.status.replicas}=1", "--timeout=30s")
    assert kubectl.rows("get", "rc", "web", "--no-headers")[0][:4] == ["web", "1", "1", "1"]
    kubectl("delete", "rc", "web")
    cluster.eventually(lambda: not kubectl("get", "pods", "-o", "name"))
