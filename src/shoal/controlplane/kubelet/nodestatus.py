"""Node status as a kubelet would report it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.controlplane.kubelet.stages import Stages

Object = dict[str, Any]


def node_status(
    node: Object, stages: Stages, unhealthy: Mapping[str, Object], version: str, address: str, now: str
) -> Object:
    """`unhealthy` are conditions that replace the healthy ones. Fields the node already reports are kept."""
    metadata, old = node["metadata"], node.get("status") or {}
    capacity = {**stages.capacity, **(old.get("capacity") or {})}
    labels = metadata.get("labels") or {}
    defaults = {
        **stages.node_info,
        "architecture": labels.get("kubernetes.io/arch") or stages.node_info["architecture"],
        "operatingSystem": labels.get("kubernetes.io/os") or stages.node_info["operatingSystem"],
        "machineID": metadata["uid"].replace("-", ""),
        "systemUUID": metadata["uid"],
        "bootID": metadata["uid"],
    }
    reported = {field: value for field, value in (old.get("nodeInfo") or {}).items() if value}
    if not (has_provider_id(node) and reported.get("kubeletVersion")):
        reported["kubeletVersion"] = version
    return {
        **old,
        "capacity": capacity,
        "allocatable": {**capacity, **(old.get("allocatable") or {})},
        "addresses": old.get("addresses") or _addresses(metadata["name"], address),
        "nodeInfo": {**(old.get("nodeInfo") or {}), **defaults, **reported},
        "conditions": _conditions(old, stages, unhealthy, now),
    }


def has_provider_id(node: Object) -> bool:
    """A node created with a machine keeps its kubelet version: an upgrade replaces the machine. Other nodes follow
    their cluster's version.
    """
    return bool((node.get("spec") or {}).get("providerID"))


def internal_ip(node: Object) -> str:
    """Returns the node's InternalIP; empty if it has none."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(each["address"]) for each in addresses if each.get("type") == "InternalIP"), "")


def _addresses(name: str, address: str) -> list[Object]:
    return [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]


def _conditions(old: Object, stages: Stages, unhealthy: Mapping[str, Object], now: str) -> list[Object]:
    before = {each.get("type"): each for each in old.get("conditions") or ()}
    conditions: list[Object] = []
    for healthy in stages.conditions:
        desired = {**healthy, **unhealthy.get(healthy["type"], {})}
        current = before.pop(healthy["type"], None) or {}
        if desired.items() <= current.items():
            conditions.append(current)
            continue
        since = current.get("lastTransitionTime") if current.get("status") == desired["status"] else None
        conditions.append({**desired, "lastHeartbeatTime": now, "lastTransitionTime": since or now})
    return [*conditions, *before.values()]
