"""Decides which clusters have to leave a Worker, which may go now, and builds the Worker's conditions. Pure.

A drain migrates all of its ManagedClusters, a NoExecute taint those that do not tolerate it; the worker itself sends
them. From a lost Worker those are migrated whose policy says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.taints import NO_EXECUTE, tolerates
from shoal.fleet.health.decide import MISSING, NEVER
from shoal.fleet.moving.decide import DRAIN, TAINT, Obstacle
from shoal.kinds import fleet
from shoal.objects.conditions import get_condition, remove_condition, set_condition

Object = dict[str, Any]

DRAINED, EVACUATED = "Drained", "Evacuated"
APPROVED = "shoal.dev/move-lost"
SILENT = "workers are silent at once: nothing is moved."
"""Part of a condition message. EVACUATION_APPROVED is the annotation of a lost Worker whose ManagedClusters may be
migrated although too many Workers are lost at once.
"""
NAMED = 3


@dataclass(frozen=True, slots=True)
class Due:
    """Why a cluster has to leave its Worker. `requeue_after`: it will have to in that many seconds."""

    reason: str = ""
    again: float | None = None


def taints(worker: Object) -> dict[str, Object]:
    """Returns the NoExecute taints by their text."""
    found = [each for each in fleet.spec_of(worker).get("taints") or () if each.get("effect") == NO_EXECUTE]
    return {f"{each['key']}={each.get('value') or ''}": each for each in found}


def due(managed: Object, worker: Object, since: Mapping[str, float], now: float) -> Due:
    """`tainted_since`: when each taint was first seen, on the same monotonic clock as `now`."""
    if fleet.is_deleting(managed):
        return Due()
    if fleet.spec_of(worker).get("drain"):
        return Due(DRAIN)
    ends = [
        since.get(text, now) + seconds
        for text, taint in taints(worker).items()
        if (seconds := _tolerated(taint, fleet.spec_of(managed).get("tolerations") or ())) is not None
    ]
    if not ends:
        return Due()
    left = min(ends) - now
    return Due(TAINT) if left <= 0 else Due(again=left)


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> float | None:
    """Returns seconds; None: forever. As for pods, the shortest matching toleration counts."""
    matching = [each for each in tolerations if tolerates(each, taint)]
    if not matching:
        return 0.0
    limits = [float(each["tolerationSeconds"]) for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, min(limits)) if limits else None


def budget(worker: Object) -> int:
    return max(1, int(fleet.spec_of(worker).get("drainBudget") or 1))


@dataclass(slots=True)
class Progress:
    """Progress of a drain or an evacuation."""

    left: int = 0
    """Clusters that have to leave and are still assigned to it."""
    moving: int = 0
    away: int = 0
    """Reassigned and not ready on the new Worker yet."""
    obstacles: dict[str, Obstacle] = field(default_factory=dict)
    """By ManagedCluster."""


def drained(worker: Object, progress: Progress | None, now: str) -> Object | None:
    """Returns the status with the Drained condition; None if it is current. Without progress no cluster has to
    leave.
    """
    return _told(worker, DRAINED, progress, "Draining", "none that has to go is left", now)


def evacuated(worker: Object, progress: Progress | None, stopped: Obstacle | None, now: str) -> Object | None:
    """Returns the status with the Evacuated condition of a lost Worker; None if it is current."""
    if stopped is not None:
        told = _condition(worker, EVACUATED, "False", stopped.reason, stopped.message, now)
        return None if told is worker else fleet.status_of(told)
    return _told(worker, EVACUATED, progress, "Moving", "none that is to be moved is left", now)


def _told(worker: Object, type_: str, progress: Progress | None, going: str, done: str, now: str) -> Object | None:
    if progress is None:
        told = remove_condition(worker, type_)
    elif not (progress.left or progress.away):
        told = _condition(worker, type_, "True", type_, done, now)
    else:
        stuck = bool(progress.obstacles) and not (progress.moving or progress.away)
        told = _condition(worker, type_, "False", "Stuck" if stuck else going, _counted(progress), now)
    return None if told is worker else fleet.status_of(told)


def _counted(progress: Progress) -> str:
    said = [f"{_clusters(progress.left)} left"]
    if progress.moving:
        said.append(f"{progress.moving} being sent on")
    if progress.away:
        said.append(f"{progress.away} moved and not up yet")
    obstacles = sorted(progress.obstacles.items())
    said += [f"{name} waits: {because.message}" for name, because in obstacles[:NAMED]]
    if len(obstacles) > NAMED:
        said.append(f"{len(obstacles) - NAMED} more wait")
    return "; ".join(said)


def _clusters(number: int) -> str:
    return "1 ManagedCluster is" if number == 1 else f"{number} ManagedClusters are"


def _condition(worker: Object, type_: str, status: str, reason: str, message: str, now: str) -> Object:
    generation = worker["metadata"].get("generation")
    return set_condition(worker, type_, status, reason=reason, message=message, observed_generation=generation, now=now)


def is_lost(worker: Object) -> bool:
    """True for a Worker that was heard once and is silent, also if it is being deleted."""
    ready = get_condition(worker, fleet.READY) or {}
    return ready.get("status") == "Unknown" and ready.get("reason") != NEVER


def missing(name: str) -> Object:
    """Returns a stand-in for a Worker that does not exist, as if it were silent."""
    silent = {"type": fleet.READY, "status": "Unknown", "reason": MISSING}
    return {"metadata": {"name": name}, "status": {"conditions": [silent]}}


def line_stopped(worker: Object, lost: int, all_of_them: int, share: float) -> Obstacle | None:
    """Blocks the evacuation when too many Workers are silent at once, unless somebody has approved it for this
    Worker.
    """
    if lost <= share * all_of_them or approved(worker):
        return None
    said = f"{lost} of {all_of_them} {SILENT} If worker"
    said = f"{said} {worker['metadata']['name']} is gone for good, annotate it with {APPROVED}=true"
    return Obstacle("TooManyWorkersLost", said)


def without_numbers(stopped: Obstacle) -> Obstacle:
    """Removes the counts from the message for its clusters, so that it does not change with every other Worker that
    becomes silent.
    """
    _, found, rest = stopped.message.partition(SILENT)
    return replace(stopped, message=f"too many {found}{rest}") if found else stopped


def approved(worker: Object) -> bool:
    return (worker["metadata"].get("annotations") or {}).get(APPROVED) == "true"


def in_order(clusters: Sequence[Object]) -> list[Object]:
    """Sorts by namespace and name."""
    return sorted(clusters, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
