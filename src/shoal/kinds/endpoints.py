"""Endpoints of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import port_number, said
from shoal.kinds.pod_containers import PROTOCOLS
from shoal.kinds.pod_spec import ip_address
from shoal.kinds.service_validation import endpoint_ip
from shoal.objects.errors import Cause, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name

Object = dict[str, Any]

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
LAST_CHANGE = "endpoints.kubernetes.io/last-change-trigger-time"
LEADER = "control-plane.alpha.kubernetes.io/leader"
"""Annotation of Endpoints once used for leader election. They have no endpoints."""


def default_endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


def validate_endpoints(obj: Object, old: Object | None) -> list[Cause]:
    subsets = obj.get("subsets") or []
    if old is not None and subsets == (old.get("subsets") or []):
        return []
    return [cause for i, subset in enumerate(subsets) for cause in _subset(subset, f"subsets[{i}]")]


def _subset(subset: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        causes.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    for field in ("addresses", "notReadyAddresses"):
        for i, address in enumerate(subset.get(field) or ()):
            causes += _address(address, f"{path}.{field}[{i}]")
    ports = subset.get("ports") or []
    for i, port in enumerate(ports):
        causes += _port(port, f"{path}.ports[{i}]", named=len(ports) > 1)
    return causes


def _address(address: Object, path: str) -> list[Cause]:
    causes = ip_address(address.get("ip") or "", f"{path}.ip")
    if address.get("hostname"):
        causes += said(f"{path}.hostname", address["hostname"], is_dns1123_label(address["hostname"]))
    if address.get("nodeName") is not None:
        causes += said(f"{path}.nodeName", address["nodeName"], is_dns1123_subdomain(address["nodeName"]))
    return causes + endpoint_ip(address.get("ip") or "", f"{path}.ip")


def _port(port: Object, path: str, *, named: bool) -> list[Cause]:
    name = port.get("name")
    causes = said(f"{path}.name", name, is_dns1123_label(name)) if name else []
    if named and not name:
        causes.append(required(f"{path}.name"))
    causes += port_number(port.get("port", 0), f"{path}.port")
    if port.get("protocol") not in PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port.get("protocol") or "", PROTOCOLS))
    spoken = port.get("appProtocol")
    return causes + (said(f"{path}.appProtocol", spoken, is_qualified_name(spoken)) if spoken is not None else [])
