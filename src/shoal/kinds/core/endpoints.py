"""Endpoints of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.containers import PROTOCOLS
from shoal.kinds.core.pod.spec import validate_ip_address
from shoal.kinds.core.service.service_validation import validate_endpoint_ip
from shoal.kinds.validation.field import invalid_causes, validate_port_number
from shoal.objects.errors import Cause, not_supported, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name

Object = dict[str, Any]

MANAGED_BY_LABEL = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY_ANNOTATION = "endpoints.kubernetes.io/over-capacity"
LAST_CHANGE_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
"""Annotation of Endpoints once used for leader election. They have no endpoints."""


def default_endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


def validate_endpoints(obj: Object, old: Object | None) -> list[Cause]:
    subsets = obj.get("subsets") or []
    if old is not None and subsets == (old.get("subsets") or []):
        return []
    return [cause for i, subset in enumerate(subsets) for cause in _validate_subset(subset, f"subsets[{i}]")]


def _validate_subset(subset: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        causes.append(required_value(path, "must specify `addresses` or `notReadyAddresses`"))
    for field in ("addresses", "notReadyAddresses"):
        for i, address in enumerate(subset.get(field) or ()):
            causes += _validate_address(address, f"{path}.{field}[{i}]")
    ports = subset.get("ports") or []
    for i, port in enumerate(ports):
        causes += _validate_port(port, f"{path}.ports[{i}]", name_required=len(ports) > 1)
    return causes


def _validate_address(address: Object, path: str) -> list[Cause]:
    causes = validate_ip_address(address.get("ip") or "", f"{path}.ip")
    if address.get("hostname"):
        causes += invalid_causes(f"{path}.hostname", address["hostname"], is_dns1123_label(address["hostname"]))
    if address.get("nodeName") is not None:
        causes += invalid_causes(f"{path}.nodeName", address["nodeName"], is_dns1123_subdomain(address["nodeName"]))
    return causes + validate_endpoint_ip(address.get("ip") or "", f"{path}.ip")


def _validate_port(port: Object, path: str, *, name_required: bool) -> list[Cause]:
    name = port.get("name")
    causes = invalid_causes(f"{path}.name", name, is_dns1123_label(name)) if name else []
    if name_required and not name:
        causes.append(required_value(f"{path}.name"))
    causes += validate_port_number(port.get("port", 0), f"{path}.port")
    if port.get("protocol") not in PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port.get("protocol") or "", PROTOCOLS))
    app_protocol = port.get("appProtocol")
    return causes + (
        invalid_causes(f"{path}.appProtocol", app_protocol, is_qualified_name(app_protocol))
        if app_protocol is not None
        else []
    )
