"""Finds the best Worker for a ManagedCluster without evaluating all of them.

Bindings only ever reduce the points of a Worker, so a heap of outdated points has the best Worker near its top: the top
is recomputed and pushed back until it is current. Changes that add points (freed capacity, a changed Worker) are in the
cache's change log and are pushed before the next lookup. There is one heap per location, because the share of a group
in a location changes for all its Workers at once.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Any

from shoal.fleet.scheduler.candidate import Company
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import has_room, refusal
from shoal.fleet.scheduler.ledger import Ledger, Record
from shoal.fleet.scheduler.scores import LOCATIONS, STICKINESS, fixed_points, locations, moving_points, points

RANKINGS = 512
"""The most rankings that are kept, per requirements and per spread group; the least recently used is dropped."""
NOBODY = Company()
Rank = tuple[int, str]
"""Negative points and the Worker's name: the smallest is the best."""


class Rankings:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._era = ledger.era
        self._able: OrderedDict[Demand, _Able] = OrderedDict()
        self._kept: OrderedDict[tuple[Demand, str], _Ranking] = OrderedDict()

    def best(self, record: Record) -> str:
        """Returns the best Worker; empty if none fits."""
        asked, group = record.asked, record.group
        if asked.wrong:
            return ""
        if self._era != self._ledger.era:
            self._era = self._ledger.era
            self._able.clear()
            self._kept.clear()
        able = self._able.pop(asked, None) or _Able(self._ledger, asked)
        _keep(self._able, asked, able)
        ranking = self._kept.pop((asked, group), None)
        if ranking is None or ranking.able is not able:
            ranking = _Ranking(self._ledger, able, group)
        _keep(self._kept, (asked, group), ranking)
        return ranking.best(record.last)


def _keep(among: OrderedDict[Any, Any], key: object, value: object) -> None:
    among[key] = value
    if len(among) > RANKINGS:
        among.popitem(last=False)


class _Able:
    """Workers that pass the filters, whatever their usage, with their static points."""

    def __init__(self, ledger: Ledger, asked: Demand) -> None:
        self._ledger, self.asked = ledger, asked
        self.fixed: dict[str, int] = {}
        self._read = len(ledger.log)
        for name in ledger.places:
            self._enter(name)

    def catch_up(self) -> None:
        log = self._ledger.log
        for name, said in log[self._read :]:
            if said:
                self._enter(name)
        self._read = len(log)

    def _enter(self, name: str) -> None:
        place = self._ledger.places.get(name)
        worker = place.candidate if place is not None else None
        self.fixed.pop(name, None)
        if worker is not None and refusal(self.asked, worker) is None:
            self.fixed[name] = fixed_points(self.asked, worker, self._ledger.cheapest)


class _Ranking:
    """Ranking for ManagedClusters with equal requirements in the same spread group."""

    def __init__(self, ledger: Ledger, able: _Able, group: str) -> None:
        self._ledger, self.able, self._group = ledger, able, group
        self._heaps: dict[str, list[Rank]] = {}
        """By location."""
        self._begin()

    def _begin(self) -> None:
        self.able.catch_up()
        self._heaps.clear()
        self._size, self._read = 0, len(self._ledger.log)
        for name in self.able.fixed:
            self._enter(name)

    def _enter(self, name: str) -> None:
        """Pushes a Worker whose points may have increased."""
        place = self._ledger.places.get(name)
        location = place.location if place is not None else ""
        rank = self._rank(name, location)
        if rank is not None:
            heapq.heappush(self._heaps.setdefault(location, []), rank)
            self._size += 1

    def _rank(self, name: str, location: str) -> Rank | None:
        """Returns the current rank; None if it does not fit or is in another location."""
        fixed, place = self.able.fixed.get(name), self._ledger.places.get(name)
        worker = place.candidate if place is not None else None
        if fixed is None or place is None or worker is None or worker.location != location:
            return None
        asked, used = self.able.asked, place.used
        if not has_room(asked, worker, used):
            return None
        return -fixed - moving_points(asked, worker, used, self._company.workers.get(name, 0)), name

    @property
    def _company(self) -> Company:
        return self._ledger.companies.get(self._group) or NOBODY

    def best(self, last: str) -> str:
        self._catch_up()
        found = self._sticky(last)
        for location, heap in self._heaps.items():
            top = self._top(location, heap)
            if top is not None:
                rank = self._in_location(top, location)
                found = rank if found is None else min(found, rank)
        return found[1] if found is not None else ""

    def _catch_up(self) -> None:
        log = self._ledger.log
        self.able.catch_up()
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

    def _in_location(self, rank: Rank, location: str) -> Rank:
        company = self._company
        return rank[0] - points(LOCATIONS, locations(company.locations[location], company.total)), rank[1]

    def _sticky(self, last: str) -> Rank | None:
        place = self._ledger.places.get(last) if last else None
        rank = self._rank(last, place.location) if place is not None else None
        if rank is None or place is None:
            return None
        found = self._in_location(rank, place.location)
        return found[0] - points(STICKINESS, 1.0), found[1]
