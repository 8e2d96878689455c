"""Groups nodes by the label values that matter for inter-pod constraints, which are equal for all nodes of a group.
Pure.

A group is closed, or has an inter-pod score. Large groups rank their own nodes. The nodes of small groups are ranked in
one heap per score, so that one group per node costs no more than one group for all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shoal.controlplane.scheduler.company import Company, Mood
from shoal.controlplane.scheduler.decide import Bid

LARGE = 8
"""Number of nodes from which a group ranks its own."""
INDIFFERENT = Mood()

Values = tuple[str | None, ...]


@dataclass(slots=True, eq=False)
class Place:
    labels: dict[str, str]
    mood: Mood | None
    """None: the group is closed."""
    names: set[str] = field(default_factory=set)
    heap: list[Bid] | None = None
    """Its own heap, if it is or was large."""


class Places:
    def __init__(self, company: Company | None, keys: tuple[str, ...], bids: Mapping[str, Bid]) -> None:
        """`bids` are the current ones by node; older ones in the heaps are skipped."""
        self._company, self._keys, self._bids = company, keys, bids
        self._places: dict[Values, Place] = {}
        self._large: list[Place] = []
        self._heaps: dict[Mood, list[Bid]] = {}
        self._by_label: dict[tuple[str, str], set[Values]] = {}

    def enter(self, name: str, labels: Mapping[str, str]) -> Place:
        values = tuple(labels.get(key) for key in self._keys)
        place = self._places.get(values)
        if place is None:
            pairs = {key: value for key, value in zip(self._keys, values, strict=True) if value is not None}
            place = self._places[values] = Place(pairs, self._mood(pairs))
            for pair in pairs.items():
                self._by_label.setdefault(pair, set()).add(values)
        place.names.add(name)
        if place.heap is None and (len(place.names) >= LARGE or self._company is None):
            place.heap = [self._bids[each] for each in place.names if each in self._bids]
            heapq.heapify(place.heap)
            self._large.append(place)
        return place

    def leave(self, name: str, place: Place) -> None:
        place.names.discard(name)
        if not place.names:
            values = tuple(place.labels.get(key) for key in self._keys)
            del self._places[values]
            for pair in place.labels.items():
                self._by_label[pair].discard(values)
            if place.heap is not None:
                self._large.remove(place)

    def offer(self, place: Place, bid: Bid) -> None:
        if place.heap is not None:
            heapq.heappush(place.heap, bid)
        elif place.mood is not None:
            heapq.heappush(self._heaps.setdefault(place.mood, []), bid)

    def open(self) -> Iterator[tuple[Mood, list[Bid], Place | None]]:
        """Yields each heap with its score, and the group that owns it, if any."""
        for place in self._large:
            if place.mood is not None:
                yield place.mood, place.heap or [], place
        for mood, heap in list(self._heaps.items()):
            yield mood, heap, None

    def feel(self, changes: set[tuple[str, str]] | None) -> None:
        """Recomputes the scores of groups with these labels; None for all."""
        if changes is None:
            places = list(self._places.values())
        else:
            found = {values for each in changes for values in self._by_label.get(each, ())}
            places = [self._places[values] for values in found]
        for place in places:
            before, place.mood = place.mood, self._mood(place.labels)
            if place.mood is not None and place.mood != before and place.heap is None:
                heap = self._heaps.setdefault(place.mood, [])
                for name in place.names:
                    if name in self._bids:
                        heapq.heappush(heap, self._bids[name])

    def tidy(self) -> None:
        """Drops stale bids where there are many."""
        for place in self._large:
            if place.heap is not None and len(place.heap) > 2 * len(place.names) + 64:
                place.heap = [self._bids[name] for name in place.names if name in self._bids]
                heapq.heapify(place.heap)
        if sum(map(len, self._heaps.values())) > 2 * len(self._bids) + 64:
            self._heaps = {}
            for place in self._places.values():
                if place.mood is not None and place.heap is None:
                    bids = [self._bids[name] for name in place.names if name in self._bids]
                    self._heaps.setdefault(place.mood, []).extend(bids)
            for heap in self._heaps.values():
                heapq.heapify(heap)

    def _mood(self, labels: Mapping[str, str]) -> Mood | None:
        if self._company is None:
            return INDIFFERENT
        return None if self._company.obstacle(labels) else self._company.mood(labels)
