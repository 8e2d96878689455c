"""Warnings about IP addresses and CIDRs that are valid but not canonical. Upstream's words; pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_interface

from shoal.kinds.validation.field import parse_ip


def ip_warnings(path: str, value: str) -> list[str]:
    address = parse_ip(value) if ":" in value else None
    if not isinstance(address, IPv6Address):
        return []
    if address.ipv4_mapped is not None:
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{address.ipv4_mapped}"']
    if str(address) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{address}")']
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    try:
        interface = ip_interface(value)
    except ValueError:
        return []
    if interface.ip != interface.network.network_address:
        single = f"{interface.ip}/{interface.max_prefixlen}"
        expected = f'"{interface.network}" or "{single}"'
        return [f'{path}: CIDR value "{value}" is ambiguous in this context (should be {expected}?)']
    if ":" in value and str(interface.network) != value:
        return [f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{interface.network}")']
    return []
