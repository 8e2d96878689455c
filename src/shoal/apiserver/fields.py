"""Objects, watchers and recent changes of a kind, found by the value of one field.

A selector that pins a field (`spec.nodeName=a`, `status.assignedWorker=w1`) makes it one of many that differ in the
value only: what happens to an object concerns those of the value it had and of the one it has. Whoever is found here
still compares the whole selector.
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
    """The same for all that read the same the same way."""
    value: str
    read: Callable[[Entry], str]
    """Must not raise: the store's delivery waits for it."""


class Pinned:
    """Who watches one kind in one cluster by one field, and what they would be told again."""

    def __init__(self, read: Callable[[Entry], str]) -> None:
        self._read = read
        self._listeners: dict[str, dict[Listener, None]] = {}
        self._recent: dict[str, deque[Change]] | None = None
        """Changes by value, once somebody had to look for them in a long history."""
        self._ages: deque[tuple[int, tuple[str, ...]]] = deque()
        """Under which values each change is, oldest first: it leaves by those, whatever it would be read as then."""

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
        """Wherever it is. For one that has failed: it still forgets itself when its stream ends."""
        for found in self._listeners.values():
            found.pop(listener, None)

    def note(self, change: Change) -> list[Listener]:
        """Answers whom it concerns."""
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
        """`history` is all there is of the kind in that cluster; it is read once."""
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
    """Keys of the objects of one table, by the value of one field."""

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
        """In order."""
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
    """`field_value` of an object's bytes: everything beside the path is skipped, which is several times faster."""
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
            return field_value(msgspec.json.decode(data), path)  # something on the way is no object
        return _text(value)

    return read
