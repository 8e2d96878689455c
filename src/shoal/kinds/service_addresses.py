"""Cluster IPs and IP families of a Service: validation before allocation. Upstream's words; pure.

If one of these checks fails, no other error of the Service is reported.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import one_of
from shoal.kinds.pod_spec import ip_address
from shoal.kinds.services import is_headless
from shoal.objects.errors import Cause, duplicate, invalid_value, required

Object = dict[str, Any]

FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
FIXED = "may not change once set"
_MANY = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"


def validate_addresses(spec: Object) -> list[Cause]:
    if spec.get("type") == "ExternalName":
        return []
    many, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    causes = _one_and_many(spec.get("clusterIP"), many)
    for i, family in enumerate(families):
        causes += one_of(family, f"spec.ipFamilies[{i}]", "IPv4", "IPv6")
        if family in families[:i]:
            causes.append(duplicate(f"spec.ipFamilies[{i}]", family))
    causes += one_of(spec.get("ipFamilyPolicy"), "spec.ipFamilyPolicy", *FAMILY_POLICIES)
    wrong = _each(many)
    causes += wrong
    if len(many) > 2:
        causes.append(invalid_value("spec.clusterIPs", many, "may only hold up to 2 values"))
    if not wrong:
        causes += _families(many, families, headless=is_headless(spec))
    return causes or _single(spec, many, families)


def _one_and_many(single: str | None, many: list[str]) -> list[Cause]:
    if single and not many:
        return [required("spec.clusterIPs")]
    if single and many[0] != single:
        return [invalid_value("spec.clusterIPs", many, "first value must match `clusterIP`")]
    if many and not single:
        return [invalid_value("spec.clusterIPs", many, "must be empty when `clusterIP` is not specified")]
    return []


def _each(many: list[str]) -> list[Cause]:
    causes: list[Cause] = []
    for i, address in enumerate(many):
        if i or address != "None":
            causes += ip_address(address, f"spec.clusterIPs[{i}]")
        elif len(many) > 1:
            causes.append(invalid_value("spec.clusterIPs", many, "'None' must be the first and only value"))
    return causes


def _families(many: list[str], families: list[str], *, headless: bool) -> list[Cause]:
    causes: list[Cause] = []
    if len(many) > 1 and len({":" in address for address in many}) < 2:
        causes.append(invalid_value("spec.clusterIPs", many, "may specify no more than one IP for each IP family"))
    for i, (address, family) in enumerate(zip(many, families, strict=False)):
        if not headless and family == ("IPv4" if ":" in address else "IPv6"):
            why = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            causes.append(invalid_value(f"spec.clusterIPs[{i}]", address, why))
    return causes


def _single(spec: Object, many: list[str], families: list[str]) -> list[Cause]:
    policy = spec.get("ipFamilyPolicy")
    if (policy or "SingleStack") != "SingleStack":
        return []
    named = ((many, "cluster IPs"), (families, "IP families"))
    return [
        invalid_value("spec.ipFamilyPolicy", "SingleStack", _MANY.format(what))
        for given, what in named
        if len(given) == 2
    ]


def fixed_addresses(spec: Object, old: Object) -> list[Cause]:
    """Returns causes for immutable address fields that an update changes."""
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
