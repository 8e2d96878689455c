"""Connections whose clients have not authenticated yet: how many there may be, and which one goes when there are more.

A client with a credential is unknown for the time of its handshake and its first request. Only connections that wait
for their client are ended, the longest open first, of the address that has the most.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class UnknownConnection(Protocol):
    @property
    def remote_addr(self) -> str: ...

    @property
    def is_waiting(self) -> bool:
        """True if the server waits for the client."""

    def abort(self) -> None: ...


C = TypeVar("C", bound=UnknownConnection)


class UnknownPeers(Generic[C]):
    def __init__(self, limit: int) -> None:
        """One address may have three quarters of them."""
        self._limit, self._address_limit = limit, max(1, limit * 3 // 4)
        self._by_address: dict[str, dict[C, None]] = {}
        self.count = 0
        self.ended_total = 0
        """Connections that were ended for others."""

    def add(self, connection: C) -> bool:
        """Returns False if there is no room, because the server is busy with all of them."""
        if len(self._by_address.get(connection.remote_addr, ())) >= self._address_limit:
            has_room = self._end_one(connection.remote_addr)
        else:
            has_room = self.count < self._limit or self.end_one()
        if has_room:
            self._by_address.setdefault(connection.remote_addr, {})[connection] = None
            self.count += 1
        return has_room

    def remove(self, connection: C) -> None:
        """The client is known now, or gone."""
        found = self._by_address.get(connection.remote_addr)
        if found is not None and connection in found:
            del found[connection]
            self.count -= 1
            if not found:
                del self._by_address[connection.remote_addr]

    def end_one(self) -> bool:
        """Ends a connection of the address that has the most."""
        if not self._by_address:
            return False
        return self._end_one(max(self._by_address, key=lambda address: len(self._by_address[address])))

    def _end_one(self, address: str) -> bool:
        connection = next((each for each in self._by_address[address] if each.is_waiting), None)
        if connection is None:
            return False
        self.remove(connection)
        self.ended_total += 1
        connection.abort()
        return True
