"""IP addresses and CIDRs as Go's netip parses them: no zones, no IPv4-mapped IPv6."""

from __future__ import annotations

import ipaddress
import math
from functools import lru_cache

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.overloads import TRAVERSAL, Overload, function, method, traversal, traversal_and_result
from shoal.objects.cel.types import BOOL, INT, STRING, opaque
from shoal.objects.cel.values import Opaque, size_of

IP, CIDR = opaque("net.IP"), opaque("net.CIDR")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LINK_LOCAL_4 = ipaddress.IPv4Network("224.0.0.0/24")


@lru_cache(maxsize=512)
def _address(text: str) -> _Address:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        why = f'ParseAddr("{text}"): unable to parse IP'
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {why}') from None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            raise CelError(f'IP address "{text}" with zone value is not allowed')
        if found.ipv4_mapped is not None:
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


@lru_cache(maxsize=512)
def _prefix(text: str) -> tuple[_Address, int]:
    told = "network address parse error during conversion from string: "
    address, slash, bits = text.rpartition("/")
    try:
        found = ipaddress.ip_address(address)
        plain = bits.isascii() and bits.isdigit() and (bits == "0" or bits[0] != "0")
        if not slash or not plain or int(bits[:4]) > found.max_prefixlen or "%" in address:
            raise ValueError
    except ValueError:
        why = f'netip.ParsePrefix("{text}"): ' + ("no '/'" if not slash else "unable to parse")
        raise CelError(f"{told}{told}{why}") from None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise CelError(f'{told}IPv4-mapped IPv6 address "{text}" is not allowed')
    return found, int(bits)


def _ip(address: _Address) -> Opaque:
    return Opaque("net.IP", address, address.max_prefixlen // 8)


def _cidr(prefix: tuple[_Address, int]) -> Opaque:
    return Opaque("net.CIDR", prefix, math.ceil(prefix[1] / 8))


def _is_ip(text: str) -> bool:
    try:
        return bool(_address(text).version)
    except CelError:
        return False


def _is_cidr(text: str) -> bool:
    try:
        return bool(_prefix(text))
    except CelError:
        return False


def _network(cidr: Opaque) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    address, bits = cidr.core
    return ipaddress.ip_network(f"{address}/{bits}", strict=False)


def _contains(cidr: Opaque, address: Opaque) -> bool:
    return address.core in _network(cidr)


def _contains_cidr(cidr: Opaque, other: Opaque) -> bool:
    return other.core[0].version == cidr.core[0].version and (
        bool(other.core[1] >= cidr.core[1]) and other.core[0] in _network(cidr)
    )


def _masked(cidr: Opaque) -> Opaque:
    return _cidr((_network(cidr).network_address, cidr.core[1]))


def _link_local_multicast(held: Opaque) -> bool:
    address = held.core
    if address.version == 4:
        return address in _LINK_LOCAL_4
    return bool(address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2)


def _global_unicast(held: Opaque) -> bool:
    """As Go: every address that is not a special one."""
    address = held.core
    broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (broadcast or special)


def _compared(cidr: Opaque, other: Opaque | str) -> int:
    cost = math.ceil(2 * size_of(cidr) * TRAVERSAL)
    return cost + (math.ceil(len(other) * TRAVERSAL) if isinstance(other, str) else 0)


def _compared_cidr(cidr: Opaque, other: Opaque | str) -> int:
    return _compared(cidr, other) + math.ceil(size_of(cidr) * TRAVERSAL) + 1


OVERLOADS: list[Overload] = [
    function("ip", (STRING,), IP, lambda text: _ip(_address(text)), traversal),
    function("ip.isCanonical", (STRING,), BOOL, lambda text: str(_address(text)) == text, traversal_and_result),
    function("isIP", (STRING,), BOOL, _is_ip, traversal),
    method("family", (IP,), INT, lambda held: held.core.version),
    method("isUnspecified", (IP,), BOOL, lambda held: held.core.is_unspecified),
    method("isLoopback", (IP,), BOOL, lambda held: held.core.is_loopback),
    method("isLinkLocalMulticast", (IP,), BOOL, _link_local_multicast),
    method("isLinkLocalUnicast", (IP,), BOOL, lambda held: held.core.is_link_local),
    method("isGlobalUnicast", (IP,), BOOL, _global_unicast),
    function("string", (IP,), STRING, lambda held: str(held.core)),
    function("cidr", (STRING,), CIDR, lambda text: _cidr(_prefix(text)), traversal),
    function("isCIDR", (STRING,), BOOL, _is_cidr, traversal),
    method("containsIP", (CIDR, STRING), BOOL, lambda cidr, text: _contains(cidr, _ip(_address(text))), _compared),
    method("containsIP", (CIDR, IP), BOOL, _contains, _compared),
    method(
        "containsCIDR",
        (CIDR, STRING),
        BOOL,
        lambda cidr, text: _contains_cidr(cidr, _cidr(_prefix(text))),
        _compared_cidr,
    ),
    method("containsCIDR", (CIDR, CIDR), BOOL, _contains_cidr, _compared_cidr),
    method("ip", (CIDR,), IP, lambda cidr: _ip(cidr.core[0])),
    method("prefixLength", (CIDR,), INT, lambda cidr: cidr.core[1]),
    method("masked", (CIDR,), CIDR, _masked),
    function("string", (CIDR,), STRING, lambda cidr: f"{cidr.core[0]}/{cidr.core[1]}"),
]
