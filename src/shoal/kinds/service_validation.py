"""Validation of Service of core/v1, in upstream's words. Pure."""

from __future__ import annotations

import ipaddress
from typing import Any

from shoal.kinds.checks import is_port_name, one_of, parse_ip, port_number, said
from shoal.kinds.pod_containers import PROTOCOLS
from shoal.kinds.pod_spec import ip_address
from shoal.kinds.services import WITH_NODE_PORTS, is_external, is_headless, needs_health_check
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, validate_labels

Object = dict[str, Any]

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
FIXED = "may not change once set"


def validate_service(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    if old is not None and spec == old.get("spec"):
        return []
    causes = [] if old is None else _fixed_addresses(spec, old.get("spec") or {})
    kind, ports = spec.get("type"), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind in WITH_NODE_PORTS and is_headless(spec):
        causes.append(invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        causes += _external_name(spec)
    names: set[str] = set()
    for i, port in enumerate(ports):
        causes += _port(port, names, f"spec.ports[{i}]", named=len(ports) > 1)
    causes += validate_labels(spec.get("selector"), "spec.selector")
    causes += one_of(spec.get("sessionAffinity"), "spec.sessionAffinity", "ClientIP", "None")
    causes += _affinity(spec)
    if kind != "ExternalName":
        causes += _addresses(spec)
    for i, network in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        if not _is_network(network):
            why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid_value(f"spec.LoadBalancerSourceRanges[{i}]", network, why))
    for i, address in enumerate(spec.get("externalIPs") or ()):
        causes += ip_address(address, f"spec.externalIPs[{i}]") or endpoint_ip(address, f"spec.externalIPs[{i}]")
    causes += one_of(kind, "spec.type", *TYPES)
    return causes + _ports(ports, kind) + _balancing(spec)


def _external_name(spec: Object) -> list[Cause]:
    why = "may not be set for ExternalName services"
    causes = [forbidden_field(f"spec.{f}", why) for f in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(f)]
    name = (spec.get("externalName") or "").removesuffix(".")
    return causes + (
        said("spec.externalName", name, is_dns1123_subdomain(name)) if name else [required("spec.externalName")]
    )


def _port(port: Object, names: set[str], path: str, *, named: bool) -> list[Cause]:
    name = port.get("name")
    causes: list[Cause] = []
    if name:
        causes += said(f"{path}.name", name, is_dns1123_label(name))
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    elif named:
        causes.append(required(f"{path}.name"))
    causes += port_number(port.get("port", 0), f"{path}.port")
    if port.get("protocol") not in PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port.get("protocol") or "", PROTOCOLS))
    target = port.get("targetPort", 0)
    if isinstance(target, str):
        causes += said(f"{path}.targetPort", target, is_port_name(target))
    else:
        causes += port_number(target, f"{path}.targetPort")
    protocol = port.get("appProtocol")
    return causes if protocol is None else causes + said(f"{path}.appProtocol", protocol, is_qualified_name(protocol))


def _ports(ports: list[Object], kind: object) -> list[Cause]:
    causes: list[Cause] = []
    if kind == "ClusterIP":
        why = "may not be used when `type` is 'ClusterIP'"
        causes += [forbidden_field(f"spec.ports[{i}].nodePort", why) for i, p in enumerate(ports) if p.get("nodePort")]
    node: set[tuple[object, object]] = set()
    seen: set[tuple[object, object]] = set()
    for i, port in enumerate(ports):
        if port.get("nodePort") and (port.get("protocol"), port["nodePort"]) in node:
            causes.append(duplicate(f"spec.ports[{i}].nodePort", port["nodePort"]))
        node.add((port.get("protocol"), port.get("nodePort")))
    for i, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            causes.append(duplicate(f"spec.ports[{i}]", shown))
        seen.add(key)
    return causes


def _affinity(spec: Object) -> list[Cause]:
    if spec.get("sessionAffinity") != "ClientIP":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < seconds <= 86400:
        return []
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [invalid_value(path, seconds, "must be greater than 0 and less than 86400")]


def _addresses(spec: Object) -> list[Cause]:
    single, many = spec.get("clusterIP"), spec.get("clusterIPs") or []
    causes: list[Cause] = []
    if single and many and many[0] != single:
        causes.append(invalid_value("spec.clusterIPs", many, "first value must match `clusterIP`"))
    elif not single and many:
        causes.append(invalid_value("spec.clusterIPs", many, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    for i, family in enumerate(families):
        causes += one_of(family, f"spec.ipFamilies[{i}]", "IPv4", "IPv6")
        if family in families[:i]:
            causes.append(duplicate(f"spec.ipFamilies[{i}]", family))
    causes += one_of(spec.get("ipFamilyPolicy"), "spec.ipFamilyPolicy", *FAMILY_POLICIES)
    if many and many[0] == "None":
        if len(many) > 1:
            causes.append(invalid_value("spec.clusterIPs", many, "'None' must be the first and only value"))
        return causes
    for i, address in enumerate(many):
        causes += ip_address(address, f"spec.clusterIPs[{i}]")
    if len(many) > 2:
        causes.append(invalid_value("spec.clusterIPs", many, "may only hold up to 2 values"))
    return causes


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return False
    return "/" in text


def _fixed_addresses(spec: Object, old: Object) -> list[Cause]:
    if "ExternalName" in (spec.get("type"), old.get("type")) or (is_headless(spec) and is_headless(old)):
        return []
    new_ips, old_ips = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    causes = [
        invalid_value(f"spec.clusterIPs[{i}]", new_ips, FIXED)
        for i, (new, before) in enumerate(zip(new_ips, old_ips, strict=False))
        if new != before
    ]
    if old_ips and not new_ips:
        causes.append(invalid_value("spec.clusterIPs[0]", new_ips, "primary clusterIP can not be unset"))
    families, before = spec.get("ipFamilies") or [], old.get("ipFamilies") or []
    if is_headless(spec) == is_headless(old) and families and before and families[0] != before[0]:
        causes.append(invalid_value("spec.ipFamilies[0]", families, FIXED))
    return causes


def _balancing(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    balanced = spec.get("type") == "LoadBalancer"
    why = "may only be used when `type` is 'LoadBalancer'"
    if not balanced:
        if spec.get("loadBalancerSourceRanges"):
            causes.append(forbidden_field("spec.LoadBalancerSourceRanges", why))
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) is not None:
                causes.append(forbidden_field(f"spec.{field}", why))
    policy = spec.get("externalTrafficPolicy")
    if is_external(spec):
        causes += one_of(policy, "spec.externalTrafficPolicy", "Cluster", "Local")
    elif policy:
        only = "may only be set for externally-accessible services"
        causes.append(invalid_value("spec.externalTrafficPolicy", policy, only))
    if spec.get("healthCheckNodePort") and not needs_health_check(spec):
        only = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid_value("spec.healthCheckNodePort", spec["healthCheckNodePort"], only))
    causes += one_of(spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy", "Cluster", "Local")
    near = ("PreferClose", "PreferSameZone", "PreferSameNode")
    return causes + one_of(spec.get("trafficDistribution"), "spec.trafficDistribution", *near)


def endpoint_ip(value: str, path: str) -> list[Cause]:
    """An address somebody else must be able to reach."""
    address = parse_ip(value)
    if address is None:
        return [invalid_value(path, value, "must be a valid IP address")]
    if address.is_unspecified:
        return [invalid_value(path, value, f"may not be unspecified ({value})")]
    if address.is_loopback:
        return [invalid_value(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if address.is_link_local:
        return [invalid_value(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    return []
