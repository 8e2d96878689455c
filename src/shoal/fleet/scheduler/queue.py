"""The scheduling queue: one RequirementQueue per distinct requirements, oldest first.

A RequirementQueue is active until its head fits no Worker. Then the whole queue is blocked, whatever its length, until
a change lets the head fit. Freed capacity is only checked for queues that capacity alone blocks. A changed Worker is
checked for all queues. Each queue is checked once per change.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from shoal.client.reflector import Key
from shoal.fleet.scheduler.cache import ClusterInfo, SchedulerCache
from shoal.fleet.scheduler.candidate import Candidate, WorkerUsage
from shoal.fleet.scheduler.decide import Unschedulable, fits
from shoal.fleet.scheduler.filters import filter_capacity, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements

ArrivalOrder = tuple[str, Key]


@dataclass(slots=True, eq=False)
class RequirementQueue:
    requirements: ClusterRequirements
    members: dict[Key, ClusterInfo] = field(default_factory=dict)
    heap: list[tuple[ArrivalOrder, int, ClusterInfo]] = field(default_factory=list)
    """A heap. It may contain entries that have left the queue."""
    is_blocked: bool = False
    unschedulable: Unschedulable | None = None
    """Why no Worker fits, as of `cache_version`."""
    cache_version: int = -1

    def head(self) -> ClusterInfo | None:
        while self.heap and self.members.get(self.heap[0][2].key) is not self.heap[0][2]:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None


class SchedulingQueue:
    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._queues: dict[ClusterRequirements, RequirementQueue] = {}
        self._queue_by_key: dict[Key, RequirementQueue] = {}
        self._active: list[tuple[ArrivalOrder, int, RequirementQueue]] = []
        """A heap of active queues by their heads. It may contain queues that are blocked, or whose head has left."""
        self._blocked_by_capacity: set[RequirementQueue] = set()
        self._blocked_by_filters: set[RequirementQueue] = set()
        """Blocked queues. In the first set some Worker passes the filters and only lacks capacity; in the second none
        passes.
        """
        self._tiebreakers = count()
        self._log_position = 0
        self._log_generation = cache.log_generation

    def queue_of(self, key: Key) -> RequirementQueue | None:
        return self._queue_by_key.get(key)

    @property
    def has_blocked(self) -> bool:
        return bool(self._blocked_by_capacity or self._blocked_by_filters)

    def blocked_queues(self) -> Iterator[RequirementQueue]:
        yield from list(self._blocked_by_capacity)
        yield from list(self._blocked_by_filters)

    def add(self, info: ClusterInfo) -> RequirementQueue:
        requirement_queue = self._queue_by_key.get(info.key)
        if (
            requirement_queue is not None
            and requirement_queue.requirements is info.requirements
            and requirement_queue.members[info.key] is info
        ):
            return requirement_queue
        self.remove(info.key)
        requirement_queue = self._queues.get(info.requirements)
        if requirement_queue is None:
            requirement_queue = self._queues[info.requirements] = RequirementQueue(info.requirements)
        self._queue_by_key[info.key] = requirement_queue
        requirement_queue.members[info.key] = info
        heapq.heappush(requirement_queue.heap, (info.order, next(self._tiebreakers), info))
        if not requirement_queue.is_blocked and requirement_queue.head() is info:
            self._activate(requirement_queue)
        return requirement_queue

    def remove(self, key: Key) -> None:
        requirement_queue = self._queue_by_key.pop(key, None)
        if requirement_queue is None:
            return
        del requirement_queue.members[key]
        if not requirement_queue.members:
            del self._queues[requirement_queue.requirements]
            self._blocked_by_capacity.discard(requirement_queue)
            self._blocked_by_filters.discard(requirement_queue)
            requirement_queue.is_blocked = True

    def _activate(self, requirement_queue: RequirementQueue) -> None:
        head = requirement_queue.head()
        if head is not None:
            heapq.heappush(self._active, (head.order, next(self._tiebreakers), requirement_queue))

    def pop_head(self) -> ClusterInfo | None:
        """Returns the next entry to schedule. The caller must either `remove` it or `block` its queue."""
        self._process_log()
        while self._active:
            order, _, requirement_queue = self._active[0]
            head = requirement_queue.head() if not requirement_queue.is_blocked else None
            if head is None:
                heapq.heappop(self._active)
            elif head.order != order:
                heapq.heapreplace(self._active, (head.order, next(self._tiebreakers), requirement_queue))
            else:
                return head
        return None

    def block(self, info: ClusterInfo) -> None:
        """Blocks the queue of that entry: no Worker fits it, nor those behind it."""
        requirement_queue = self._queue_by_key[info.key]
        requirement_queue.is_blocked = True
        passes = any(passes_filters(requirement_queue.requirements, worker) for worker, _ in self._cache.candidates())
        (self._blocked_by_capacity if passes else self._blocked_by_filters).add(requirement_queue)

    def _process_log(self) -> None:
        change_log = self._cache.change_log
        if self._log_generation != self._cache.log_generation:
            self._log_generation, self._log_position = self._cache.log_generation, len(change_log)
            self._unblock(list(self._cache.candidates()), worker_changed=True)
        elif self._log_position < len(change_log):
            entries = change_log[self._log_position :]
            self._log_position = len(change_log)
            self._unblock(
                self._candidates_by_name(name for name, worker_changed in entries if not worker_changed),
                worker_changed=False,
            )
            self._unblock(
                self._candidates_by_name(name for name, worker_changed in entries if worker_changed),
                worker_changed=True,
            )

    def _candidates_by_name(self, names: Iterable[str]) -> list[tuple[Candidate, WorkerUsage]]:
        infos = (self._cache.workers_by_name.get(name) for name in dict.fromkeys(names))
        return [(place.candidate, place.usage) for place in infos if place is not None and place.candidate is not None]

    def _unblock(self, workers: list[tuple[Candidate, WorkerUsage]], worker_changed: bool) -> None:
        if not workers:
            return
        for requirement_queue in list(self._blocked_by_capacity):
            if any(fits(requirement_queue.requirements, worker, usage) for worker, usage in workers):
                self._blocked_by_capacity.discard(requirement_queue)
                self._reactivate(requirement_queue)
        for requirement_queue in list(self._blocked_by_filters) if worker_changed else ():
            passing = [
                (worker, usage) for worker, usage in workers if passes_filters(requirement_queue.requirements, worker)
            ]
            if passing:
                self._blocked_by_filters.discard(requirement_queue)
                self._blocked_by_capacity.add(requirement_queue)
            if any(filter_capacity(requirement_queue.requirements, worker, usage) is None for worker, usage in passing):
                self._blocked_by_capacity.discard(requirement_queue)
                self._reactivate(requirement_queue)

    def _reactivate(self, requirement_queue: RequirementQueue) -> None:
        requirement_queue.is_blocked = False
        self._activate(requirement_queue)


def passes_filters(requirements: ClusterRequirements, worker: Candidate) -> bool:
    """Returns True if the Worker fits apart from its current usage."""
    return not requirements.selector_error and run_filters(requirements, worker) is None
