"""One object of the cache, and one step of one object."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.encoding import decode, respliced
from shoal.kinds.quota_usage import Charge

REMOVED = b"-"
"""Stored in place of a bootstrap object that was deleted: it hides the shared one below."""


class Entry:
    """One object: its served bytes, and what is read of them again and again."""

    __slots__ = (
        *("_labels", "charge", "converted", "data", "message", "name", "namespace", "normal", "revision", "virtual"),
    )

    def __init__(self, namespace: str, name: str, revision: int, data: bytes, virtual: bool = False) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.data = data
        self.virtual = virtual
        """A bootstrap object that nobody has written yet: not in the store."""
        self.normal: str = ""
        """The schema hash the bytes are known to be pruned and defaulted for."""
        self._labels: dict[str, str] | None = None
        self.message: bytes | None = None
        """The object in protobuf, once somebody has asked for it."""
        self.charge: Charge | None = None
        """What the object takes of a quota, once one had to know."""
        self.converted: dict[str, Entry] | None = None
        """By schema hash, the object in other versions that a webhook has made of it."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            # Cheaper than decoding: most objects in a large list have no labels at all.
            found = decode(self.data)["metadata"].get("labels") if b'"labels":' in self.data else None
            self._labels = found or {}
        return self._labels

    def object(self) -> dict[str, Any]:
        return decode(self.data)

    def rest(self) -> None:
        """Without what was made of the bytes and can be made again."""
        self._labels = self.message = self.charge = self.converted = None


class Change:
    """One step of one object. `new` is None for a deletion, `old` for a creation."""

    __slots__ = ("cluster", "frames", "new", "old", "revision", "traceparent")

    def __init__(self, revision: int, cluster: str, old: Entry | None, new: Entry | None) -> None:
        self.revision = revision
        self.cluster = cluster
        self.old = old
        self.new = new
        self.frames: dict[object, bytes] = {}
        """Encoded watch events by view: each is made once and shared by every watcher."""
        self.traceparent = ""
        """Of the request that made it, where that is traced."""

    @property
    def last(self) -> Entry:
        entry = self.new or self.old
        assert entry is not None
        return entry

    def gone(self) -> Entry:
        """The object's last state, at the revision of its deletion."""
        assert self.old is not None
        return Entry(self.old.namespace, self.old.name, self.revision, respliced(self.old.data, self.revision))
