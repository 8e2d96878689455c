"""Which addresses a server may connect to because an object names them. Pure.

Objects of the logical cluster root belong to the operator; those of other logical clusters belong to tenants, who may
name public addresses only. An address that contains another one is judged by both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


LINK_LOCAL = _networks("169.254.0.0/16", "fe80::/10")
"""Metadata services of clouds answer here."""
UNUSABLE = _networks("0.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/128", "ff00::/8")
"""Unspecified, multicast and broadcast addresses."""
NEVER = (*LINK_LOCAL, *UNUSABLE)
NOT_PUBLIC = (
    *NEVER,
    *_networks("127.0.0.0/8", "::1/128"),
    *_networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"),
    *_networks("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *_networks("240.0.0.0/4", "::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20"),
    *_networks("5f00::/16"),
)
"""Loopback, link-local, private, shared and reserved addresses, by IANA's registries of special-purpose addresses."""
LOOPBACK = _networks("127.0.0.0/8", "::1/128")

_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class EgressSettings:
    allowed: tuple[Network, ...] = ()
    """Networks that objects of every logical cluster may name (`--allow-egress`)."""
    discloses_failures: bool = False
    """Whether users of every logical cluster are told why a webhook cannot be called. For servers of one person."""


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parses addresses and networks, separated by commas. Raises ValueError."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def is_denied(address: str, denied: tuple[Network, ...], allowed: tuple[Network, ...]) -> bool:
    """Reports whether the address, or one that it contains, is in a denied network and in no allowed one."""
    return any(_contains(denied, form) and not _contains(allowed, form) for form in address_forms(address))


def _contains(networks: tuple[Network, ...], address: Address) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def address_forms(text: str) -> Iterator[Address]:
    """The address as the network stack uses it, and the IPv4 address that a gateway takes from it. Raises ValueError if
    the text is no address.
    """
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    else:
        yield address
        if address.sixtofour is not None:
            yield address.sixtofour
        if address in _NAT64:
            yield IPv4Address(address.packed[-4:])
