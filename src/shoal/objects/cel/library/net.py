"""IP addresses and CIDRs as Go's netip parses them: no zones, no IPv4-mapped IPv6."""

from __future__ import annotations

import ipaddress
import math
from functools import lru_cache

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.overloads import (
    TRAVERSAL_COST,
    Overload,
    function_overload,
    method_overload,
    traversal_and_result_cost,
    traversal_cost,
)
from shoal.objects.cel.types import BOOL, INT, STRING, opaque_type
from shoal.objects.cel.values import OpaqueValue, size_of

IP, CIDR = opaque_type("net.IP"), opaque_type("net.CIDR")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LINK_LOCAL_4 = ipaddress.IPv4Network("224.0.0.0/24")


@lru_cache(maxsize=512)
def _parse_address(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        why = f'ParseAddr("{text}"): unable to parse IP'
        raise CELError(f'IP Address "{text}" parse error during conversion from string: {why}') from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise CELError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise CELError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


@lru_cache(maxsize=512)
def _parse_prefix(text: str) -> tuple[_Address, int]:
    message = "network address parse error during conversion from string: "
    address, slash, bits = text.rpartition("/")
    try:
        found = ipaddress.ip_address(address)
        is_plain = bits.isascii() and bits.isdigit() and (bits == "0" or bits[0] != "0")
        if not slash or not is_plain or int(bits[:4]) > found.max_prefixlen or "%" in address:
            raise ValueError
    except ValueError:
        why = f'netip.ParsePrefix("{text}"): ' + ("no '/'" if not slash else "unable to parse")
        raise CELError(f"{message}{message}{why}") from None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise CELError(f'{message}IPv4-mapped IPv6 address "{text}" is not allowed')
    return found, int(bits)


def _ip_value(address: _Address) -> OpaqueValue:
    return OpaqueValue("net.IP", address, address.max_prefixlen // 8)


def _cidr_value(prefix: tuple[_Address, int]) -> OpaqueValue:
    return OpaqueValue("net.CIDR", prefix, math.ceil(prefix[1] / 8))


def _is_ip(text: str) -> bool:
    try:
        return bool(_parse_address(text).version)
    except CELError:
        return False


def _is_cidr(text: str) -> bool:
    try:
        return bool(_parse_prefix(text))
    except CELError:
        return False


def _network(cidr: OpaqueValue) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    address, bits = cidr.core
    return ipaddress.ip_network(f"{address}/{bits}", strict=False)


def _contains(cidr: OpaqueValue, address: OpaqueValue) -> bool:
    return address.core in _network(cidr)


def _contains_cidr(cidr: OpaqueValue, other: OpaqueValue) -> bool:
    return other.core[0].version == cidr.core[0].version and (
        bool(other.core[1] >= cidr.core[1]) and other.core[0] in _network(cidr)
    )


def _mask(cidr: OpaqueValue) -> OpaqueValue:
    return _cidr_value((_network(cidr).network_address, cidr.core[1]))


def _is_link_local_multicast(held: OpaqueValue) -> bool:
    address = held.core
    if address.version == 4:
        return address in _LINK_LOCAL_4
    return bool(address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2)


def _is_global_unicast(held: OpaqueValue) -> bool:
    """As Go: every address that is not a special one."""
    address = held.core
    broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (broadcast or special)


def _contains_ip_cost(cidr: OpaqueValue, other: OpaqueValue | str) -> int:
    cost = math.ceil(2 * size_of(cidr) * TRAVERSAL_COST)
    return cost + (math.ceil(len(other) * TRAVERSAL_COST) if isinstance(other, str) else 0)


def _contains_cidr_cost(cidr: OpaqueValue, other: OpaqueValue | str) -> int:
    return _contains_ip_cost(cidr, other) + math.ceil(size_of(cidr) * TRAVERSAL_COST) + 1


OVERLOADS: list[Overload] = [
    function_overload("ip", (STRING,), IP, lambda text: _ip_value(_parse_address(text)), traversal_cost),
    function_overload(
        "ip.isCanonical", (STRING,), BOOL, lambda text: str(_parse_address(text)) == text, traversal_and_result_cost
    ),
    function_overload("isIP", (STRING,), BOOL, _is_ip, traversal_cost),
    method_overload("family", (IP,), INT, lambda held: held.core.version),
    method_overload("isUnspecified", (IP,), BOOL, lambda held: held.core.is_unspecified),
    method_overload("isLoopback", (IP,), BOOL, lambda held: held.core.is_loopback),
    method_overload("isLinkLocalMulticast", (IP,), BOOL, _is_link_local_multicast),
    method_overload("isLinkLocalUnicast", (IP,), BOOL, lambda held: held.core.is_link_local),
    method_overload("isGlobalUnicast", (IP,), BOOL, _is_global_unicast),
    function_overload("string", (IP,), STRING, lambda held: str(held.core)),
    function_overload("cidr", (STRING,), CIDR, lambda text: _cidr_value(_parse_prefix(text)), traversal_cost),
    function_overload("isCIDR", (STRING,), BOOL, _is_cidr, traversal_cost),
    method_overload(
        "containsIP",
        (CIDR, STRING),
        BOOL,
        lambda cidr, text: _contains(cidr, _ip_value(_parse_address(text))),
        _contains_ip_cost,
    ),
    method_overload("containsIP", (CIDR, IP), BOOL, _contains, _contains_ip_cost),
    method_overload(
        "containsCIDR",
        (CIDR, STRING),
        BOOL,
        lambda cidr, text: _contains_cidr(cidr, _cidr_value(_parse_prefix(text))),
        _contains_cidr_cost,
    ),
    method_overload("containsCIDR", (CIDR, CIDR), BOOL, _contains_cidr, _contains_cidr_cost),
    method_overload("ip", (CIDR,), IP, lambda cidr: _ip_value(cidr.core[0])),
    method_overload("prefixLength", (CIDR,), INT, lambda cidr: cidr.core[1]),
    method_overload("masked", (CIDR,), CIDR, _mask),
    function_overload("string", (CIDR,), STRING, lambda cidr: f"{cidr.core[0]}/{cidr.core[1]}"),
]
