"""Triggers: finds objects, watchers and recent events of a resource by the value of one field.

Many watchers use selectors that differ only in one value (`spec.nodeName=a`, `status.assignedWorker=w1`). An event
concerns only the watchers of the value the object had and of the value it has. A watcher found here still evaluates its
whole selector.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.apiserver.entries import Change, Entry

Listener = Callable[[Change], None]
NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class Pin:
    """The value a field must have."""

    path: str
    field: Hashable
    """Identifies the reader: equal for all triggers that read the same value the same way."""
    value: str
    read: Callable[[Entry], str]
    """Must not raise: it runs in the delivery of the store."""


class Pinned:
    """The watchers of one resource in one cluster by one field, and their recent events."""

    def __init__(self, read: Callable[[Entry], str]) -> None:
        self._read = read
        self._listeners: dict[str, dict[Listener, None]] = {}
        self._recent: dict[str, deque[Change]] | None = None
        """Events by value, built when a long history had to be searched for the first time."""
        self._ages: deque[tuple[int, tuple[str, ...]]] = deque()
        """The values each event is recorded under, oldest first. An event is removed by these values, whatever it would
        be read as then.
        """

    def __len__(self) -> int:
        return sum(map(len, self._listeners.values()))

    def listen(self, value: str, listener: Listener) -> None:
        self._listeners.setdefault(value, {})[listener] = None

    def forget(self, value: str, listener: Listener) -> None:
        found = self._listeners.get(value)
        if found is not None:
            found.pop(listener, None)
            if not found:
                del self._listeners[value]

    def drop(self, listener: Listener) -> None:
        """Removes a failed handler under every value. It still removes itself when its stream ends."""
        for found in self._listeners.values():
            found.pop(listener, None)

    def note(self, change: Change) -> list[Listener]:
        """Records the event and returns the handlers it concerns."""
        values = self._values(change)
        if self._recent is not None:
            self._keep(self._recent, change, values)
        found: list[Listener] = []
        for value in values:
            found += self._listeners.get(value, ())
        return found

    def _keep(self, recent: dict[str, deque[Change]], change: Change, values: tuple[str, ...]) -> None:
        self._ages.append((change.revision, values))
        for value in values:
            found = recent.get(value)
            if found is None:
                found = recent[value] = deque()
            found.append(change)

    def _values(self, change: Change) -> tuple[str, ...]:
        old = self._read(change.old) if change.old is not None else None
        new = self._read(change.new) if change.new is not None else None
        if old is None or old == new:
            return (new,) if new is not None else ()
        return (old,) if new is None else (old, new)

    def recent(self, value: str, history: Iterable[Change]) -> deque[Change]:
        """`history` is the whole history of the resource in that cluster. It is read once."""
        if self._recent is None:
            self._recent = {}
            for change in history:
                self._keep(self._recent, change, self._values(change))
        return self._recent.get(value) or deque()

    def trim(self, revision: int) -> None:
        recent = self._recent or {}
        while self._ages and self._ages[0][0] <= revision:
            for value in self._ages.popleft()[1]:
                left = recent[value]
                left.popleft()
                if not left:
                    del recent[value]


class Index:
    """Keys of the objects of one table by the value of one field."""

    def __init__(self, read: Callable[[Entry], str], entries: Iterable[Entry]) -> None:
        self._read = read
        self._keys: dict[str, dict[str, None]] = {}
        for entry in entries:
            self.put(None, entry)

    def put(self, old: Entry | None, new: Entry | None) -> None:
        before = self._read(old) if old is not None else None
        now = self._read(new) if new is not None else None
        if before == now:
            return
        if old is not None and before is not None:
            found = self._keys.get(before)
            if found is not None:
                found.pop(old.key, None)
                if not found:
                    del self._keys[before]
        if new is not None and now is not None:
            self._keys.setdefault(now, {})[new.key] = None

    def keys(self, value: str) -> list[str]:
        """Sorted."""
        return sorted(self._keys.get(value, ()))


def field_value(obj: dict[str, Any], path: str) -> str:
    """A scalar by dotted path, as a field selector sees it: absent is empty."""
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def reader(path: str) -> Callable[[bytes], str]:
    """Returns `field_value` for an object's bytes. It skips everything beside the path, which is several times faster
    than decoding.
    """
    parts = path.strip(".").split(".")
    shape: Any = Any
    for part in reversed(parts):
        shape = msgspec.defstruct("Holder", [("held", shape | None, None)], rename={"held": part}) | None
    decoder = msgspec.json.Decoder(shape)

    def read(data: bytes) -> str:
        try:
            value = decoder.decode(data)
            for _ in parts:
                value = value.held if value is not None else None
        except msgspec.ValidationError:
            return field_value(msgspec.json.decode(data), path)  # a parent on the path is not an object
        return _text(value)

    return read
