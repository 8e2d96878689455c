"""Selects the Worker of a ManagedCluster and builds the status to write. Pure.

`select_worker` evaluates every Worker. It defines what scheduling means, and `shoal explain` uses it. The running
scheduler finds the same Worker without evaluating all of them (`ranking`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.fleet.scheduler.candidate import Candidate, WorkerUsage
from shoal.fleet.scheduler.filters import FilterFailure, filter_capacity, filter_version, offered_versions, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements
from shoal.fleet.scheduler.scores import ScoringContext, score_worker
from shoal.kinds.fleet import infrav1, migration
from shoal.objects.conditions import set_condition

Object = dict[str, Any]

PER_WORKER_STATUS = frozenset(
    {*infrav1.WORKER_REPORTED_CONDITIONS, infrav1.WORKER_READY, infrav1.MOVABLE, migration.RESTORED}
    | {"errors", "held", "observedGeneration", "version", "nodes", "nodePools", "kubeconfigHash"}
)
"""Status conditions and fields that are only valid for the time on one Worker."""
UNSCHEDULABLE, INVALID_SELECTOR, NO_WORKERS = "Unschedulable", "InvalidSelector", "NoWorkers"
NO_WORKERS_MESSAGE = "there are no workers: start one with shoal worker, or shoal up --workers N"


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Why no Worker hosts the ManagedCluster."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ManagedClusterUpdate:
    """The write to make: add (True) or remove (False) the finalizer, and the new status."""

    finalizer: bool | None = None
    status: Object | None = None


def select_worker(context: ScoringContext, workers: Iterable[tuple[Candidate, WorkerUsage]]) -> str | Unschedulable:
    """Returns the name of the Worker with the most points; on a tie, the first by name."""
    candidates = list(workers)
    best: tuple[int, str] | None = None
    for worker, usage in candidates:
        if fits(context.requirements, worker, usage):
            rank = -sum(score_worker(context, worker, usage).values()), worker.name
            best = rank if best is None else min(best, rank)
    return best[1] if best is not None else fit_error(context.requirements, candidates)


def fits(requirements: ClusterRequirements, worker: Candidate, usage: WorkerUsage) -> bool:
    return (
        not requirements.selector_error
        and run_filters(requirements, worker) is None
        and filter_capacity(requirements, worker, usage) is None
    )


def fit_error(requirements: ClusterRequirements, workers: Iterable[tuple[Candidate, WorkerUsage]]) -> Unschedulable:
    """Explains why no Worker fits the requirements."""
    if requirements.selector_error:
        return Unschedulable(INVALID_SELECTOR, requirements.selector_error)
    candidates = list(workers)
    results = (
        run_filters(requirements, worker) or filter_capacity(requirements, worker, used) for worker, used in candidates
    )
    failures = Counter(each for each in results if each is not None)
    if not candidates:
        return Unschedulable(NO_WORKERS, NO_WORKERS_MESSAGE)
    if all(filter_version(requirements, worker) for worker, _ in candidates):
        versions = sorted(
            {each for worker, _ in candidates for each in offered_versions(requirements, worker)}, key=_version_key
        )
        message = f"no worker offers version {requirements.version}; offered: {', '.join(versions)}"
        return Unschedulable("VersionNotOffered", message)
    return Unschedulable(_common_reason(failures), _fit_message(len(candidates), failures))


def _version_key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.removeprefix("v").split(".") if part.isdecimal())


def _common_reason(failures: Counter[FilterFailure]) -> str:
    reasons = {each.reason for each in failures}
    return reasons.pop() if len(reasons) == 1 else UNSCHEDULABLE


def _fit_message(count: int, failures: Counter[FilterFailure]) -> str:
    groups = sorted(failures.items(), key=lambda item: (-item[1], item[0].singular))
    counts = ", ".join(f"{number} {each.singular if number == 1 else each.plural}" for each, number in groups)
    return f"0 of {count} worker{'s' if count > 1 else ''} fit{'s' if count == 1 else ''}: {counts}"


def finalizer_and_phase(managed: Object) -> ManagedClusterUpdate:
    """Returns the finalizer and phase update for a ManagedCluster that is not to be scheduled now."""
    has_finalizer, assigned = infrav1.has_finalizer(managed), infrav1.assigned_worker(managed)
    if not infrav1.is_deleting(managed):
        return ManagedClusterUpdate(finalizer=None if has_finalizer or not assigned else True)
    if not assigned:
        return ManagedClusterUpdate(finalizer=False if has_finalizer else None)
    return ManagedClusterUpdate(
        status=_status_if_changed(managed, {**infrav1.status_of(managed), "phase": infrav1.TERMINATING})
    )


def bound_status(managed: Object, worker: str, now: str) -> Object:
    """Returns the status that binds it to a Worker. What its previous Worker reported is dropped."""
    scheduled = _with_scheduled_condition(managed, "True", "Bound", f"assigned to worker {worker}", now)
    status = {key: value for key, value in infrav1.status_of(scheduled).items() if key not in PER_WORKER_STATUS}
    status["conditions"] = [each for each in status["conditions"] if each["type"] not in PER_WORKER_STATUS]
    assignment = {"phase": infrav1.SCHEDULED, "assignedWorker": worker, "lastWorker": worker}
    return {**status, **assignment, "epoch": infrav1.epoch(managed) + 1}


def unschedulable_status(managed: Object, unschedulable: Unschedulable, now: str) -> Object | None:
    """Returns the status that says why it is unschedulable; None if it already says so."""
    scheduled = _with_scheduled_condition(managed, "False", unschedulable.reason, unschedulable.message, now)
    errors = infrav1.current_errors(managed, [(unschedulable.reason, unschedulable.message)], now)
    return _status_if_changed(managed, {**infrav1.status_of(scheduled), "phase": infrav1.PENDING, "errors": errors})


def _with_scheduled_condition(managed: Object, status: str, reason: str, message: str, now: str) -> Object:
    generation = managed["metadata"].get("generation")
    return set_condition(
        managed, infrav1.SCHEDULED, status, reason=reason, message=message, observed_generation=generation, now=now
    )


def _status_if_changed(managed: Object, status: Object) -> Object | None:
    return None if status == infrav1.status_of(managed) else status
