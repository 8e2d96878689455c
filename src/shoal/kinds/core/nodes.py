"""Node of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.scheduling import validate_taints
from shoal.kinds.validation.field import (
    ensure_map,
    parse_cidr,
    repeated_positions,
    set_defaults,
    sync_pair,
    validate_cidr,
)
from shoal.kinds.validation.resource_list import normalize_resource_list, validate_resource_quantity
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value

Object = dict[str, Any]

_NODE_INFO_FIELDS = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


def default_node(obj: Object) -> None:
    spec, status = ensure_map(obj, "spec"), ensure_map(obj, "status")
    sync_pair(spec, "podCIDR", "podCIDRs")
    if not spec.get("unschedulable", True):
        del spec["unschedulable"]
    normalize_resource_list(status, "capacity")
    normalize_resource_list(status, "allocatable")
    if status.get("allocatable") is None and status.get("capacity") is not None:
        status["allocatable"] = dict(status["capacity"])
    endpoint = ensure_map(ensure_map(status, "daemonEndpoints"), "kubeletEndpoint")
    set_defaults(endpoint, Port=0)
    set_defaults(ensure_map(status, "nodeInfo"), **dict.fromkeys(_NODE_INFO_FIELDS, ""))


def selectable_field(obj: Object, path: str) -> str:
    """Returns `spec.unschedulable`, the only selectable field of a node."""
    return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"


def drop_config_source(new: Object, old: Object | None = None) -> None:
    """Drops a new `configSource`: kubelets are no longer configured through the API. An existing one stays."""
    if (old or {}).get("spec", {}).get("configSource") is None:
        (new.get("spec") or {}).pop("configSource", None)


def validate_node(obj: Object, old: Object | None) -> list[Cause]:
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    causes = validate_taints(spec.get("taints") or [], "metadata.taints") if spec != before else []
    causes += _validate_status(obj.get("status") or {}, (old or {}).get("status"))
    pod_cidrs = spec.get("podCIDRs") or []
    if pod_cidrs != before.get("podCIDRs"):
        causes += _validate_pod_cidrs(pod_cidrs, "spec.podCIDRs")
    if before.get("podCIDRs") and pod_cidrs != before["podCIDRs"]:
        detail = 'node updates may not change podCIDR except from "" to valid'
        causes.append(forbidden_field("spec.podCIDRs", detail))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        detail = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden_field("spec.providerID", detail))
    if old is not None and (spec.get("externalID") or "") != (before.get("externalID") or ""):
        causes.append(forbidden_field("spec.externalID", "may not be updated"))
    return causes


def _validate_pod_cidrs(pod_cidrs: list[str], path: str) -> list[Cause]:
    causes = [cause for i, network in enumerate(pod_cidrs) for cause in validate_cidr(network, f"{path}[{i}]")]
    if len(pod_cidrs) < 2:
        return causes
    parsed = [parse_cidr(network) for network in pod_cidrs]
    if None in parsed:
        i = parsed.index(None)
        cidr_error = f"invalid CIDR[{i}]: <nil> (invalid CIDR address: {pod_cidrs[i]})"
        detail = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{cidr_error}"
        causes.append(Cause("InternalError", f"{path}: {detail}", path))
    families = {network.version for network in parsed if network is not None}
    if None in parsed or len(families) < 2 or len(pod_cidrs) > 2:
        causes.append(invalid_value(path, pod_cidrs, "may specify no more than one CIDR for each IP family"))
    return causes


def _validate_status(status: Object, old: Object | None) -> list[Cause]:
    if status == old:
        return []
    causes: list[Cause] = []
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            causes += validate_resource_quantity(name, value, f"status.{field}.{name}")
    addresses = status.get("addresses") or []
    for i in repeated_positions(addresses):
        printed = {"Type": addresses[i].get("type"), "Address": addresses[i].get("address")}
        causes.append(duplicate(f"status.addresses[{i}]", printed))
    return causes
