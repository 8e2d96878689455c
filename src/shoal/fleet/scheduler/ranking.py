"""The best Worker for a ManagedCluster without looking at all of them.

Bindings only ever take points from a Worker, so a heap of points that are out of date has the best one near its top:
what is there is computed again and put back until the top is true. What adds points (a slot that became free, a Worker
that says something else) is in the ledger's log, and is put in before the next question. There is one heap per
location, since the share of a group in a location changes for all its Workers at once.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

from shoal.fleet.scheduler.candidate import Company
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import refusal, room
from shoal.fleet.scheduler.ledger import Ledger, Place, Record
from shoal.fleet.scheduler.scores import (
    LOCATIONS,
    STICKINESS,
    fixed_points,
    locations,
    moving_points,
    points,
)

RANKINGS = 1024
"""The most that are kept; the one not asked for longest goes."""
NOBODY = Company()
Rank = tuple[int, str]
"""Points, negative, and the Worker's name: the smallest is the best."""


class Rankings:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._era = ledger.era
        self._kept: OrderedDict[tuple[Demand, str], _Ranking] = OrderedDict()

    def best(self, record: Record) -> str:
        """Empty: nobody fits."""
        if self._era != self._ledger.era:
            self._era = self._ledger.era
            self._kept.clear()
        which = record.asked, record.group
        ranking = self._kept.pop(which, None)
        if ranking is None:
            ranking = _Ranking(self._ledger, *which)
            if len(self._kept) >= RANKINGS:
                self._kept.popitem(last=False)
        self._kept[which] = ranking
        return ranking.best(record.last)


class _Ranking:
    """For those who ask for the same and are spread together."""

    def __init__(self, ledger: Ledger, asked: Demand, group: str) -> None:
        self._ledger, self._asked, self._group = ledger, asked, group
        self._fixed: dict[str, int] = {}
        """Points that bindings do not change, of the Workers that could do; by name."""
        self._heaps: dict[str, list[Rank]] = {}
        """By location."""
        self._size = 0
        self._begin()

    def _begin(self) -> None:
        self._fixed.clear()
        self._heaps.clear()
        self._size = 0
        self._read = len(self._ledger.log)
        if not self._asked.wrong:
            for name in self._ledger.places:
                self._enter(name)

    def _enter(self, name: str) -> None:
        """A Worker whose points may be more than before."""
        place = self._ledger.places.get(name)
        worker = place.candidate if place is not None else None
        self._fixed.pop(name, None)
        if worker is None or refusal(self._asked, worker) is not None:
            return
        self._fixed[name] = fixed_points(self._asked, worker, self._ledger.cheapest)
        rank = self._rank(name, worker.location)
        if rank is not None:
            heapq.heappush(self._heaps.setdefault(worker.location, []), rank)
            self._size += 1

    def _rank(self, name: str, location: str) -> Rank | None:
        """As it is now; None: it does not fit, or is elsewhere."""
        fixed, place = self._fixed.get(name), self._ledger.places.get(name)
        if fixed is None or place is None or place.candidate is None or place.location != location:
            return None
        if room(self._asked, place.candidate, place.used) is not None:
            return None
        return -fixed - self._moving(place), name

    def _moving(self, place: Place) -> int:
        assert place.candidate is not None
        beside = self._company.workers[place.candidate.name]
        return moving_points(self._asked, place.candidate, place.used, beside)

    @property
    def _company(self) -> Company:
        return self._ledger.companies.get(self._group) or NOBODY

    def best(self, last: str) -> str:
        if self._asked.wrong:
            return ""
        self._catch_up()
        company, found = self._company, None
        for location, heap in self._heaps.items():
            top = self._top(location, heap)
            if top is not None:
                more = points(LOCATIONS, locations(company.locations[location], company.total))
                rank = top[0] - more, top[1]
                found = rank if found is None else min(found, rank)
        sticky = self._sticky(last)
        if found is not None and sticky is not None:
            found = min(found, sticky)
        return found[1] if found is not None else ""

    def _catch_up(self) -> None:
        log = self._ledger.log
        if self._size > 4 * len(self._ledger.places) + 64:
            self._begin()
        elif self._read < len(log):
            for name in dict.fromkeys(name for name, _ in log[self._read :]):
                self._enter(name)
            self._read = len(log)

    def _top(self, location: str, heap: list[Rank]) -> Rank | None:
        while heap:
            true = self._rank(heap[0][1], location)
            if true is None:
                heapq.heappop(heap)
                self._size -= 1
            elif true > heap[0]:
                heapq.heapreplace(heap, true)
            else:
                return true
        return None

    def _sticky(self, last: str) -> Rank | None:
        place = self._ledger.places.get(last) if last else None
        rank = self._rank(last, place.location) if place is not None else None
        if rank is None or place is None:
            return None
        company = self._company
        more = points(LOCATIONS, locations(company.locations[place.location], company.total))
        return rank[0] - more - points(STICKINESS, 1.0), rank[1]
