"""Validation of Service of core/v1, in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.containers import PROTOCOLS
from shoal.kinds.core.pod.spec import validate_ip_address
from shoal.kinds.core.service.addresses import IMMUTABLE_ONCE_SET, validate_cluster_ips, validate_immutable_addresses
from shoal.kinds.core.service.services import (
    NODE_PORT_TYPES,
    is_externally_accessible,
    is_headless,
    needs_health_check_node_port,
)
from shoal.kinds.validation.field import (
    invalid_causes,
    is_port_name,
    parse_ip,
    validate_cidr,
    validate_enum,
    validate_port_number,
)
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, validate_labels

Object = dict[str, Any]

SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"


def validate_service(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    if old is not None and spec == old.get("spec"):
        return _validate_load_balancer_status(obj.get("status") or {}, old.get("status") or {}, spec)
    before = (old or {}).get("spec") or {}
    ip_causes = validate_cluster_ips(spec)
    if ip_causes:
        return ip_causes
    causes = (
        []
        if old is None
        else validate_immutable_addresses(spec, before) + _validate_immutable_load_balancing(spec, before)
    )
    kind, ports = spec.get("type"), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        causes.append(required_value("spec.ports"))
    if kind in NODE_PORT_TYPES and is_headless(spec):
        causes.append(invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        causes += _validate_external_name(spec)
    names: set[str] = set()
    for i, port in enumerate(ports):
        causes += _validate_port(port, names, f"spec.ports[{i}]", name_required=len(ports) > 1)
    causes += validate_labels(spec.get("selector"), "spec.selector")
    causes += validate_enum(spec.get("sessionAffinity"), "spec.sessionAffinity", "ClientIP", "None")
    causes += _validate_session_affinity(spec)
    old_external_ips = before.get("externalIPs") or ()
    for i, address in enumerate(spec.get("externalIPs") or ()):
        item_path = f"spec.externalIPs[{i}]"
        causes += (
            validate_ip_address(address, item_path) if address not in old_external_ips else []
        ) or validate_endpoint_ip(address, item_path)
    causes += validate_enum(kind, "spec.type", *SERVICE_TYPES)
    causes += _validate_port_conflicts(ports, kind)
    if spec.get("loadBalancerSourceRanges"):
        causes += _validate_source_ranges(spec, before)
    return causes + _validate_traffic_policies(spec)


def _validate_source_ranges(spec: Object, old: Object) -> list[Cause]:
    """Existing ranges are not validated again."""
    path, old_ranges = "spec.LoadBalancerSourceRanges", old.get("loadBalancerSourceRanges") or ()
    causes = [] if spec.get("type") == "LoadBalancer" else [forbidden_field(path, LOAD_BALANCER_ONLY)]
    for i, network in enumerate(spec["loadBalancerSourceRanges"]):
        causes += [] if network in old_ranges else validate_cidr(network.strip(), f"{path}[{i}]")
    return causes


def _validate_load_balancer_status(status: Object, old: Object, spec: Object) -> list[Cause]:
    path, ingresses = "status.loadBalancer.ingress", (status.get("loadBalancer") or {}).get("ingress") or []
    if not ingresses or status == old:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden_field(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    causes: list[Cause] = []
    for i, ingress in enumerate(ingresses):
        item_path, address, mode, host = (
            f"{path}[{i}]",
            ingress.get("ip"),
            ingress.get("ipMode"),
            ingress.get("hostname"),
        )
        causes += validate_ip_address(address, f"{item_path}.ip") if address else []
        if mode is not None and not address:
            causes.append(forbidden_field(f"{item_path}.ipMode", "may not be specified when `ip` is not set"))
        else:
            causes += validate_enum(mode, f"{item_path}.ipMode", "Proxy", "VIP")
        if host:
            causes += invalid_causes(f"{item_path}.hostname", host, is_dns1123_subdomain(host))
            if parse_ip(host) is not None:
                causes.append(invalid_value(f"{item_path}.hostname", host, "must be a DNS name, not an IP address"))
    return causes


def _validate_immutable_load_balancing(spec: Object, old: Object) -> list[Cause]:
    causes: list[Cause] = []
    balancer_class = spec.get("loadBalancerClass")
    if spec.get("type") == old.get("type") == "LoadBalancer" and balancer_class != old.get("loadBalancerClass"):
        causes.append(invalid_value("spec.loadBalancerClass", balancer_class, IMMUTABLE_ONCE_SET))
    port = "healthCheckNodePort"
    if needs_health_check_node_port(spec) and needs_health_check_node_port(old) and spec.get(port) != old.get(port):
        causes.append(forbidden_field(f"spec.{port}", "field is immutable"))
    return causes


def _validate_external_name(spec: Object) -> list[Cause]:
    detail = "may not be set for ExternalName services"
    causes = [
        forbidden_field(f"spec.{f}", detail) for f in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(f)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    return causes + (
        invalid_causes("spec.externalName", name, is_dns1123_subdomain(name))
        if name
        else [required_value("spec.externalName")]
    )


def _validate_port(port: Object, names: set[str], path: str, *, name_required: bool) -> list[Cause]:
    name = port.get("name")
    causes: list[Cause] = []
    if name:
        causes += invalid_causes(f"{path}.name", name, is_dns1123_label(name))
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    elif name_required:
        causes.append(required_value(f"{path}.name"))
    causes += validate_port_number(port.get("port", 0), f"{path}.port")
    if port.get("protocol") not in PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port.get("protocol") or "", PROTOCOLS))
    target = port.get("targetPort", 0)
    if isinstance(target, str):
        causes += invalid_causes(f"{path}.targetPort", target, is_port_name(target))
    else:
        causes += validate_port_number(target, f"{path}.targetPort")
    protocol = port.get("appProtocol")
    return (
        causes
        if protocol is None
        else causes + invalid_causes(f"{path}.appProtocol", protocol, is_qualified_name(protocol))
    )


def _validate_port_conflicts(ports: list[Object], kind: object) -> list[Cause]:
    causes: list[Cause] = []
    if kind == "ClusterIP":
        detail = "may not be used when `type` is 'ClusterIP'"
        causes += [
            forbidden_field(f"spec.ports[{i}].nodePort", detail) for i, p in enumerate(ports) if p.get("nodePort")
        ]
    node_ports: set[tuple[object, object]] = set()
    seen: set[tuple[object, object]] = set()
    for i, port in enumerate(ports):
        if port.get("nodePort") and (port.get("protocol"), port["nodePort"]) in node_ports:
            causes.append(duplicate(f"spec.ports[{i}].nodePort", port["nodePort"]))
        node_ports.add((port.get("protocol"), port.get("nodePort")))
    for i, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            printed = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            causes.append(duplicate(f"spec.ports[{i}]", printed))
        seen.add(key)
    return causes


def _validate_session_affinity(spec: Object) -> list[Cause]:
    if spec.get("sessionAffinity") != "ClientIP":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < seconds <= 86400:
        return []
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [invalid_value(path, seconds, "must be greater than 0 and less than 86400")]


def _validate_traffic_policies(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    if spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) is not None:
                causes.append(forbidden_field(f"spec.{field}", LOAD_BALANCER_ONLY))
    elif spec.get("loadBalancerClass") is not None:
        name = spec["loadBalancerClass"]
        causes += invalid_causes("spec.loadBalancerClass", name, is_qualified_name(name))
    policy = spec.get("externalTrafficPolicy")
    if is_externally_accessible(spec):
        causes += validate_enum(policy, "spec.externalTrafficPolicy", "Cluster", "Local")
    elif policy:
        only = "may only be set for externally-accessible services"
        causes.append(invalid_value("spec.externalTrafficPolicy", policy, only))
    if spec.get("healthCheckNodePort") and not needs_health_check_node_port(spec):
        only = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid_value("spec.healthCheckNodePort", spec["healthCheckNodePort"], only))
    causes += validate_enum(spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy", "Cluster", "Local")
    distributions = ("PreferClose", "PreferSameZone", "PreferSameNode")
    return causes + validate_enum(spec.get("trafficDistribution"), "spec.trafficDistribution", *distributions)


def validate_endpoint_ip(value: str, path: str) -> list[Cause]:
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
