"""The window of recent events, bounded for each logical cluster: the events of one never shorten the window of another.

A cluster whose events need more than its limit loses its oldest ones at once. If those of all clusters together need
too much, the clusters that need the most lose theirs. Watches that resume from before get 410, in that cluster alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Generic, Protocol, TypeVar

from shoal.apiserver.cache.event_history import ResourceHistory
from shoal.apiserver.cache.objects import CacheEvent, EventOwner

KEPT_SHARE = 0.75
"""What is kept of a history that became too large, so that it is not shortened for every event."""


class WatchedResource(Protocol):
    """One resource, as its events are kept."""

    history: ResourceHistory

    def drop_oldest(self, cluster: str, count: int, revision: int, early: bool) -> None: ...


R = TypeVar("R", bound=WatchedResource)


class ClusterHistory(Generic[R]):
    """The events of one logical cluster, of all resources in one order."""

    __slots__ = ("events", "max_bytes", "owner")

    def __init__(self, max_bytes: int | None) -> None:
        self.events: list[tuple[R, CacheEvent]] = []
        self.max_bytes, self.owner = max_bytes, EventOwner()

    @property
    def size(self) -> int:
        return self.owner.size


class WatchHistory(Generic[R]):
    def __init__(self) -> None:
        self._histories: dict[str, ClusterHistory[R]] = {}
        self._oldest_revisions: dict[str, int] = {}
        """Of clusters that lost events before their time."""
        self.max_bytes_of: Callable[[str], int | None] = lambda cluster: None
        """Returns the limit of a cluster; None if it has none."""
        self.oldest_revision = 0
        """The window of every cluster begins here or later."""

    def append(self, kind: R, event: CacheEvent) -> None:
        history = self._histories.get(event.cluster)
        if history is None:
            history = self._histories[event.cluster] = ClusterHistory(self.max_bytes_of(event.cluster))
        history.events.append((kind, event))
        event.set_owner(history.owner)
        kind.history.append(event)

    def shorten(self, cluster: str) -> None:
        """Shortens the history of a cluster that exceeds its limit. Called after an event was delivered."""
        history = self._histories.get(cluster)
        if history is not None and history.max_bytes is not None and history.size > history.max_bytes:
            self._keep(cluster, history, int(history.max_bytes * KEPT_SHARE), len(history.events))

    def oldest_revision_of(self, cluster: str) -> int:
        """Watches and exact lists of the cluster may start from this revision. `*` stands for all clusters."""
        if not self._oldest_revisions:
            return self.oldest_revision
        if cluster == "*":
            return max(self.oldest_revision, *self._oldest_revisions.values())
        return max(self.oldest_revision, self._oldest_revisions.get(cluster, 0))

    def events_since(self, revision: int) -> list[tuple[R, CacheEvent]]:
        """Events of every resource after that revision, oldest first."""
        recent = (
            history.events[_position(history, revision) :]
            for history in self._histories.values()
            if history.events[-1][1].revision > revision
        )
        return sorted(chain.from_iterable(recent), key=lambda logged: logged[1].revision)

    def size_of(self, cluster: str) -> int:
        history = self._histories.get(cluster)
        return history.size if history is not None else 0

    def clusters(self) -> list[str]:
        return list(self._histories)

    def refresh_limit(self, cluster: str) -> None:
        """Called when the limits of a cluster have changed."""
        history = self._histories.get(cluster)
        if history is not None:
            history.max_bytes = self.max_bytes_of(cluster)
            self.shorten(cluster)

    def trim(self, revision: int) -> None:
        """Forgets the events up to that revision."""
        for cluster, history in list(self._histories.items()):
            if history.events[0][1].revision <= revision:
                self._drop(cluster, history, _position(history, revision), early=False)
        self.oldest_revision = max(self.oldest_revision, revision)
        self._oldest_revisions = {
            cluster: oldest for cluster, oldest in self._oldest_revisions.items() if oldest > self.oldest_revision
        }

    def fit(self, max_events: int, max_bytes: int) -> None:
        """Shortens the longest histories until all of them together fit."""
        histories = self._histories.values()
        longest = fair_share((len(history.events) for history in histories), max_events)
        largest = fair_share((history.size for history in histories), max_bytes)
        if longest is None and largest is None:
            return
        for cluster, history in list(self._histories.items()):
            size = history.size if largest is None else largest
            count = len(history.events) if longest is None else longest
            if history.size > size or len(history.events) > count:
                self._keep(cluster, history, size, count)

    def _keep(self, cluster: str, history: ClusterHistory[R], max_bytes: int, max_events: int) -> None:
        """Drops the oldest events until the rest fits. All events of one revision go together."""
        events, excess = history.events, history.size - max_bytes
        count = len(events) - max_events
        freed = dropped = 0
        for dropped, (_, event) in enumerate(events):
            if dropped >= count and freed >= excess:
                break
            freed += event.size
        else:
            dropped = len(events)
        if dropped:
            revision = events[dropped - 1][1].revision
            self._drop(cluster, history, _position(history, revision), early=True)
            self._oldest_revisions[cluster] = revision

    def _drop(self, cluster: str, history: ClusterHistory[R], count: int, *, early: bool) -> None:
        """Drops the oldest events of a cluster."""
        dropped = history.events[:count]
        for _, event in dropped:
            event.set_owner(None)
        last_revision = dropped[-1][1].revision
        for kind, number in Counter(kind for kind, _ in dropped).items():
            kind.drop_oldest(cluster, number, last_revision, early)
        if count == len(history.events):
            del self._histories[cluster]
        else:
            del history.events[:count]


def _position(history: ClusterHistory[R], revision: int) -> int:
    """Returns the number of events up to that revision."""
    return bisect_right(history.events, revision, key=lambda logged: logged[1].revision)


def fair_share(sizes: Iterable[int], total: int) -> int | None:
    """Returns the most that each may have so that all together have at most `total`; None if they have less."""
    ordered = sorted(sizes)
    if sum(ordered) <= total:
        return None
    left = total
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return share
        left -= size
    return None
