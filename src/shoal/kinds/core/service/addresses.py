"""Cluster IPs and IP families of a Service: validation before allocation. Upstream's words; pure.

If one of these checks fails, no other error of the Service is reported.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.spec import validate_ip_address
from shoal.kinds.core.service.services import is_headless
from shoal.kinds.validation.field import repeated_positions, validate_enum
from shoal.objects.errors import Cause, duplicate, invalid_value, required_value

Object = dict[str, Any]

FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
IMMUTABLE_ONCE_SET = "may not change once set"
_POLICY_REQUIRED = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"


def validate_cluster_ips(spec: Object) -> list[Cause]:
    if spec.get("type") == "ExternalName":
        return []
    cluster_ips, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    causes = _validate_primary_cluster_ip(spec.get("clusterIP"), cluster_ips)
    repeated = set(repeated_positions(families))
    for i, family in enumerate(families):
        causes += validate_enum(family, f"spec.ipFamilies[{i}]", "IPv4", "IPv6")
        if i in repeated:
            causes.append(duplicate(f"spec.ipFamilies[{i}]", family))
    causes += validate_enum(spec.get("ipFamilyPolicy"), "spec.ipFamilyPolicy", *FAMILY_POLICIES)
    ip_causes = _validate_each_ip(cluster_ips)
    causes += ip_causes
    if len(cluster_ips) > 2:
        causes.append(invalid_value("spec.clusterIPs", cluster_ips, "may only hold up to 2 values"))
    if not ip_causes:
        causes += _validate_families(cluster_ips, families, headless=is_headless(spec))
    return causes or _validate_single_stack(spec, cluster_ips, families)


def _validate_primary_cluster_ip(single: str | None, cluster_ips: list[str]) -> list[Cause]:
    if single and not cluster_ips:
        return [required_value("spec.clusterIPs")]
    if single and cluster_ips[0] != single:
        return [invalid_value("spec.clusterIPs", cluster_ips, "first value must match `clusterIP`")]
    if cluster_ips and not single:
        return [invalid_value("spec.clusterIPs", cluster_ips, "must be empty when `clusterIP` is not specified")]
    return []


def _validate_each_ip(cluster_ips: list[str]) -> list[Cause]:
    causes: list[Cause] = []
    for i, address in enumerate(cluster_ips):
        if i or address != "None":
            causes += validate_ip_address(address, f"spec.clusterIPs[{i}]")
        elif len(cluster_ips) > 1:
            causes.append(invalid_value("spec.clusterIPs", cluster_ips, "'None' must be the first and only value"))
    return causes


def _validate_families(cluster_ips: list[str], families: list[str], *, headless: bool) -> list[Cause]:
    causes: list[Cause] = []
    if len(cluster_ips) > 1 and len({":" in address for address in cluster_ips}) < 2:
        causes.append(
            invalid_value("spec.clusterIPs", cluster_ips, "may specify no more than one IP for each IP family")
        )
    for i, (address, family) in enumerate(zip(cluster_ips, families, strict=False)):
        if not headless and family == ("IPv4" if ":" in address else "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            causes.append(invalid_value(f"spec.clusterIPs[{i}]", address, detail))
    return causes


def _validate_single_stack(spec: Object, cluster_ips: list[str], families: list[str]) -> list[Cause]:
    policy = spec.get("ipFamilyPolicy")
    if (policy or "SingleStack") != "SingleStack":
        return []
    lists = ((cluster_ips, "cluster IPs"), (families, "IP families"))
    return [
        invalid_value("spec.ipFamilyPolicy", "SingleStack", _POLICY_REQUIRED.format(what))
        for entries, what in lists
        if len(entries) == 2
    ]


def validate_immutable_addresses(spec: Object, old: Object) -> list[Cause]:
    """Returns causes for immutable address fields that an update changes."""
    if "ExternalName" in (spec.get("type"), old.get("type")) or (is_headless(spec) and is_headless(old)):
        return []
    new_ips, old_ips = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    causes = [
        invalid_value(f"spec.clusterIPs[{i}]", new_ips, IMMUTABLE_ONCE_SET)
        for i, (new, before) in enumerate(zip(new_ips, old_ips, strict=False))
        if new != before
    ]
    if old_ips and not new_ips:
        causes.append(invalid_value("spec.clusterIPs[0]", new_ips, "primary clusterIP can not be unset"))
    families, before = spec.get("ipFamilies") or [], old.get("ipFamilies") or []
    if is_headless(spec) == is_headless(old) and families and before and families[0] != before[0]:
        causes.append(invalid_value("spec.ipFamilies[0]", families, IMMUTABLE_ONCE_SET))
    return causes
