"""The scheduler's cache of assignments and free capacity, derived from observed objects, never counted separately.

Each ManagedCluster counts once, on the Worker in its status or on the one the scheduler has assumed for a while. A
ManagedCluster that is being migrated counts on both Workers. An event that is seen twice, late or not at all leaks no
slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shoal.client.reflector import Key
from shoal.fleet.scheduler.candidate import Candidate, SpreadCounts, WorkerUsage, candidate_of, spread_group_of
from shoal.fleet.scheduler.decide import Unschedulable
from shoal.fleet.scheduler.requirements import ClusterRequirements, RequirementsCache
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

ASSUME_TIMEOUT_SECONDS = 30.0
"""How long a binding is assumed while neither the API nor the watch confirms it."""
MAX_LOG_ENTRIES = 10_000


@dataclass(slots=True, eq=False)
class ClusterInfo:
    """What the scheduler knows about a ManagedCluster."""

    key: Key
    obj: Object | None
    """The object, kept only while it is not bound: bound ones are many, and the scheduler writes nothing to them."""
    revision: int
    requirements: ClusterRequirements
    spread_group: str
    order: tuple[str, Key]
    """Scheduling order: creation time, then key."""
    last_worker: str = ""
    """The Worker it was on before."""
    bound_worker: str = ""
    assumed_worker: str = ""
    reserved_worker: str = ""
    """The Worker it is being migrated to, or is about to be."""
    counted_on: tuple[str, ...] = ()
    """The Workers it is counted on."""
    deleting: bool = False
    reported: Unschedulable | None = None
    """The last reason that was reported in its status."""

    @property
    def is_unscheduled(self) -> bool:
        return not (self.bound_worker or self.assumed_worker or self.deleting)


@dataclass(slots=True)
class WorkerInfo:
    """A Worker by name. It may not exist while ManagedClusters still name it."""

    candidate: Candidate | None = None
    usage: WorkerUsage = field(default_factory=WorkerUsage)
    cluster_keys: set[Key] = field(default_factory=set)

    @property
    def location(self) -> str:
        return self.candidate.location if self.candidate is not None else ""


class SchedulerCache:
    def __init__(self) -> None:
        self.clusters: dict[Key, ClusterInfo] = {}
        self.workers_by_name: dict[str, WorkerInfo] = {}
        """By name. Worker names are unique on a hub; only Workers that joined count."""
        self.spread_counts: dict[str, SpreadCounts] = {}
        self.assumed_until: dict[ClusterInfo, float] = {}
        """Bindings in flight, oldest first, with the time until which they count."""
        self.lowest_cost = 0.0
        self.change_log: list[tuple[str, bool]] = []
        """Workers that may fit better than before, in order, and whether the Worker itself has changed."""
        self.log_generation = 0
        """Incremented every time the log is reset."""
        self.fit_version = 0
        """Incremented by every change that could change a fit error."""
        self._requirements = RequirementsCache()

    def observe_managed_cluster(self, key: Key, obj: Object | None) -> ClusterInfo | None:
        """Updates the cache from an object and returns its entry. A state older than the cached one is ignored: the
        scheduler knows its own write before the watch delivers it.
        """
        info = self.clusters.get(key)
        if obj is None:
            if info is not None:
                self._remove(info)
            return None
        revision = int(obj["metadata"]["resourceVersion"])
        if info is None:
            created = str(obj["metadata"].get("creationTimestamp", ""))
            info = ClusterInfo(key, obj, 0, self._requirements.of(obj), spread_group_of(obj), (created, key))
            self.clusters[key] = info
        elif info.revision > revision:
            return info
        assigned = infrav1.assigned_worker(obj)
        info.revision, info.deleting = revision, infrav1.is_deleting(obj)
        info.obj = None if assigned else obj
        info.last_worker = str(infrav1.status_of(obj).get("lastWorker") or "")
        info.reserved_worker = infrav1.migration_target(obj)
        if assigned:
            info.bound_worker = assigned
            self.forget_assumption(info)
        elif info.bound_worker:
            info.bound_worker = ""
        if info.deleting:
            self.forget_assumption(info)
        self._recount(info, self._requirements.of(obj), spread_group_of(obj))
        return info

    def confirm_binding(self, info: ClusterInfo, worker: str, revision: int) -> None:
        """Records a binding that the API has confirmed before the watch did."""
        self.assumed_until.pop(info, None)
        info.assumed_worker = ""
        if self.clusters.get(info.key) is not info:
            return  # Deleted meanwhile.
        if revision > info.revision:
            info.bound_worker, info.last_worker, info.obj, info.revision = worker, worker, None, revision
        self._recount(info, info.requirements, info.spread_group)

    def assume(self, info: ClusterInfo, worker: str, now: float) -> None:
        info.assumed_worker = worker
        self.assumed_until[info] = now + ASSUME_TIMEOUT_SECONDS
        self._recount(info, info.requirements, info.spread_group)

    def reserve(self, info: ClusterInfo, worker: str) -> None:
        """Reserves capacity for a migration; an empty worker releases it. The next object state overrides the
        reservation.
        """
        info.reserved_worker = worker
        self._recount(info, info.requirements, info.spread_group)

    def forget_assumption(self, info: ClusterInfo) -> None:
        """Drops the assumption: the binding failed, or the object already shows it."""
        self.assumed_until.pop(info, None)
        info.assumed_worker = ""
        self._recount(info, info.requirements, info.spread_group)

    def expire_assumptions(self, now: float) -> list[ClusterInfo]:
        """Drops assumptions that were not confirmed in time and returns their entries."""
        expired: list[ClusterInfo] = []
        while self.assumed_until and next(iter(self.assumed_until.values())) <= now:
            info = next(iter(self.assumed_until))
            self.forget_assumption(info)
            expired.append(info)
        return expired

    def _remove(self, info: ClusterInfo) -> None:
        del self.clusters[info.key]
        info.bound_worker, info.reserved_worker, info.obj = "", "", None
        self.forget_assumption(info)

    def _recount(self, info: ClusterInfo, requirements: ClusterRequirements, spread_group: str) -> None:
        holder = info.bound_worker or info.assumed_worker
        counted_on = (
            (holder, info.reserved_worker)
            if holder and info.reserved_worker not in ("", holder)
            else (holder,)
            if holder
            else ()
        )
        if (info.counted_on, info.requirements, info.spread_group) == (counted_on, requirements, spread_group):
            return
        for name in info.counted_on:
            self._add_usage(info, name, -1)
            self._log_capacity_gain(name, False)
        info.counted_on, info.requirements, info.spread_group = counted_on, requirements, spread_group
        for name in counted_on:
            self._add_usage(info, name, 1)
            self.fit_version += 1

    def _add_usage(self, info: ClusterInfo, worker: str, number: int) -> None:
        worker_info = self.workers_by_name.get(worker)
        if worker_info is None:
            worker_info = self.workers_by_name[worker] = WorkerInfo()
        usage = worker_info.usage
        usage.clusters += number
        for name, amount in info.requirements.requests.items():
            usage.amounts[name] += number * amount
        (worker_info.cluster_keys.add if number > 0 else worker_info.cluster_keys.discard)(info.key)
        spread = self.spread_counts.get(info.spread_group)
        if spread is None:
            spread = self.spread_counts[info.spread_group] = SpreadCounts()
        spread.add(worker, worker_info.location, number)
        if not spread.total:
            del self.spread_counts[info.spread_group]
        if worker_info.candidate is None and not worker_info.cluster_keys:
            del self.workers_by_name[worker]

    def _log_capacity_gain(self, worker: str, worker_changed: bool) -> None:
        self.fit_version += 1
        self.change_log.append((worker, worker_changed))
        if len(self.change_log) > MAX_LOG_ENTRIES:
            self.reset_log()

    def reset_log(self) -> None:
        """Resets the log. Everything derived from it must be recomputed."""
        self.change_log = []
        self.log_generation += 1

    def observe_worker(self, key: Key, obj: Object | None) -> bool:
        """Updates the cache from a Worker. Returns True if anything that scheduling uses has changed."""
        if key[1] != infrav1.NAMESPACE:
            return False
        name, current = key[2], candidate_of(obj) if obj is not None else None
        worker_info = self.workers_by_name.get(name) or WorkerInfo()
        previous = worker_info.candidate
        if current == previous:
            return False
        groups = [self.clusters[each].spread_group for each in worker_info.cluster_keys]
        for group in groups:
            self.spread_counts[group].add(name, worker_info.location, -1)
        worker_info.candidate = current
        for group in groups:
            self.spread_counts[group].add(name, worker_info.location, 1)
        if current is not None or worker_info.cluster_keys:
            self.workers_by_name[name] = worker_info
        else:
            del self.workers_by_name[name]
        self._log_capacity_gain(name, True)
        if (previous.cost if previous is not None else 0.0) != (current.cost if current is not None else 0.0):
            self._update_lowest_cost()
        return True

    def _update_lowest_cost(self) -> None:
        lowest = min((each.cost for each, _ in self.candidates() if each.cost > 0), default=0.0)
        if lowest != self.lowest_cost:
            self.lowest_cost = lowest
            self.reset_log()

    def candidates(self) -> Iterator[tuple[Candidate, WorkerUsage]]:
        for worker_info in self.workers_by_name.values():
            if worker_info.candidate is not None:
                yield worker_info.candidate, worker_info.usage

    def usage_of(self, worker: str) -> WorkerUsage:
        worker_info = self.workers_by_name.get(worker)
        return worker_info.usage if worker_info is not None else WorkerUsage()
