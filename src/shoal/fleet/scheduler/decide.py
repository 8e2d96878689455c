"""Selects the Worker of a ManagedCluster and builds the status to write. Pure.

`select_worker` evaluates every Worker. It defines what scheduling means, and `shoal explain` uses it. The running
scheduler finds the same Worker without evaluating all of them (`ranking`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.fleet.scheduler.candidate import Candidate, Usage
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import Refusal, refusal, room, version
from shoal.fleet.scheduler.scores import View, scores
from shoal.kinds import fleet, moving
from shoal.objects.conditions import set_condition

Object = dict[str, Any]

OF_ITS_WORKER = frozenset(
    {*fleet.TOLD_BY_WORKER, fleet.WORKER_READY, fleet.MOVABLE, moving.RESTORED}
    | {"errors", "held", "observedGeneration", "version", "nodes", "nodePools", "kubeconfigHash"}
)
"""Status conditions and fields that are only valid for the time on one Worker."""
UNSCHEDULABLE, NOT_UNDERSTOOD, NO_WORKERS = "Unschedulable", "InvalidSelector", "NoWorkers"
NOBODY = "there are no workers: start one with shoal worker, or shoal up --workers N"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why no Worker hosts the ManagedCluster."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The write to make: add (True) or remove (False) the finalizer, and the new status."""

    finalizer: bool | None = None
    status: Object | None = None


def choose(view: View, workers: Iterable[tuple[Candidate, Usage]]) -> str | Waiting:
    """Returns the name of the Worker with the most points; on a tie, the first by name."""
    there = list(workers)
    best: tuple[int, str] | None = None
    for worker, used in there:
        if fits(view.asked, worker, used):
            rank = -sum(scores(view, worker, used).values()), worker.name
            best = rank if best is None else min(best, rank)
    return best[1] if best is not None else why(view.asked, there)


def fits(asked: Demand, worker: Candidate, used: Usage) -> bool:
    return not asked.wrong and refusal(asked, worker) is None and room(asked, worker, used) is None


def why(asked: Demand, workers: Iterable[tuple[Candidate, Usage]]) -> Waiting:
    """Explains why no Worker fits the requirements."""
    if asked.wrong:
        return Waiting(NOT_UNDERSTOOD, asked.wrong)
    there = list(workers)
    found = (refusal(asked, worker) or room(asked, worker, used) for worker, used in there)
    refused = Counter(each for each in found if each is not None)
    if not there:
        return Waiting(NO_WORKERS, NOBODY)
    if all(version(asked, worker) for worker, _ in there):
        offered = sorted({each for worker, _ in there for each in worker.versions}, key=_numbers)
        message = f"no worker offers version {asked.version}; offered: {', '.join(offered)}"
        return Waiting("VersionNotOffered", message)
    return Waiting(_reason(refused), _message(len(there), refused))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.removeprefix("v").split(".") if part.isdecimal())


def _reason(refused: Counter[Refusal]) -> str:
    reasons = {each.reason for each in refused}
    return reasons.pop() if len(reasons) == 1 else UNSCHEDULABLE


def _message(count: int, refused: Counter[Refusal]) -> str:
    groups = sorted(refused.items(), key=lambda item: (-item[1], item[0].one))
    said = ", ".join(f"{number} {each.one if number == 1 else each.several}" for each, number in groups)
    return f"0 of {count} worker{'s' if count > 1 else ''} fit{'s' if count == 1 else ''}: {said}"


def level(managed: Object) -> Decision:
    """Returns the finalizer and phase update for a ManagedCluster that is not to be scheduled now."""
    has, bound = fleet.has_finalizer(managed), fleet.assigned_worker(managed)
    if not fleet.is_deleting(managed):
        return Decision(finalizer=None if has or not bound else True)
    if not bound:
        return Decision(finalizer=False if has else None)
    return Decision(status=_changed(managed, {**fleet.status_of(managed), "phase": fleet.TERMINATING}))


def bound(managed: Object, worker: str, now: str) -> Object:
    """Returns the status that binds it to a Worker. What its previous Worker reported is dropped."""
    told = _scheduled(managed, "True", "Bound", f"given to worker {worker}", now)
    kept = {key: value for key, value in fleet.status_of(told).items() if key not in OF_ITS_WORKER}
    kept["conditions"] = [each for each in kept["conditions"] if each["type"] not in OF_ITS_WORKER]
    given = {"phase": fleet.SCHEDULED, "assignedWorker": worker, "lastWorker": worker}
    return {**kept, **given, "epoch": fleet.epoch(managed) + 1}


def waiting(managed: Object, because: Waiting, now: str) -> Object | None:
    """Returns the status that says why it is unschedulable; None if it already says so."""
    told = _scheduled(managed, "False", because.reason, because.message, now)
    errors = fleet.errors_now(managed, [(because.reason, because.message)], now)
    return _changed(managed, {**fleet.status_of(told), "phase": fleet.PENDING, "errors": errors})


def _scheduled(managed: Object, status: str, reason: str, message: str, now: str) -> Object:
    generation = managed["metadata"].get("generation")
    return set_condition(
        managed, fleet.SCHEDULED, status, reason=reason, message=message, observed_generation=generation, now=now
    )


def _changed(managed: Object, status: Object) -> Object | None:
    return None if status == fleet.status_of(managed) else status
