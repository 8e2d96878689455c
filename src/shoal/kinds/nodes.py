"""Node of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import cidr, fill, section
from shoal.kinds.pod_scheduling import validate_taints
from shoal.kinds.resources import default_list, quantity_causes
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value

Object = dict[str, Any]

_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


def default_node(obj: Object) -> None:
    spec, status = section(obj, "spec"), section(obj, "status")
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs") and not spec.get("podCIDR"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    if not spec.get("unschedulable", True):
        del spec["unschedulable"]
    default_list(status, "capacity")
    default_list(status, "allocatable")
    if status.get("allocatable") is None and status.get("capacity") is not None:
        status["allocatable"] = dict(status["capacity"])
    endpoint = section(section(status, "daemonEndpoints"), "kubeletEndpoint")
    fill(endpoint, Port=0)
    fill(section(status, "nodeInfo"), **dict.fromkeys(_INFO, ""))


def selectable(obj: Object, path: str) -> str:
    """`spec.unschedulable`, the one field a node is selected by."""
    return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"


def validate_node(obj: Object, old: Object | None) -> list[Cause]:
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    causes = validate_taints(spec.get("taints") or [], "metadata.taints") if spec != before else []
    causes += _status(obj.get("status") or {}, (old or {}).get("status"))
    addresses = spec.get("podCIDRs") or []
    for i, address in enumerate(addresses if addresses != before.get("podCIDRs") else ()):
        causes += cidr(address, f"spec.podCIDRs[{i}]")
    if len(addresses) > 1 and (len(addresses) > 2 or (":" in addresses[0]) == (":" in addresses[1])):
        why = "may specify no more than one CIDR for each IP family"
        causes.append(invalid_value("spec.podCIDRs", addresses, why))
    if before.get("podCIDRs") and addresses != before["podCIDRs"]:
        why = 'node updates may not change podCIDR except from "" to valid'
        causes.append(forbidden_field("spec.podCIDRs", why))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        why = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden_field("spec.providerID", why))
    return causes


def _status(status: Object, old: Object | None) -> list[Cause]:
    if status == old:
        return []
    causes: list[Cause] = []
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            causes += quantity_causes(name, value, f"status.{field}.{name}")
    addresses = status.get("addresses") or []
    for i, address in enumerate(addresses):
        if address in addresses[:i]:
            shown = {"Type": address.get("type"), "Address": address.get("address")}
            causes.append(duplicate(f"status.addresses[{i}]", shown))
    return causes
