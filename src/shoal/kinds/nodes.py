"""Node of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import cidr, fill, pair, parse_cidr, section
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
    pair(spec, "podCIDR", "podCIDRs")
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
    """Returns `spec.unschedulable`, the only selectable field of a node."""
    return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"


def drop_config(new: Object, old: Object | None = None) -> None:
    """Drops a new `configSource`: kubelets are no longer configured through the API. An existing one stays."""
    if (old or {}).get("spec", {}).get("configSource") is None:
        (new.get("spec") or {}).pop("configSource", None)


def validate_node(obj: Object, old: Object | None) -> list[Cause]:
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    causes = validate_taints(spec.get("taints") or [], "metadata.taints") if spec != before else []
    causes += _status(obj.get("status") or {}, (old or {}).get("status"))
    networks = spec.get("podCIDRs") or []
    if networks != before.get("podCIDRs"):
        causes += _networks(networks, "spec.podCIDRs")
    if before.get("podCIDRs") and networks != before["podCIDRs"]:
        why = 'node updates may not change podCIDR except from "" to valid'
        causes.append(forbidden_field("spec.podCIDRs", why))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        why = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden_field("spec.providerID", why))
    if old is not None and (spec.get("externalID") or "") != (before.get("externalID") or ""):
        causes.append(forbidden_field("spec.externalID", "may not be updated"))
    return causes


def _networks(networks: list[str], path: str) -> list[Cause]:
    causes = [cause for i, network in enumerate(networks) for cause in cidr(network, f"{path}[{i}]")]
    if len(networks) < 2:
        return causes
    parsed = [parse_cidr(network) for network in networks]
    if None in parsed:
        i = parsed.index(None)
        wrong = f"invalid CIDR[{i}]: <nil> (invalid CIDR address: {networks[i]})"
        said = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{wrong}"
        causes.append(Cause("InternalError", f"{path}: {said}", path))
    families = {network.version for network in parsed if network is not None}
    if None in parsed or len(families) < 2 or len(networks) > 2:
        causes.append(invalid_value(path, networks, "may specify no more than one CIDR for each IP family"))
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
