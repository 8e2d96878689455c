"""Sample nodes and pods for tests of simulated nodes."""

from __future__ import annotations

from typing import Any

from shoal.clock import rfc3339

Object = dict[str, Any]

NOW = 1_700_000_000.0
STAMP = rfc3339(NOW)
VERSION = "v1.36.4"


def ago(seconds: float) -> str:
    return rfc3339(NOW - seconds)


def node(name: str = "n", annotations: dict[str, str] | None = None, **status: object) -> Object:
    metadata = {
        "name": name,
        "uid": "00000000-0000-4000-8000-000000000001",
        "creationTimestamp": STAMP,
        "labels": {"shoal.dev/simulated": "true"},
        "annotations": annotations or {},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def ready_node(status: str = "True") -> Object:
    addresses = [{"type": "InternalIP", "address": "172.16.0.9"}]
    return node(conditions=[{"type": "Ready", "status": status}], addresses=addresses)


def pod(simulate: str = "", *, owner: str = "", **spec: object) -> Object:
    metadata: Object = {
        "name": "p",
        "namespace": "default",
        "uid": "00000000-0000-4000-8000-000000000002",
        "creationTimestamp": STAMP,
        "generation": 1,
        "annotations": {"shoal.dev/simulate": simulate} if simulate else {},
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "u", "controller": True}]
    full = {"containers": [{"name": "c", "image": "nginx:1"}], "restartPolicy": "Always", "nodeName": "n", **spec}
    status = {"phase": "Pending", "qosClass": "BestEffort"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": full, "status": status}
