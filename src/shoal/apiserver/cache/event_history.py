"""Reads the recent events of one resource: those after a revision, and the state before them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from shoal.apiserver.cache.object_table import ObjectTable
from shoal.apiserver.cache.objects import CacheEvent


def events_after(events: deque[CacheEvent], revision: int) -> list[CacheEvent]:
    """Returns the events after that revision, oldest first."""
    if not events or events[-1].revision <= revision:
        return []
    result = list(takewhile(lambda change: change.revision > revision, reversed(events)))
    result.reverse()
    return result


def in_cluster(events: Iterable[CacheEvent], cluster: str) -> Iterable[CacheEvent]:
    """`*` stands for all clusters."""
    return events if cluster == "*" else (change for change in events if change.cluster == cluster)


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
