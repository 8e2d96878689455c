"""Inputs of the rebalancer: the scheduler's filters, and no target that a cluster prefers less than its current Worker.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from shoal.fleet.moving.decide import fixed
from shoal.fleet.rebalance.decide import Item, Place
from shoal.fleet.scheduler.candidate import Candidate, Usage
from shoal.fleet.scheduler.demand import Demand, Demands
from shoal.fleet.scheduler.filters import refusal, scarce
from shoal.fleet.scheduler.scores import preference, taints
from shoal.kinds import fleet
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


def title(managed: Object) -> str:
    return f"{managed['metadata'].get('namespace', '')}/{managed['metadata']['name']}"


def takes_part(worker: Candidate) -> bool:
    return worker.ready and not worker.leaving and not worker.cordoned and worker.capacity > 0


def places(workers: Iterable[tuple[Candidate, Usage]], managed: Iterable[Object]) -> list[Place]:
    """Returns the load of each Worker. A ManagedCluster that is being migrated counts on its target."""
    there = {worker.name: 0 for worker, _ in workers if takes_part(worker)}
    capacity = {worker.name: worker.capacity for worker, _ in workers}
    for each in managed:
        where = fleet.moving_to(each) or fleet.assigned_worker(each)
        if where in there:
            there[where] += 1
    return [Place(name, capacity[name], taken) for name, taken in sorted(there.items())]


def items(workers: Iterable[tuple[Candidate, Usage]], managed: Iterable[Object], rest: float, now: float) -> list[Item]:
    """Returns the ManagedClusters that may be moved: they run, are not being migrated, and were not moved recently."""
    there = {worker.name: (worker, used) for worker, used in workers if takes_part(worker)}
    demands, known = Demands(), dict[tuple[Demand, str], frozenset[str]]()
    found = []
    for each in managed:
        where = fleet.assigned_worker(each)
        if where not in there or not _may_move(each, rest, now):
            continue
        asked = demands.of(each)
        allowed = known.get((asked, where))
        if allowed is None:
            allowed = known[asked, where] = _allowed(asked, there[where][0], there.values())
        found.append(Item(title(each), where, allowed))
    return found


def _may_move(managed: Object, rest: float, now: float) -> bool:
    if fleet.is_deleting(managed) or fleet.moving_to(managed) or fixed(managed) is not None:
        return False
    last = fleet.status_of(managed).get("lastMove") or {}
    moved = datetime.fromisoformat(last["time"]).timestamp() if last else None
    return condition_is(managed, fleet.READY) and (moved is None or now - moved >= rest)


def _allowed(asked: Demand, here: Candidate, workers: Iterable[tuple[Candidate, Usage]]) -> frozenset[str]:
    return frozenset(
        worker.name
        for worker, used in workers
        if not asked.wrong
        and refusal(asked, worker) is None
        and not scarce(asked, worker, used)
        and preference(asked, worker) >= preference(asked, here)
        and taints(asked, worker) >= taints(asked, here)
    )
