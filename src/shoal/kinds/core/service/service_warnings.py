"""Warnings about valid Services, sent with the response. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.validation.ip import cidr_warnings, ip_warnings

Object = dict[str, Any]

_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"


def service_warnings(obj: Object, old: Object | None) -> list[str]:
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
