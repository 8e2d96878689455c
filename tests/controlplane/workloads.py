"""Workloads in a cluster without nodes: the tests set the status of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.kinds.core.pod.status import is_active, is_ready
from tests.serving import Cluster

Object = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
LONG_AGO = "2023-11-14T22:13:20Z"


def template(image: str = "web:1", **metadata: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "web"}, **metadata},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def replica_set(replicas: int, name: str = "web", **spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(), **spec},
    }


def deployment(replicas: int, image: str = "web:1", **spec: Any) -> Object:
    made = replica_set(replicas, **{"template": template(image), **spec})
    return {**made, "kind": "Deployment"}


def pods(cluster: Cluster) -> list[Object]:
    found: list[Object] = cluster.get(PODS).ok()["items"]
    return found


def make_ready(cluster: Cluster, name: str) -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]
    cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}})


def run_pods(cluster: Cluster) -> int:
    """Makes all active pods running and ready. Returns their number."""
    active = [pod for pod in pods(cluster) if is_active(pod)]
    for pod in active:
        if not is_ready(pod):
            make_ready(cluster, pod["metadata"]["name"])
    return len(active)


def until(cluster: Cluster, look: Callable[[], Any], *, running: bool = True) -> Any:
    """Like `eventually`, and makes new pods run meanwhile."""

    def again() -> Any:
        if running:
            run_pods(cluster)
        return look()

    return cluster.eventually(again)


def status_of(cluster: Cluster, path: str) -> Object:
    found: Object = cluster.get(path).ok().get("status") or {}
    return found


def condition(obj: Object, kind: str) -> Object:
    found = [one for one in (obj.get("status") or {}).get("conditions") or () if one["type"] == kind]
    return found[0] if found else {}
