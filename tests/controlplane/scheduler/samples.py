"""Sample pods and nodes as returned by an API server."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.snapshot import PodInfo

Object = dict[str, Any]


def node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    *,
    labels: dict[str, str] | None = None,
    taints: list[Object] | None = None,
    unschedulable: bool = False,
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or [], **({"unschedulable": True} if unschedulable else {})},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": str(pods)}},
    }


def pod(
    name: str,
    cpu: str = "500m",
    memory: str = "64Mi",
    *,
    ports: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **({"labels": labels} if labels else {})},
        "spec": {"containers": [{**container, **({"ports": ports} if ports else {})}], **spec},
    }


def from_server(pod: Object, uid: str = "", generation: int = 1, created: str = "", **more: Any) -> Object:
    """Returns the pod as it comes from the server; `more` goes to the top level."""
    metadata = {**pod["metadata"], "uid": uid or f"uid-{pod['metadata']['name']}", "generation": generation}
    return {**pod, "metadata": {**metadata, "creationTimestamp": created or "2024-01-01T00:00:00Z"}, **more}


def bound_pod(pod: Object, node: str, **more: Any) -> Object:
    return from_server({**pod, "spec": {**pod["spec"], "nodeName": node}}, **more)


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def prefer(weight: int, key: str, *values: str) -> Object:
    term = {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def pod_info(shapes: EquivalenceClasses, pod: Object, name: str = "", **more: Any) -> PodInfo:
    """Returns the PodInfo of a pod on a node."""
    metadata = pod["metadata"]
    key = (metadata.get("namespace", ""), name or metadata["name"])
    priority = pod["spec"].get("priority") or 0
    return PodInfo(key, f"uid-{key[1]}", shapes.classify(pod), shapes.peer(pod), **{"priority": priority, **more})
