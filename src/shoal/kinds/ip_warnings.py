"""Warnings about IP addresses and CIDRs that are valid but not canonical. Upstream's words; pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_interface

from shoal.kinds.checks import parse_ip


def ip_warnings(path: str, value: str) -> list[str]:
    found = parse_ip(value) if ":" in value else None
    if not isinstance(found, IPv6Address):
        return []
    if found.ipv4_mapped is not None:
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{found.ipv4_mapped}"']
    if str(found) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{found}")']
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    try:
        found = ip_interface(value)
    except ValueError:
        return []
    if found.ip != found.network.network_address:
        single = f"{found.ip}/{found.max_prefixlen}"
        return [
            f'{path}: CIDR value "{value}" is ambiguous in this context (should be "{found.network}" or "{single}"?)'
        ]
    if ":" in value and str(found.network) != value:
        return [f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{found.network}")']
    return []
