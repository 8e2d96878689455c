"""The log of one hosted cluster while it is replicated: pending changes, what is at the hub, when a new base is due.

It does not know the hub: the controller writes the batches, and marks them as written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.fleet.worker.data import Changed, Contents
from shoal.fleet.worker.shipping.segments import Changes, Record, encode

SMALLEST = 256_000
"""Bytes of changes that are tolerated after a base, however small that is."""
MOST = 200
"""Records after a base."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Segments that are written unchanged, and retried until they are stored."""

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
    """Number of the next segment."""
    token_keys: tuple[str, ...] = ()
    first: int = 0
    """First segment of the base at the hub; 0: none yet."""
    oldest: int = 0
    """The oldest segment that may exist at the hub."""
    revision: int = 0
    shipped: int = 0
    """Bytes from `base_segment` on."""
    parcel: Parcel | None = None
    """The batch that is being written."""
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
        """Returns a base of all entries, which includes pending changes."""
        self._waiting, self._seen = {}, contents.revision
        return Record(0, contents.revision, dict(contents.entries), self.token_keys)

    def increment(self) -> Record | None:
        """Returns a record of the pending changes; None if there are none."""
        changes: Changes = self._waiting
        if not changes:
            return None
        self._waiting = {}
        return Record(self.revision, self._seen, changes)

    def packed(self, record: Record) -> Parcel:
        """Takes a while for a large record; touches no shared state."""
        return Parcel(self.next, encode(record, self.epoch, self.next), record.revision, not record.since)

    def arrived(self, parcel: Parcel) -> None:
        """The batch is stored at the hub."""
        if parcel.is_base:
            self.first, self._base_size, self._records, self.shipped = parcel.first, parcel.size, 0, 0
        else:
            self._records += 1
        self.next, self.revision, self.parcel = parcel.last + 1, parcel.revision, None
        self.shipped += parcel.size
