"""Service of core/v1: defaults, create and update preparation, warnings. Pure.

Allocation of cluster IPs and node ports depends on other Services and is in `apiserver.admission`.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.validation.field import ensure_map
from shoal.kinds.validation.ip import cidr_warnings, ip_warnings

Object = dict[str, Any]

SERVICE_CIDR = "10.0.0.0/16"
KUBERNETES_SERVICE_IP = "10.0.0.1"
"""The first address of the service CIDR, which upstream gives to `default/kubernetes`."""
NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
DEFAULT_AFFINITY_SECONDS = 10800
_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
HEADLESS_LABEL = "service.kubernetes.io/headless"
"""Label of the Endpoints and EndpointSlices of a headless Service."""


def is_headless(spec: Object) -> bool:
    return spec.get("clusterIPs") == ["None"]


def has_cluster_ip(spec: Object) -> bool:
    return spec.get("clusterIP") not in (None, "", "None")


def default_service(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    kind = spec["type"] = spec.get("type") or "ClusterIP"
    affinity = spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        client = ensure_map(ensure_map(spec, "sessionAffinityConfig"), "clientIP")
        if client.get("timeoutSeconds") is None:
            client["timeoutSeconds"] = DEFAULT_AFFINITY_SECONDS
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
        if not port.get("nodePort", True):
            del port["nodePort"]
    if is_externally_accessible(spec):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if kind != "ExternalName" and spec.get("internalTrafficPolicy") is None:
        spec["internalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    status = ensure_map(obj, "status")
    balancer = ensure_map(status, "loadBalancer")
    for ingress in balancer.get("ingress") or ():
        if kind == "LoadBalancer" and ingress.get("ip") and ingress.get("ipMode") is None:
            ingress["ipMode"] = "VIP"


def prepare_service_create(obj: Object) -> None:
    obj["status"] = {"loadBalancer": {}}
    sync_cluster_ips(obj["spec"], {})


def is_externally_accessible(spec: Object) -> bool:
    return spec.get("type") in NODE_PORT_TYPES or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check_node_port(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def sync_cluster_ips(spec: Object, old: Object) -> None:
    """Keeps `clusterIP` equal to the first of `clusterIPs` when the client changed only the first."""
    single, many = spec.get("clusterIP"), spec.get("clusterIPs")
    if single and (not many or (many == old.get("clusterIPs") and single != old.get("clusterIP"))):
        spec["clusterIPs"] = [single]
    elif many and not single and old and many == old.get("clusterIPs"):
        del spec["clusterIPs"]


def prepare_service_update(new: Object, old: Object) -> None:
    """Keeps allocated values the client omits, and drops those the new type does not use."""
    spec, before = new["spec"], old.get("spec") or {}
    _keep_allocated(spec, before)
    sync_cluster_ips(spec, before)
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        if spec.get("clusterIP") == before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _drop_unchanged(spec, before, "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if before.get("type") in NODE_PORT_TYPES and spec.get("type") not in NODE_PORT_TYPES:
        old_node_ports = {port.get("nodePort") for port in before.get("ports") or ()}
        if all(port.get("nodePort") in old_node_ports for port in spec.get("ports") or () if port.get("nodePort")):
            # A patched object shares its ports with the old one.
            spec["ports"] = [{k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()]
    if needs_health_check_node_port(before) and not needs_health_check_node_port(spec):
        _drop_unchanged(spec, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_externally_accessible(before) and not is_externally_accessible(spec):
        _drop_unchanged(spec, before, "externalTrafficPolicy")
    if spec.get("type") != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}


def _drop_unchanged(spec: Object, before: Object, *fields: str) -> None:
    """Drops fields the client did not change either."""
    for field in fields:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _keep_allocated(spec: Object, before: Object) -> None:
    if spec.get("type") == "ExternalName" or before.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
    if not spec.get("clusterIPs") and before.get("clusterIPs"):
        spec["clusterIPs"] = list(before["clusterIPs"])
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if not spec.get(field) and before.get(field) is not None:
            spec[field] = before[field]
    if spec.get("type") in NODE_PORT_TYPES and before.get("type") in NODE_PORT_TYPES:
        _keep_node_ports(spec.get("ports") or [], before.get("ports") or [])
    if (
        needs_health_check_node_port(spec)
        and needs_health_check_node_port(before)
        and not spec.get("healthCheckNodePort")
    ):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort")


def _keep_node_ports(ports: list[Object], before: list[Object]) -> None:
    """Keeps node ports by port name: other fields of the port may have changed."""
    old_node_ports = {port.get("name"): port.get("nodePort") for port in before}
    used = {port.get("nodePort") for port in ports} & set(old_node_ports.values())
    for port in ports:
        node_port = old_node_ports.get(port.get("name"))
        if node_port and not port.get("nodePort") and node_port not in used:
            port["nodePort"] = node_port


def service_warnings(obj: Object, old: Object | None) -> list[str]:
    """Warnings about a valid Service, sent with the response, in upstream's words."""
    spec, warnings = obj["spec"], []
    kind, external = spec.get("type"), spec.get("externalIPs") or ()
    if _HINTS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        warnings.append(
            f"annotation {_HINTS_ANNOTATION} is deprecated, please use service.kubernetes.io/topology-mode instead"
        )
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        warnings += [
            f"spec.{f} is ignored for headless services" for f in ("loadBalancerIP", "externalIPs") if spec.get(f)
        ]
        if spec.get("sessionAffinity") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    elif kind != "ExternalName":
        for i, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += ip_warnings(f"spec.clusterIPs[{i}]", address)
    for i, address in enumerate(external):
        warnings += ip_warnings(f"spec.externalIPs[{i}]", address)
    if external and not headless and kind != "ExternalName":
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        warnings += ip_warnings("spec.loadBalancerIP", spec["loadBalancerIP"])
    for i, network in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += cidr_warnings(f"spec.loadBalancerSourceRanges[{i}]", network)
    if external and kind == "ExternalName":
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings
