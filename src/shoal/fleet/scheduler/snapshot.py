"""A snapshot of the whole fleet, computed from its objects alone. Pure.

`shoal explain` uses it. The cache that the running scheduler updates from event to event always equals it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.fleet.scheduler.candidate import Candidate, SpreadCounts, WorkerUsage, candidate_of, spread_group_of
from shoal.fleet.scheduler.requirements import node_requests, requirements_of
from shoal.fleet.scheduler.scores import ScoringContext
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


@dataclass(slots=True)
class FleetSnapshot:
    candidates: dict[str, Candidate]
    usage: dict[str, WorkerUsage] = field(default_factory=dict)
    spread_counts: dict[str, SpreadCounts] = field(default_factory=dict)

    def candidates_with_usage(self) -> list[tuple[Candidate, WorkerUsage]]:
        return [(worker, self.usage_of(name)) for name, worker in self.candidates.items()]

    def usage_of(self, worker: str) -> WorkerUsage:
        return self.usage.get(worker) or WorkerUsage()

    def scoring_context(self, managed: Object) -> ScoringContext:
        return ScoringContext(
            requirements=requirements_of(managed),
            spread=self.spread_counts.get(spread_group_of(managed)) or SpreadCounts(),
            last_worker=str(infrav1.status_of(managed).get("lastWorker") or ""),
            lowest_cost=min((each.cost for each in self.candidates.values() if each.cost > 0), default=0.0),
        )


def take_snapshot(workers: Iterable[Object], managed: Iterable[Object]) -> FleetSnapshot:
    """Builds the snapshot. `managed` are the ManagedClusters that use capacity, without the one to be scheduled."""
    joined = (worker for worker in workers if worker["metadata"].get("namespace") == infrav1.NAMESPACE)
    result = FleetSnapshot({worker["metadata"]["name"]: candidate_of(worker) for worker in joined})
    for each in managed:
        holder, target = infrav1.assigned_worker(each), infrav1.migration_target(each)
        if not holder:
            continue
        for worker_name in dict.fromkeys((holder, target or holder)):
            usage = result.usage.setdefault(worker_name, WorkerUsage())
            usage.clusters += 1
            usage.amounts.update(node_requests(each))
            location = result.candidates[worker_name].location if worker_name in result.candidates else ""
            result.spread_counts.setdefault(spread_group_of(each), SpreadCounts()).add(worker_name, location, 1)
    return result
