"""Decides which clusters have to leave a Worker, which may go now, and builds the Worker's conditions. Pure.

A drain migrates all of its ManagedClusters, a NoExecute taint those that do not tolerate it; the worker itself sends
them. From a lost Worker those are migrated whose policy says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.taints import NO_EXECUTE, tolerates
from shoal.fleet.health.decide import NEVER_HEARD, WORKER_MISSING
from shoal.fleet.migration.decide import DRAIN, TAINT, MigrationObstacle
from shoal.kinds.fleet import infrav1
from shoal.objects.conditions import get_condition, remove_condition, set_condition

Object = dict[str, Any]

DRAINED, EVACUATED = "Drained", "Evacuated"
EVACUATION_APPROVED = "shoal.dev/move-lost"
SILENT_WORKERS = "workers are lost at the same time: nothing is moved."
"""Part of a condition message. EVACUATION_APPROVED is the annotation of a lost Worker whose ManagedClusters may be
migrated although too many Workers are lost at once.
"""
MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class EvictionDue:
    """Why a cluster has to leave its Worker. `requeue_after`: it will have to in that many seconds."""

    reason: str = ""
    requeue_after: float | None = None


def no_execute_taints(worker: Object) -> dict[str, Object]:
    """Returns the NoExecute taints by their text."""
    no_execute = [each for each in infrav1.spec_of(worker).get("taints") or () if each.get("effect") == NO_EXECUTE]
    return {f"{each['key']}={each.get('value') or ''}": each for each in no_execute}


def eviction_due(managed: Object, worker: Object, tainted_since: Mapping[str, float], now: float) -> EvictionDue:
    """`tainted_since`: when each taint was first seen, on the same monotonic clock as `now`."""
    if infrav1.is_deleting(managed):
        return EvictionDue()
    if infrav1.spec_of(worker).get("drain"):
        return EvictionDue(DRAIN)
    deadlines = [
        tainted_since.get(text, now) + seconds
        for text, taint in no_execute_taints(worker).items()
        if (seconds := _toleration_seconds(taint, infrav1.spec_of(managed).get("tolerations") or ())) is not None
    ]
    if not deadlines:
        return EvictionDue()
    remaining = min(deadlines) - now
    return EvictionDue(TAINT) if remaining <= 0 else EvictionDue(requeue_after=remaining)


def _toleration_seconds(taint: Object, tolerations: Iterable[Object]) -> float | None:
    """Returns seconds; None: forever. As for pods, the shortest matching toleration counts."""
    matching = [each for each in tolerations if tolerates(each, taint)]
    if not matching:
        return 0.0
    limits = [float(each["tolerationSeconds"]) for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, min(limits)) if limits else None


def drain_budget(worker: Object) -> int:
    return max(1, int(infrav1.spec_of(worker).get("drainBudget") or 1))


@dataclass(slots=True)
class EvictionProgress:
    """Progress of a drain or an evacuation."""

    remaining: int = 0
    """Clusters that have to leave and are still assigned to it."""
    sending: int = 0
    restoring: int = 0
    """Reassigned and not ready on the new Worker yet."""
    obstacles: dict[str, MigrationObstacle] = field(default_factory=dict)
    """By ManagedCluster."""


def drained_status(worker: Object, progress: EvictionProgress | None, now: str) -> Object | None:
    """Returns the status with the Drained condition; None if it is current. Without progress no cluster has to
    leave.
    """
    return _progress_status(worker, DRAINED, progress, "Draining", "no ManagedCluster left to evict", now)


def evacuated_status(
    worker: Object, progress: EvictionProgress | None, block: MigrationObstacle | None, now: str
) -> Object | None:
    """Returns the status with the Evacuated condition of a lost Worker; None if it is current."""
    if block is not None:
        updated = _with_condition(worker, EVACUATED, "False", block.reason, block.message, now)
        return None if updated is worker else infrav1.status_of(updated)
    return _progress_status(worker, EVACUATED, progress, "Moving", "no ManagedCluster left to move", now)


def _progress_status(
    worker: Object, type_: str, progress: EvictionProgress | None, in_progress_reason: str, done_message: str, now: str
) -> Object | None:
    if progress is None:
        updated = remove_condition(worker, type_)
    elif not (progress.remaining or progress.restoring):
        updated = _with_condition(worker, type_, "True", type_, done_message, now)
    else:
        is_stuck = bool(progress.obstacles) and not (progress.sending or progress.restoring)
        updated = _with_condition(
            worker, type_, "False", "Stuck" if is_stuck else in_progress_reason, _progress_message(progress), now
        )
    return None if updated is worker else infrav1.status_of(updated)


def _progress_message(progress: EvictionProgress) -> str:
    parts = [f"{_count_text(progress.remaining)} left"]
    if progress.sending:
        parts.append(f"{progress.sending} being transferred")
    if progress.restoring:
        parts.append(f"{progress.restoring} moved but not ready yet")
    obstacles = sorted(progress.obstacles.items())
    parts += [f"{name} waits: {obstacle.message}" for name, obstacle in obstacles[:MAX_NAMED]]
    if len(obstacles) > MAX_NAMED:
        parts.append(f"{len(obstacles) - MAX_NAMED} more wait")
    return "; ".join(parts)


def _count_text(count: int) -> str:
    return "1 ManagedCluster is" if count == 1 else f"{count} ManagedClusters are"


def _with_condition(worker: Object, type_: str, status: str, reason: str, message: str, now: str) -> Object:
    generation = worker["metadata"].get("generation")
    return set_condition(worker, type_, status, reason=reason, message=message, observed_generation=generation, now=now)


def is_lost(worker: Object) -> bool:
    """True for a Worker that was heard once and is silent, also if it is being deleted."""
    ready = get_condition(worker, infrav1.READY) or {}
    return ready.get("status") == "Unknown" and ready.get("reason") != NEVER_HEARD


def missing_worker(name: str) -> Object:
    """Returns a stand-in for a Worker that does not exist, as if it were silent."""
    silent = {"type": infrav1.READY, "status": "Unknown", "reason": WORKER_MISSING}
    return {"metadata": {"name": name}, "status": {"conditions": [silent]}}


def too_many_lost(worker: Object, lost: int, total: int, max_share: float) -> MigrationObstacle | None:
    """Blocks the evacuation when too many Workers are silent at once, unless somebody has approved it for this
    Worker.
    """
    if lost <= max_share * total or is_evacuation_approved(worker):
        return None
    message = f"{lost} of {total} {SILENT_WORKERS} If worker"
    message = f"{message} {worker['metadata']['name']} is gone for good, annotate it with {EVACUATION_APPROVED}=true"
    return MigrationObstacle("TooManyWorkersLost", message)


def without_counts(block: MigrationObstacle) -> MigrationObstacle:
    """Removes the counts from the message for its clusters, so that it does not change with every other Worker that
    becomes silent.
    """
    _, separator, rest = block.message.partition(SILENT_WORKERS)
    return replace(block, message=f"too many {separator}{rest}") if separator else block


def is_evacuation_approved(worker: Object) -> bool:
    return (worker["metadata"].get("annotations") or {}).get(EVACUATION_APPROVED) == "true"


def sort_by_name(clusters: Sequence[Object]) -> list[Object]:
    """Sorts by namespace and name."""
    return sorted(clusters, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
