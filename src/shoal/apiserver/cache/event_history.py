"""The recent events of one resource by logical cluster: those after a revision, and the state before them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

from shoal.apiserver.cache.object_table import ObjectTable
from shoal.apiserver.cache.objects import CacheEvent

_revision = attrgetter("revision")


class ResourceHistory:
    """Lists, because a deque costs more than half a kilobyte for each cluster and resource."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: dict[str, list[CacheEvent]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._events.values()))

    def append(self, event: CacheEvent) -> None:
        events = self._events.get(event.cluster)
        if events is None:
            self._events[event.cluster] = [event]
        else:
            events.append(event)

    def of_cluster(self, cluster: str) -> Sequence[CacheEvent]:
        """Oldest first. `*` stands for all clusters."""
        if cluster != "*":
            return self._events.get(cluster, ())
        return sorted(chain.from_iterable(self._events.values()), key=_revision)

    def after(self, cluster: str, revision: int) -> list[CacheEvent]:
        """Returns the events after that revision, oldest first. `*` stands for all clusters."""
        if cluster != "*":
            return events_after(self._events.get(cluster, ()), revision)
        recent = [events_after(events, revision) for events in self._events.values() if events[-1].revision > revision]
        return recent[0] if len(recent) == 1 else sorted(chain.from_iterable(recent), key=_revision)

    def by_cluster_after(self, revision: int) -> dict[str, list[CacheEvent]]:
        return {
            cluster: events_after(events, revision)
            for cluster, events in self._events.items()
            if events[-1].revision > revision
        }

    def drop_oldest(self, cluster: str, count: int) -> None:
        events = self._events[cluster]
        if count == len(events):
            del self._events[cluster]
        else:
            del events[:count]


def events_after(events: Sequence[CacheEvent], revision: int) -> list[CacheEvent]:
    """Returns the events after that revision, oldest first."""
    if not events or events[-1].revision <= revision:
        return []
    return list(events[bisect_right(events, revision, key=_revision) :])


def undo(current: ObjectTable, events: Sequence[CacheEvent]) -> ObjectTable:
    """Returns the table as it was before these events."""
    if not events:
        return current
    past = ObjectTable()
    past.entries = dict(current.entries)
    for change in reversed(events):
        if change.old is None:
            past.entries.pop(change.latest.key, None)
        else:
            past.entries[change.old.key] = change.old
    past.keys = sorted(past.entries)
    return past
