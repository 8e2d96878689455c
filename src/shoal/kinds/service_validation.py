"""Validation of Service of core/v1, in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import cidr, is_port_name, one_of, parse_ip, port_number, said
from shoal.kinds.pod_containers import PROTOCOLS
from shoal.kinds.pod_spec import ip_address
from shoal.kinds.service_addresses import FIXED, fixed_addresses, validate_addresses
from shoal.kinds.services import WITH_NODE_PORTS, is_external, is_headless, needs_health_check
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, validate_labels

Object = dict[str, Any]

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
BALANCED = "may only be used when `type` is 'LoadBalancer'"


def validate_service(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    if old is not None and spec == old.get("spec"):
        return _balancer(obj.get("status") or {}, old.get("status") or {}, spec)
    before = (old or {}).get("spec") or {}
    wrong = validate_addresses(spec)
    if wrong:
        return wrong
    causes = [] if old is None else fixed_addresses(spec, before) + _fixed_balancing(spec, before)
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
    had = before.get("externalIPs") or ()
    for i, address in enumerate(spec.get("externalIPs") or ()):
        at = f"spec.externalIPs[{i}]"
        causes += (ip_address(address, at) if address not in had else []) or endpoint_ip(address, at)
    causes += one_of(kind, "spec.type", *TYPES)
    causes += _ports(ports, kind)
    if spec.get("loadBalancerSourceRanges"):
        causes += _source_ranges(spec, before)
    return causes + _balancing(spec)


def _source_ranges(spec: Object, old: Object) -> list[Cause]:
    """Existing ranges are not validated again."""
    path, had = "spec.LoadBalancerSourceRanges", old.get("loadBalancerSourceRanges") or ()
    causes = [] if spec.get("type") == "LoadBalancer" else [forbidden_field(path, BALANCED)]
    for i, network in enumerate(spec["loadBalancerSourceRanges"]):
        causes += [] if network in had else cidr(network.strip(), f"{path}[{i}]")
    return causes


def _balancer(status: Object, old: Object, spec: Object) -> list[Cause]:
    path, ingresses = "status.loadBalancer.ingress", (status.get("loadBalancer") or {}).get("ingress") or []
    if not ingresses or status == old:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden_field(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    causes: list[Cause] = []
    for i, ingress in enumerate(ingresses):
        at, address, mode, host = f"{path}[{i}]", ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
        causes += ip_address(address, f"{at}.ip") if address else []
        if mode is not None and not address:
            causes.append(forbidden_field(f"{at}.ipMode", "may not be specified when `ip` is not set"))
        else:
            causes += one_of(mode, f"{at}.ipMode", "Proxy", "VIP")
        if host:
            causes += said(f"{at}.hostname", host, is_dns1123_subdomain(host))
            if parse_ip(host) is not None:
                causes.append(invalid_value(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return causes


def _fixed_balancing(spec: Object, old: Object) -> list[Cause]:
    causes: list[Cause] = []
    named = spec.get("loadBalancerClass")
    if spec.get("type") == old.get("type") == "LoadBalancer" and named != old.get("loadBalancerClass"):
        causes.append(invalid_value("spec.loadBalancerClass", named, FIXED))
    port = "healthCheckNodePort"
    if needs_health_check(spec) and needs_health_check(old) and spec.get(port) != old.get(port):
        causes.append(forbidden_field(f"spec.{port}", "field is immutable"))
    return causes


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


def _balancing(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    if spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) is not None:
                causes.append(forbidden_field(f"spec.{field}", BALANCED))
    elif spec.get("loadBalancerClass") is not None:
        name = spec["loadBalancerClass"]
        causes += said("spec.loadBalancerClass", name, is_qualified_name(name))
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
    """Rejects addresses that other hosts cannot reach."""
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
