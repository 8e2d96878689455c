"""Allocates IP addresses that are unique within a logical cluster. In memory: the objects themselves are the record.

The search starts at a hash of the object's uid, so that a repeated allocation returns the same address.
"""

from __future__ import annotations

from hashlib import blake2b
from ipaddress import IPv4Network
from typing import Any

from shoal.client.reflector import Key

Object = dict[str, Any]

POD_NETWORK = IPv4Network("10.128.0.0/9")
NODE_NETWORK = IPv4Network("172.16.0.0/12")


class IPAllocator:
    def __init__(self, network: IPv4Network) -> None:
        self._first = int(network.network_address) + 1
        self._size = network.num_addresses - 2
        self._owners: dict[tuple[str, int], Key] = {}
        self._offsets: dict[Key, int] = {}

    def allocate(self, key: Key, uid: str) -> str:
        """Returns the object's address; allocates one if it has none."""
        number = self._offsets.get(key)
        if number is None:
            number = self._next_free(key[0], int.from_bytes(blake2b(uid.encode(), digest_size=8).digest()) % self._size)
            self._assign(key, number)
        return _format_ip(self._first + number)

    def occupy(self, key: Key, address: str) -> None:
        """Records an address from an object's status. Of two objects with the same address, the first keeps it."""
        number = _parse_ip(address) - self._first
        if 0 <= number < self._size and self._offsets.get(key) != number:
            self.release(key)
            if (key[0], number) not in self._owners:
                self._assign(key, number)

    def release(self, key: Key) -> None:
        number = self._offsets.pop(key, None)
        if number is not None:
            del self._owners[key[0], number]

    def _next_free(self, cluster: str, start: int) -> int:
        for step in range(self._size):
            number = (start + step) % self._size
            if (cluster, number) not in self._owners:
                return number
        raise RuntimeError("no free address in the network")

    def _assign(self, key: Key, number: int) -> None:
        self._offsets[key] = number
        self._owners[key[0], number] = key


def _parse_ip(address: str) -> int:
    parts = address.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return -1
    a, b, c, d = map(int, parts)
    return a << 24 | b << 16 | c << 8 | d


def _format_ip(number: int) -> str:
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
