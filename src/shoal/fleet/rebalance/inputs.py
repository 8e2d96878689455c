"""Inputs of the rebalancer: the scheduler's filters, and no target that a cluster prefers less than its current Worker.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from shoal.fleet.migration.decide import infrastructure_obstacle
from shoal.fleet.rebalance.decide import MovableCluster, WorkerLoad
from shoal.fleet.scheduler.candidate import Candidate, WorkerUsage
from shoal.fleet.scheduler.filters import insufficient_resource, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements, RequirementsCache
from shoal.fleet.scheduler.scores import preference_score, taint_score
from shoal.kinds.fleet import infrav1
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


def namespaced_name(managed: Object) -> str:
    return f"{managed['metadata'].get('namespace', '')}/{managed['metadata']['name']}"


def is_eligible(worker: Candidate) -> bool:
    return worker.is_ready and not worker.is_deleting and not worker.is_cordoned and worker.capacity > 0


def worker_loads(workers: Iterable[tuple[Candidate, WorkerUsage]], managed: Iterable[Object]) -> list[WorkerLoad]:
    """Returns the load of each Worker. A ManagedCluster that is being migrated counts on its target."""
    counts = {worker.name: 0 for worker, _ in workers if is_eligible(worker)}
    capacity = {worker.name: worker.capacity for worker, _ in workers}
    for each in managed:
        worker_name = infrav1.migration_target(each) or infrav1.assigned_worker(each)
        if worker_name in counts:
            counts[worker_name] += 1
    return [WorkerLoad(name, capacity[name], used) for name, used in sorted(counts.items())]


def movable_clusters(
    workers: Iterable[tuple[Candidate, WorkerUsage]], managed: Iterable[Object], cooldown: float, now: float
) -> list[MovableCluster]:
    """Returns the ManagedClusters that may be moved: they run, are not being migrated, and were not moved recently."""
    eligible = {worker.name: (worker, used) for worker, used in workers if is_eligible(worker)}
    demands, targets_by_requirements = RequirementsCache(), dict[tuple[ClusterRequirements, str], frozenset[str]]()
    movable = []
    for each in managed:
        worker_name = infrav1.assigned_worker(each)
        if worker_name not in eligible or not _is_movable(each, cooldown, now):
            continue
        requirements = demands.of(each)
        allowed = targets_by_requirements.get((requirements, worker_name))
        if allowed is None:
            allowed = targets_by_requirements[requirements, worker_name] = _allowed_targets(
                requirements, eligible[worker_name][0], eligible.values()
            )
        movable.append(MovableCluster(namespaced_name(each), worker_name, allowed))
    return movable


def _is_movable(managed: Object, cooldown: float, now: float) -> bool:
    if (
        infrav1.is_deleting(managed)
        or infrav1.migration_target(managed)
        or infrastructure_obstacle(managed) is not None
    ):
        return False
    last_move = infrav1.status_of(managed).get("lastMove") or {}
    moved_at = datetime.fromisoformat(last_move["time"]).timestamp() if last_move else None
    return condition_is(managed, infrav1.READY) and (moved_at is None or now - moved_at >= cooldown)


def _allowed_targets(
    requirements: ClusterRequirements, current: Candidate, workers: Iterable[tuple[Candidate, WorkerUsage]]
) -> frozenset[str]:
    return frozenset(
        worker.name
        for worker, used in workers
        if not requirements.selector_error
        and run_filters(requirements, worker) is None
        and not insufficient_resource(requirements, worker, used)
        and preference_score(requirements, worker) >= preference_score(requirements, current)
        and taint_score(requirements, worker) >= taint_score(requirements, current)
    )
