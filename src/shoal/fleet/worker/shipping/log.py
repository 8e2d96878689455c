"""The log of one hosted cluster while it is being shipped: what waits, what lies at the hub, when a new base is due.

Knows no hub; the controller writes what this hands out, and tells when that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.fleet.worker.data import Changed, Contents
from shoal.fleet.worker.shipping.segments import Changes, Record, encode

SMALLEST = 256_000
"""Bytes of changes that are borne beside a base, however small that is."""
MOST = 200
"""Records after a base."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Segments to be written as they are, again and again until they are there."""

    first: int
    segments: list[bytes]
    revision: int
    is_base: bool

    @property
    def size(self) -> int:
        return sum(map(len, self.segments))

    @property
    def last(self) -> int:
        return self.first + len(self.segments) - 1


@dataclass(slots=True)
class Log:
    epoch: int
    next: int
    """The number of the next segment."""
    token_keys: tuple[str, ...] = ()
    first: int = 0
    """Of the base that lies at the hub; 0: none yet."""
    oldest: int = 0
    """The oldest segment that may lie there."""
    revision: int = 0
    shipped: int = 0
    """Bytes from `first` on."""
    parcel: Parcel | None = None
    """On its way."""
    final: int = 0
    """The hub's revision at which it was told that nothing will follow; 0: it was not."""
    _base_size: int = 0
    _records: int = 0
    _waiting: dict[str, bytes | None] = field(default_factory=dict)
    _seen: int = 0

    @property
    def has_more(self) -> bool:
        return self.parcel is not None or bool(self._waiting) or not self.first

    @property
    def wants_base(self) -> bool:
        changes = self.shipped - self._base_size
        return not self.first or self._records >= MOST or changes > max(SMALLEST, self._base_size)

    def note(self, changes: Sequence[Changed]) -> None:
        for change in changes:
            self._waiting[change.key] = change.value
            self._seen = change.revision

    def base(self, contents: Contents) -> Record:
        """Of all there is: what waits is in it."""
        self._waiting, self._seen = {}, contents.revision
        return Record(0, contents.revision, dict(contents.entries), self.token_keys)

    def increment(self) -> Record | None:
        """Of what waits; None: nothing does."""
        changes: Changes = self._waiting
        if not changes:
            return None
        self._waiting = {}
        return Record(self.revision, self._seen, changes)

    def packed(self, record: Record) -> Parcel:
        """Takes a while for a large one; touches nothing that others change."""
        return Parcel(self.next, encode(record, self.epoch, self.next), record.revision, not record.since)

    def arrived(self, parcel: Parcel) -> None:
        """It lies at the hub."""
        if parcel.is_base:
            self.first, self._base_size, self._records, self.shipped = parcel.first, parcel.size, 0, 0
        else:
            self._records += 1
        self.next, self.revision, self.parcel = parcel.last + 1, parcel.revision, None
        self.shipped += parcel.size
