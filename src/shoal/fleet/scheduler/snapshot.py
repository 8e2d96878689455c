"""A snapshot of the whole fleet, computed from its objects alone. Pure.

`shoal explain` uses it. The cache that the running scheduler updates from event to event always equals it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.fleet.scheduler.candidate import Candidate, Company, Usage, candidate, group_of
from shoal.fleet.scheduler.demand import demand, need
from shoal.fleet.scheduler.scores import View
from shoal.kinds import fleet

Object = dict[str, Any]


@dataclass(slots=True)
class Snapshot:
    candidates: dict[str, Candidate]
    usage: dict[str, Usage] = field(default_factory=dict)
    companies: dict[str, Company] = field(default_factory=dict)

    def workers(self) -> list[tuple[Candidate, Usage]]:
        return [(worker, self.used(name)) for name, worker in self.candidates.items()]

    def used(self, worker: str) -> Usage:
        return self.usage.get(worker) or Usage()

    def view(self, managed: Object) -> View:
        return View(
            asked=demand(managed),
            company=self.companies.get(group_of(managed)) or Company(),
            last=str(fleet.status_of(managed).get("lastWorker") or ""),
            cheapest=min((each.cost for each in self.candidates.values() if each.cost > 0), default=0.0),
        )


def snapshot(workers: Iterable[Object], managed: Iterable[Object]) -> Snapshot:
    """Builds the snapshot. `managed` are the ManagedClusters that use capacity, without the one to be scheduled."""
    joined = (worker for worker in workers if worker["metadata"].get("namespace") == fleet.NAMESPACE)
    found = Snapshot({worker["metadata"]["name"]: candidate(worker) for worker in joined})
    for each in managed:
        here, coming = fleet.assigned_worker(each), fleet.moving_to(each)
        if not here:
            continue
        for where in dict.fromkeys((here, coming or here)):
            used = found.usage.setdefault(where, Usage())
            used.clusters += 1
            used.amounts.update(need(each))
            location = found.candidates[where].location if where in found.candidates else ""
            found.companies.setdefault(group_of(each), Company()).add(where, location, 1)
    return found
