"""What every logical cluster has stored: number and bytes of its objects, counted from the events of the store.

The numbers are derived: those of the objects in the cache, whatever wrote them. A write that grows a cluster reserves
its room before it is queued. Its event turns the reservation into use, so that no write is counted twice or not at
all. Events (the kind) have an account of their own. Keys of clusters and tombstones are not counted.
"""

from __future__ import annotations

from shoal.apiserver.cache.objects import CachedObject, CacheEvent

EVENTS = "core/events"
INTERNAL_PREFIX = "_"
"""Resources of the server itself begin with it."""


class Account:
    """The stored objects of one cluster, Events or all others."""

    __slots__ = ("bytes", "objects", "overdraft_bytes", "overdraft_objects", "reserved_bytes", "reserved_objects")

    def __init__(self) -> None:
        self.objects = self.bytes = 0
        self.reserved_objects = self.reserved_bytes = 0
        """Of writes under way."""
        self.overdraft_objects = self.overdraft_bytes = 0
        """Granted beyond the limit and not given back since."""

    @property
    def is_empty(self) -> bool:
        return not (self.objects or self.bytes or self.reserved_objects or self.reserved_bytes)


class Reservation:
    __slots__ = ("account", "bytes", "objects")

    def __init__(self, account: Account, objects: int, size: int) -> None:
        self.account, self.objects, self.bytes = account, objects, size


class StoredUsage:
    def __init__(self) -> None:
        self._objects: dict[str, Account] = {}
        self._events: dict[str, Account] = {}
        self._reservations: dict[str, Reservation] = {}
        """By key of the store. Of several writes of one key at most one succeeds."""

    def account(self, cluster: str, kind: str) -> Account:
        accounts = self._events if kind == EVENTS else self._objects
        account = accounts.get(cluster)
        if account is None:
            account = accounts[cluster] = Account()
        return account

    def objects(self, cluster: str) -> Account | None:
        return self._objects.get(cluster)

    def events(self, cluster: str) -> Account | None:
        return self._events.get(cluster)

    def clusters(self) -> list[str]:
        return sorted(self._objects.keys() | self._events.keys())

    def load(self, cluster: str, kind: str, entry: CachedObject) -> None:
        """Counts an object that was stored before."""
        if not kind.startswith(INTERNAL_PREFIX):
            account = self.account(cluster, kind)
            account.objects += 1
            account.bytes += entry.stored_size

    def count(self, kind: str, key: str, event: CacheEvent) -> None:
        if kind.startswith(INTERNAL_PREFIX):
            return
        account = self.account(event.cluster, kind)
        old, new = event.old, event.new
        added = growth = 0
        if old is not None and not old.virtual:
            added, growth = -1, -old.stored_size
        if new is not None:
            added, growth = added + 1, growth + new.stored_size
        account.objects += added
        account.bytes += growth
        if growth < 0 and account.overdraft_bytes:
            account.overdraft_bytes = max(0, account.overdraft_bytes + growth)
        if added < 0 and account.overdraft_objects:
            account.overdraft_objects -= 1
        if self._reservations:
            self._release_key(key)
        if account.is_empty:
            self._drop(event.cluster, kind)

    def reserve(self, account: Account, key: str, objects: int, size: int) -> Reservation | None:
        """Both numbers are negative for a deletion. Returns None if another write of that key is under way: only one of
        them can succeed.
        """
        if key in self._reservations:
            return None
        reservation = self._reservations[key] = Reservation(account, objects, size)
        account.reserved_objects += objects
        account.reserved_bytes += size
        return reservation

    def is_reserved(self, key: str) -> bool:
        """Whether a write of that key is under way."""
        return key in self._reservations

    def release(self, key: str, reservation: Reservation) -> None:
        """Gives back the room of a write that has failed."""
        if self._reservations.get(key) is reservation:
            self._release_key(key)

    def _release_key(self, key: str) -> None:
        reservation = self._reservations.pop(key, None)
        if reservation is not None:
            reservation.account.reserved_objects -= reservation.objects
            reservation.account.reserved_bytes -= reservation.bytes

    def _drop(self, cluster: str, kind: str) -> None:
        (self._events if kind == EVENTS else self._objects).pop(cluster, None)

    def forget(self, cluster: str) -> None:
        self._objects.pop(cluster, None)
        self._events.pop(cluster, None)
