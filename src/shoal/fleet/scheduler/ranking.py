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

from shoal.fleet.scheduler.cache import ClusterInfo, SchedulerCache
from shoal.fleet.scheduler.candidate import SpreadCounts
from shoal.fleet.scheduler.filters import has_capacity, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements
from shoal.fleet.scheduler.scores import (
    LOCATIONS,
    STICKINESS,
    dynamic_points,
    location_score,
    static_points,
    weighted_points,
)

MAX_RANKINGS = 512
"""The most rankings that are kept, per requirements and per spread group; the least recently used is dropped."""
NO_SPREAD = SpreadCounts()
Rank = tuple[int, str]
"""Negative points and the Worker's name: the smallest is the best."""


class WorkerRankings:
    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._log_generation = cache.log_generation
        self._feasible: OrderedDict[ClusterRequirements, _FeasibleWorkers] = OrderedDict()
        self._rankings: OrderedDict[tuple[ClusterRequirements, str], _SpreadGroupRanking] = OrderedDict()

    def best_worker(self, info: ClusterInfo) -> str:
        """Returns the best Worker; empty if none fits."""
        requirements, spread_group = info.requirements, info.spread_group
        if requirements.selector_error:
            return ""
        if self._log_generation != self._cache.log_generation:
            self._log_generation = self._cache.log_generation
            self._feasible.clear()
            self._rankings.clear()
        feasible = self._feasible.pop(requirements, None) or _FeasibleWorkers(self._cache, requirements)
        _put_lru(self._feasible, requirements, feasible)
        ranking = self._rankings.pop((requirements, spread_group), None)
        if ranking is None or ranking.feasible is not feasible:
            ranking = _SpreadGroupRanking(self._cache, feasible, spread_group)
        _put_lru(self._rankings, (requirements, spread_group), ranking)
        return ranking.best_worker(info.last_worker)


def _put_lru(lru: OrderedDict[Any, Any], key: object, value: object) -> None:
    lru[key] = value
    if len(lru) > MAX_RANKINGS:
        lru.popitem(last=False)


class _FeasibleWorkers:
    """Workers that pass the filters, whatever their usage, with their static points."""

    def __init__(self, cache: SchedulerCache, requirements: ClusterRequirements) -> None:
        self._cache, self.requirements = cache, requirements
        self.static_points_by_worker: dict[str, int] = {}
        self._log_position = len(cache.change_log)
        for name in cache.workers_by_name:
            self._evaluate(name)

    def catch_up(self) -> None:
        change_log = self._cache.change_log
        for name, worker_changed in change_log[self._log_position :]:
            if worker_changed:
                self._evaluate(name)
        self._log_position = len(change_log)

    def _evaluate(self, name: str) -> None:
        worker_info = self._cache.workers_by_name.get(name)
        worker = worker_info.candidate if worker_info is not None else None
        self.static_points_by_worker.pop(name, None)
        if worker is not None and run_filters(self.requirements, worker) is None:
            self.static_points_by_worker[name] = static_points(self.requirements, worker, self._cache.lowest_cost)


class _SpreadGroupRanking:
    """Ranking for ManagedClusters with equal requirements in the same spread group."""

    def __init__(self, cache: SchedulerCache, feasible: _FeasibleWorkers, spread_group: str) -> None:
        self._cache, self.feasible, self._spread_group = cache, feasible, spread_group
        self._heaps: dict[str, list[Rank]] = {}
        """By location."""
        self._rebuild()

    def _rebuild(self) -> None:
        self.feasible.catch_up()
        self._heaps.clear()
        self._heap_size, self._log_position = 0, len(self._cache.change_log)
        for name in self.feasible.static_points_by_worker:
            self._push(name)

    def _push(self, name: str) -> None:
        """Pushes a Worker whose points may have increased."""
        worker_info = self._cache.workers_by_name.get(name)
        location = worker_info.location if worker_info is not None else ""
        rank = self._rank(name, location)
        if rank is not None:
            heapq.heappush(self._heaps.setdefault(location, []), rank)
            self._heap_size += 1

    def _rank(self, name: str, location: str) -> Rank | None:
        """Returns the current rank; None if it does not fit or is in another location."""
        static, worker_info = self.feasible.static_points_by_worker.get(name), self._cache.workers_by_name.get(name)
        worker = worker_info.candidate if worker_info is not None else None
        if static is None or worker_info is None or worker is None or worker.location != location:
            return None
        requirements, usage = self.feasible.requirements, worker_info.usage
        if not has_capacity(requirements, worker, usage):
            return None
        return -static - dynamic_points(requirements, worker, usage, self._spread_counts.workers.get(name, 0)), name

    @property
    def _spread_counts(self) -> SpreadCounts:
        return self._cache.spread_counts.get(self._spread_group) or NO_SPREAD

    def best_worker(self, last_worker: str) -> str:
        self._catch_up()
        best_rank = self._last_worker_rank(last_worker)
        for location, heap in self._heaps.items():
            top = self._refreshed_top(location, heap)
            if top is not None:
                rank = self._with_location_points(top, location)
                best_rank = rank if best_rank is None else min(best_rank, rank)
        return best_rank[1] if best_rank is not None else ""

    def _catch_up(self) -> None:
        change_log = self._cache.change_log
        self.feasible.catch_up()
        if self._heap_size > 4 * len(self._cache.workers_by_name) + 64:
            self._rebuild()
        elif self._log_position < len(change_log):
            for name in dict.fromkeys(name for name, _ in change_log[self._log_position :]):
                self._push(name)
            self._log_position = len(change_log)

    def _refreshed_top(self, location: str, heap: list[Rank]) -> Rank | None:
        while heap:
            current = self._rank(heap[0][1], location)
            if current is None:
                heapq.heappop(heap)
                self._heap_size -= 1
            elif current > heap[0]:
                heapq.heapreplace(heap, current)
            else:
                return current
        return None

    def _with_location_points(self, rank: Rank, location: str) -> Rank:
        spread = self._spread_counts
        return rank[0] - weighted_points(LOCATIONS, location_score(spread.locations[location], spread.total)), rank[1]

    def _last_worker_rank(self, last_worker: str) -> Rank | None:
        worker_info = self._cache.workers_by_name.get(last_worker) if last_worker else None
        rank = self._rank(last_worker, worker_info.location) if worker_info is not None else None
        if rank is None or worker_info is None:
            return None
        with_location = self._with_location_points(rank, worker_info.location)
        return with_location[0] - weighted_points(STICKINESS, 1.0), with_location[1]
