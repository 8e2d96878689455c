"""One cached object, and one event of one object."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.apiserver.cache.storage_form import REVISION_FIELD_SIZE, decode, replace_revision
from shoal.kinds.core.quota_usage import ObjectUsage

TOMBSTONE = b"-"
"""Tombstone: stored in place of a deleted bootstrap object, it hides the shared one."""


class CachedObject(msgspec.Struct, gc=False, eq=False):
    """One object: its served bytes and values derived from them.

    The cyclic garbage collector does not look at these: there are hundreds of thousands, and each of its full runs
    would hold the event loop for as long as it visits them. They are part of no cycle.
    """

    namespace: str
    name: str
    revision: int
    data: bytes
    virtual: bool = False
    """True for an object that is not in the store, such as an unwritten bootstrap object."""
    normalised_for: str = ""
    """Hash of the schema the bytes are known to be pruned and defaulted for."""
    _labels: dict[str, str] | None = None
    protobuf: bytes | None = None
    """The object in protobuf, filled on first use."""
    quota_usage: ObjectUsage | None = None
    """The object's quota usage, filled on first use."""
    conversions: dict[str, CachedObject] | None = None
    """The object in other versions, converted by a webhook, by schema hash."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def stored_size(self) -> int:
        """The length of the stored form."""
        return len(self.data) - REVISION_FIELD_SIZE - len(str(self.revision))

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            # Cheaper than decoding: most objects in a large list have no labels.
            labels = decode(self.data)["metadata"].get("labels") if b'"labels":' in self.data else None
            self._labels = labels or {}
        return self._labels

    def object(self) -> dict[str, Any]:
        return decode(self.data)

    def drop_derived(self) -> None:
        """Drops everything that can be derived from the bytes again."""
        self._labels = self.protobuf = self.quota_usage = self.conversions = None


EVENT_OVERHEAD = 400
"""Bytes that an event needs beside the state before it and its frames."""


class EventOwner:
    """Counts the bytes that the events of somebody need. It does not know them: that would be a cycle."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0


class CacheEvent(msgspec.Struct, gc=False, eq=False):
    """One event of one object. `new` is None for a deletion, `old` for a creation. Not garbage collected, likewise."""

    revision: int
    cluster: str
    old: CachedObject | None
    new: CachedObject | None
    encoded_frames: dict[object, bytes] = {}
    """Encoded watch events by output. Each is encoded once and shared by all watchers."""
    traceparent: str = ""
    """Trace context of the request that caused the event, if it is traced."""
    size: int = EVENT_OVERHEAD
    """Bytes that are kept for it. The state after it is counted as an object, or with the next event."""
    _owner: EventOwner | None = None

    def __post_init__(self) -> None:
        if self.old is not None:
            self.size += len(self.old.data)

    def add_frame(self, key: object, frame: bytes) -> None:
        self.encoded_frames[key] = frame
        self.size += len(frame)
        if self._owner is not None:
            self._owner.size += len(frame)

    def set_owner(self, owner: EventOwner | None) -> None:
        """Sets who keeps the event; None: nobody does any more."""
        if self._owner is not None:
            self._owner.size -= self.size
        if owner is not None:
            owner.size += self.size
        self._owner = owner

    @property
    def latest(self) -> CachedObject:
        entry = self.new or self.old
        assert entry is not None
        return entry

    def deleted_object(self) -> CachedObject:
        """The object's last state, at the revision of its deletion."""
        assert self.old is not None
        return CachedObject(
            self.old.namespace, self.old.name, self.revision, replace_revision(self.old.data, self.revision)
        )
