"""Triggers: finds objects, watchers and recent events of a resource by the value of one field.

Many watchers use selectors that differ only in one value (`spec.nodeName=a`, `status.assignedWorker=w1`). An event
concerns only the watchers of the value the object had and of the value it has. A watcher found here still evaluates its
whole selector.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.apiserver.cache.objects import CachedObject, CacheEvent

EventHandler = Callable[[CacheEvent], None]
NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class Trigger:
    """The value a field must have."""

    path: str
    key: Hashable
    """Identifies the reader: equal for all triggers that read the same value the same way."""
    value: str
    value_of: Callable[[CachedObject], str]
    """Must not raise: it runs in the delivery of the store."""


class TriggerWatchers:
    """The watchers of one resource in one cluster by one field, and their recent events."""

    def __init__(self, value_of: Callable[[CachedObject], str]) -> None:
        self._value_of = value_of
        self._handlers: dict[str, dict[EventHandler, None]] = {}
        self._recent_events: dict[str, deque[CacheEvent]] | None = None
        """Events by value, built when a long history had to be searched for the first time."""
        self._event_log: deque[tuple[int, tuple[str, ...]]] = deque()
        """The values each event is recorded under, oldest first. An event is removed by these values, whatever it would
        be read as then.
        """

    def __len__(self) -> int:
        return sum(map(len, self._handlers.values()))

    def handlers(self) -> list[EventHandler]:
        return [handler for handlers in self._handlers.values() for handler in handlers]

    def add(self, value: str, handler: EventHandler) -> None:
        self._handlers.setdefault(value, {})[handler] = None

    def remove(self, value: str, handler: EventHandler) -> None:
        handlers = self._handlers.get(value)
        if handlers is not None:
            handlers.pop(handler, None)
            if not handlers:
                del self._handlers[value]

    def remove_everywhere(self, handler: EventHandler) -> None:
        """Removes a failed handler under every value. It still removes itself when its stream ends."""
        for handlers in self._handlers.values():
            handlers.pop(handler, None)

    def handlers_for(self, event: CacheEvent) -> list[EventHandler]:
        """Records the event and returns the handlers it concerns."""
        values = self._values_of(event)
        if self._recent_events is not None:
            self._record(self._recent_events, event, values)
        handlers: list[EventHandler] = []
        for value in values:
            handlers += self._handlers.get(value, ())
        return handlers

    def _record(self, recent: dict[str, deque[CacheEvent]], event: CacheEvent, values: tuple[str, ...]) -> None:
        self._event_log.append((event.revision, values))
        for value in values:
            events = recent.get(value)
            if events is None:
                events = recent[value] = deque()
            events.append(event)

    def _values_of(self, event: CacheEvent) -> tuple[str, ...]:
        old = self._value_of(event.old) if event.old is not None else None
        new = self._value_of(event.new) if event.new is not None else None
        if old is None or old == new:
            return (new,) if new is not None else ()
        return (old,) if new is None else (old, new)

    def recent_events(self, value: str, history: Iterable[CacheEvent]) -> deque[CacheEvent]:
        """`history` is the whole history of the resource in that cluster. It is read once."""
        if self._recent_events is None:
            self._recent_events = {}
            for change in history:
                self._record(self._recent_events, change, self._values_of(change))
        return self._recent_events.get(value) or deque()

    def forget_recent_events(self) -> None:
        """They are read from the history again when they are needed."""
        self._recent_events = None
        self._event_log.clear()

    def trim(self, revision: int) -> None:
        recent = self._recent_events or {}
        while self._event_log and self._event_log[0][0] <= revision:
            for value in self._event_log.popleft()[1]:
                events = recent[value]
                events.popleft()
                if not events:
                    del recent[value]


class FieldIndex:
    """Keys of the objects of one table by the value of one field."""

    def __init__(self, value_of: Callable[[CachedObject], str]) -> None:
        self._value_of = value_of
        self._keys: dict[str, dict[str, None]] = {}
        self.is_complete = False

    def build(self, entries: dict[str, CachedObject]) -> Iterator[None]:
        """Adds the objects of the table, one in each step. `entries` may change in between, with calls of `update`."""
        for key in list(entries):
            entry = entries.get(key)
            if entry is not None:
                self._keys.setdefault(self._value_of(entry), {})[key] = None
            yield
        self.is_complete = True

    def update(self, old: CachedObject | None, new: CachedObject | None) -> None:
        before = self._value_of(old) if old is not None else None
        now = self._value_of(new) if new is not None else None
        if before == now:
            return
        if old is not None and before is not None:
            keys = self._keys.get(before)
            if keys is not None:
                keys.pop(old.key, None)
                if not keys:
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


def field_reader(path: str) -> Callable[[bytes], str]:
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
