"""One cached object, and one event of one object."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache.storage_form import decode, replace_revision
from shoal.kinds.core.quota_usage import ObjectUsage

TOMBSTONE = b"-"
"""Tombstone: stored in place of a deleted bootstrap object, it hides the shared one."""


class CachedObject:
    """One object: its served bytes and values derived from them."""

    __slots__ = (
        *(
            "_labels",
            "quota_usage",
            "conversions",
            "data",
            "protobuf",
            "name",
            "namespace",
            "normalised_for",
            "revision",
            "virtual",
        ),
    )

    def __init__(self, namespace: str, name: str, revision: int, data: bytes, virtual: bool = False) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.data = data
        self.virtual = virtual
        """True for an object that is not in the store, such as an unwritten bootstrap object."""
        self.normalised_for: str = ""
        """Hash of the schema the bytes are known to be pruned and defaulted for."""
        self._labels: dict[str, str] | None = None
        self.protobuf: bytes | None = None
        """The object in protobuf, filled on first use."""
        self.quota_usage: ObjectUsage | None = None
        """The object's quota usage, filled on first use."""
        self.conversions: dict[str, CachedObject] | None = None
        """The object in other versions, converted by a webhook, by schema hash."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

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


class CacheEvent:
    """One event of one object. `new` is None for a deletion, `old` for a creation."""

    __slots__ = ("cluster", "encoded_frames", "new", "old", "revision", "traceparent")

    def __init__(self, revision: int, cluster: str, old: CachedObject | None, new: CachedObject | None) -> None:
        self.revision = revision
        self.cluster = cluster
        self.old = old
        self.new = new
        self.encoded_frames: dict[object, bytes] = {}
        """Encoded watch events by output. Each is encoded once and shared by all watchers."""
        self.traceparent = ""
        """Trace context of the request that caused the event, if it is traced."""

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
