"""Capacity reservations on target Workers for migrations: the scheduler's filters and the scheduler's cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.fleet.scheduler.cache import ClusterInfo, SchedulerCache
from shoal.fleet.scheduler.candidate import Candidate, SpreadCounts, WorkerUsage
from shoal.fleet.scheduler.decide import UNSCHEDULABLE, Unschedulable, select_worker
from shoal.fleet.scheduler.filters import filter_capacity, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements
from shoal.fleet.scheduler.scores import ScoringContext

Object = dict[str, Any]


class Reservations:
    def __init__(self, cache: SchedulerCache, observe_write: Callable[[Key, Object | None], None]) -> None:
        self._cache = cache
        self.observe_write = observe_write
        """Passes a written object to the scheduler before the watch delivers it."""

    def find_other_worker(self, key: Key, can_restore: Callable[[str], bool]) -> str | Unschedulable:
        """Returns the Worker that would be selected if its current one did not exist. `can_restore` says which Workers
        can take over a cluster.
        """
        info = self._cache.clusters.get(key)
        if info is None:
            return Unschedulable(UNSCHEDULABLE, "the ManagedCluster is not in the scheduler cache yet")
        others = [each for each in self._cache.candidates() if each[0].name not in info.counted_on]
        if others and not any(can_restore(worker.name) for worker, _ in others):
            return Unschedulable("WorkersCannotRestore", "no other worker supports taking over a cluster")
        others = [each for each in others if can_restore(each[0].name)]
        context = ScoringContext(info.requirements, self._spread_counts_without(info), "", self._cache.lowest_cost)
        return select_worker(context, others)

    def _spread_counts_without(self, info: ClusterInfo) -> SpreadCounts:
        """Returns the spread counts of its group without the ManagedCluster itself."""
        counts = self._cache.spread_counts.get(info.spread_group) or SpreadCounts()
        others = SpreadCounts(Counter(counts.workers), Counter(counts.locations), counts.total)
        for name in info.counted_on:
            others.add(name, self._cache.workers_by_name[name].location, -1)
        return others

    def unfit_reason(self, key: Key, worker: str) -> str:
        """Returns why that Worker, on which capacity is reserved already, cannot host it after all; empty if it can."""
        info, worker_info = self._cache.clusters.get(key), self._cache.workers_by_name.get(worker)
        if info is None or worker_info is None or worker_info.candidate is None:
            return "worker not found"
        failure = run_filters(info.requirements, worker_info.candidate)
        return f"it {failure.singular}" if failure is not None else ""

    def has_room(self, key: Key, worker: str) -> bool:
        info, worker_info = self._cache.clusters.get(key), self._cache.workers_by_name.get(worker)
        if info is None or worker_info is None or worker_info.candidate is None:
            return False
        passes = not info.requirements.selector_error and run_filters(info.requirements, worker_info.candidate) is None
        return passes and filter_capacity(info.requirements, worker_info.candidate, worker_info.usage) is None

    def reserve(self, key: Key, worker: str) -> None:
        """Reserves capacity at once, until the object shows it or `release` is called."""
        info = self._cache.clusters.get(key)
        if info is not None:
            self._cache.reserve(info, worker)

    def release(self, key: Key) -> None:
        self.reserve(key, "")

    def candidates(self) -> list[tuple[Candidate, WorkerUsage]]:
        return list(self._cache.candidates())

    def requirements_of(self, key: Key) -> ClusterRequirements | None:
        info = self._cache.clusters.get(key)
        return info.requirements if info is not None else None
