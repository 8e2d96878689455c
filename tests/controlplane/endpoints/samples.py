"""Sample Services and pods."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def service(**spec: Any) -> Object:
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 8080}]
    metadata = {"name": "web", "namespace": "default", "uid": "s", "labels": {"team": "a"}}
    given = {"selector": {"app": "web"}, "ports": ports, "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}
    return {"metadata": metadata, "spec": {**given, "ipFamilies": ["IPv4"], **spec}}


def pod(
    number: int, *, ready: bool = True, going: bool = False, ports: list[Object] | None = None, **spec: Any
) -> Object:
    metadata: Object = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "labels": {"app": "web"}}
    if going:
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    address = f"10.244.{number // 250}.{number % 250 + 1}"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": ports or []}], **spec},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions},
    }


def node(name: str = "n", zone: str = "a") -> Object:
    return {"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}
