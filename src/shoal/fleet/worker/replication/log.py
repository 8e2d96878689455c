"""The log of one hosted cluster while it is replicated: pending changes, what is at the hub, when a new base is due.

It does not know the hub: the controller writes the batches, and marks them as written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.fleet.worker.cluster_storage import ClusterContents, StoreChange
from shoal.fleet.worker.replication.segments import LogRecord, encode_record

MIN_BASE_BYTES = 256_000
"""Bytes of changes that are tolerated after a base, however small that is."""
MOST = 200
"""Records after a base."""


@dataclass(frozen=True, slots=True)
class SegmentBatch:
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
class ClusterLog:
    epoch: int
    next_segment: int
    """Number of the next segment."""
    token_keys: tuple[str, ...] = ()
    base_segment: int = 0
    """First segment of the base at the hub; 0: none yet."""
    oldest_segment: int = 0
    """The oldest segment that may exist at the hub."""
    revision: int = 0
    base_bytes: int = 0
    """Bytes from `base_segment` on."""
    pending_batch: SegmentBatch | None = None
    """The batch that is being written."""
    final_revision: int = 0
    """The hub's revision at which it was told that nothing will follow; 0: it was not."""
    _base_size: int = 0
    _records: int = 0
    _pending: dict[str, bytes | None] = field(default_factory=dict)
    _pending_templates: dict[str, bytes | None] = field(default_factory=dict)
    _pending_revision: int = 0

    @property
    def has_pending(self) -> bool:
        return bool(self.pending_batch or self._pending or self._pending_templates) or not self.base_segment

    @property
    def needs_base(self) -> bool:
        changes = self.base_bytes - self._base_size
        return not self.base_segment or self._records >= MOST or changes > max(MIN_BASE_BYTES, self._base_size)

    def add_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            (self._pending if change.cluster else self._pending_templates)[change.key] = change.value
            self._pending_revision = change.revision

    def new_base(self, contents: ClusterContents) -> LogRecord:
        """Returns a base of all entries, which includes pending changes."""
        self._pending, self._pending_templates, self._pending_revision = {}, {}, contents.revision
        return LogRecord(0, contents.revision, dict(contents.entries), self.token_keys, dict(contents.templates))

    def new_increment(self) -> LogRecord | None:
        """Returns a record of the pending changes; None if there are none."""
        changes, templates = self._pending, self._pending_templates
        if not changes and not templates:
            return None
        self._pending, self._pending_templates = {}, {}
        return LogRecord(self.revision, self._pending_revision, changes, templates=templates)

    def encode_batch(self, record: LogRecord) -> SegmentBatch:
        """Takes a while for a large record; touches no shared state."""
        return SegmentBatch(
            self.next_segment, encode_record(record, self.epoch, self.next_segment), record.revision, not record.since
        )

    def mark_written(self, batch: SegmentBatch) -> None:
        """The batch is stored at the hub."""
        if batch.is_base:
            self.base_segment, self._base_size, self._records, self.base_bytes = batch.first, batch.size, 0, 0
        else:
            self._records += 1
        self.next_segment, self.revision, self.pending_batch = batch.last + 1, batch.revision, None
        self.base_bytes += batch.size
