"""Connects to addresses that objects name, if the policy of their logical cluster allows them.

The policy judges the address of the socket itself, when the connection is made: a name that resolves to another address
at the next lookup is judged by that one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.objects.egress import NEVER, NOT_PUBLIC, EgressSettings, Network, address_forms, is_denied

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
"""As `getaddrinfo` returns it: family, type, protocol, canonical name, and the address with the port."""
SocketFactory = Callable[[AddressInfo], socket.socket]
ROOT = "root"
RESOLVE_SECONDS = 60.0


class EgressDenied(OSError):
    """The policy denies the connection. No packet was sent."""


class OwnEndpoints:
    """Where the server itself listens, and the servers it uses. No tenant reaches them through the server."""

    def __init__(self) -> None:
        self.ports: set[int] = set()
        """Ports of this machine."""
        self._endpoints: set[tuple[str, int]] = set()
        """By address or name."""
        self._resolved: set[tuple[str, int]] = set()

    def add(self, host: str, port: int) -> None:
        if host and port:
            self._endpoints.add((_canonical_host(host.strip("[]")), port))

    async def run(self) -> None:
        """Keeps the addresses of endpoints that are given by name."""
        loop = asyncio.get_running_loop()
        while True:
            for host, port in [each for each in self._endpoints if not _is_address(each[0])]:
                with suppress(OSError):
                    found = await loop.getaddrinfo(host, port)
                    self._resolved |= {(_canonical_host(str(each[4][0])), port) for each in found}
            await asyncio.sleep(RESOLVE_SECONDS)

    def includes(self, address: str, port: int) -> bool:
        forms = [str(form) for form in address_forms(address)]
        if any((form, port) in self._endpoints or (form, port) in self._resolved for form in forms):
            return True
        return port in self.ports and any(map(_is_of_this_machine, forms))


def _canonical_host(host: str) -> str:
    """The usual form of an address; a name as it is."""
    try:
        return str(next(address_forms(host)))
    except ValueError:
        return host.lower()


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdecimal()


def _is_of_this_machine(address: str) -> bool:
    """A socket can be bound to an address of this machine only."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


class EgressPolicy:
    """The policy of one logical cluster."""

    def __init__(
        self, denied: tuple[Network, ...], allowed: tuple[Network, ...], own_endpoints: OwnEndpoints | None = None
    ) -> None:
        self._denied, self._allowed, self._own_endpoints = denied, allowed, own_endpoints

    def check(self, address: str, port: int) -> None:
        """Raises EgressDenied."""
        if is_denied(address, self._denied, self._allowed) or (
            self._own_endpoints is not None and self._own_endpoints.includes(address, port)
        ):
            raise EgressDenied(f"connections to {address} port {port} are not allowed")

    def socket_factory(self, new_socket: SocketFactory) -> SocketFactory:
        """Returns a factory whose sockets are for allowed addresses only."""

        def checked_socket(address: AddressInfo) -> socket.socket:
            if address[0] not in (socket.AF_INET, socket.AF_INET6):
                raise EgressDenied("only connections over IP are allowed")
            self.check(str(address[4][0]), int(address[4][1]))
            return new_socket(address)

        return checked_socket


class Egress:
    """The policies of a server's logical clusters."""

    def __init__(self, settings: EgressSettings, own_endpoints: OwnEndpoints | None = None) -> None:
        self.own_endpoints = own_endpoints or OwnEndpoints()
        self._settings = settings
        self._root = EgressPolicy(NEVER, settings.allowed)
        self._tenants = EgressPolicy(NOT_PUBLIC, settings.allowed, self.own_endpoints)

    def policy_for(self, cluster: str) -> EgressPolicy:
        return self._root if cluster == ROOT else self._tenants

    def discloses_failures(self, cluster: str) -> bool:
        """Reports whether users of the cluster are told why a connection failed: it would tell tenants what there is
        in networks that they do not reach.
        """
        return cluster == ROOT or self._settings.discloses_failures


def new_socket(address: AddressInfo) -> socket.socket:
    return socket.socket(*address[:3])
