"""Who has to leave a Worker, who may go now, and what the Worker says of it. Pure.

A drain moves all of its ManagedClusters, a NoExecute taint those that do not tolerate it, each with the help of the
worker itself; of a lost Worker those go that are to be moved then.
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
"""Annotation of a lost Worker: its ManagedClusters may be moved, though too many Workers are lost at once."""
NAMED = 3


@dataclass(frozen=True, slots=True)
class Due:
    """Why one has to leave its Worker; `again`: it will have to, in so many seconds."""

    reason: str = ""
    again: float | None = None


def taints(worker: Object) -> dict[str, Object]:
    """Those that drive out, by what they are."""
    found = [each for each in fleet.spec_of(worker).get("taints") or () if each.get("effect") == NO_EXECUTE]
    return {f"{each['key']}={each.get('value') or ''}": each for each in found}


def due(managed: Object, worker: Object, since: Mapping[str, float], now: float) -> Due:
    """`since`: when each taint was first seen, by the monotonic clock `now` is of."""
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
    """Seconds; None: for ever. As pods have it, the shortest of those that match counts."""
    matching = [each for each in tolerations if tolerates(each, taint)]
    if not matching:
        return 0.0
    limits = [float(each["tolerationSeconds"]) for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, min(limits)) if limits else None


def budget(worker: Object) -> int:
    return max(1, int(fleet.spec_of(worker).get("drainBudget") or 1))


@dataclass(slots=True)
class Progress:
    """Of a Worker whose ManagedClusters go."""

    left: int = 0
    """That have to go and are still its own."""
    moving: int = 0
    away: int = 0
    """Given to another, and not up there yet."""
    obstacles: dict[str, Obstacle] = field(default_factory=dict)
    """By ManagedCluster."""


def drained(worker: Object, progress: Progress | None, now: str) -> Object | None:
    """The status with how far its drain is; None: it says so already. No progress: nobody has to go."""
    return _told(worker, DRAINED, progress, "Draining", "none that has to go is left", now)


def evacuated(worker: Object, progress: Progress | None, stopped: Obstacle | None, now: str) -> Object | None:
    """The same of a lost Worker."""
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
    """It was heard of, and is silent: one that is being deleted too."""
    ready = get_condition(worker, fleet.READY) or {}
    return ready.get("status") == "Unknown" and ready.get("reason") != NEVER


def missing(name: str) -> Object:
    """One that is not there, as if it were and nothing was heard of it."""
    silent = {"type": fleet.READY, "status": "Unknown", "reason": MISSING}
    return {"metadata": {"name": name}, "status": {"conditions": [silent]}}


def line_stopped(worker: Object, lost: int, all_of_them: int, share: float) -> Obstacle | None:
    """Where so many are silent at once, nobody is moved unless somebody says of a Worker that it is gone."""
    if lost <= share * all_of_them or approved(worker):
        return None
    said = f"{lost} of {all_of_them} {SILENT} If worker"
    said = f"{said} {worker['metadata']['name']} is gone for good, annotate it with {APPROVED}=true"
    return Obstacle("TooManyWorkersLost", said)


def without_numbers(stopped: Obstacle) -> Obstacle:
    """As each of a Worker's clusters says it: not anew with every other Worker that goes silent."""
    _, found, rest = stopped.message.partition(SILENT)
    return replace(stopped, message=f"too many {found}{rest}") if found else stopped


def approved(worker: Object) -> bool:
    return (worker["metadata"].get("annotations") or {}).get(APPROVED) == "true"


def in_order(clusters: Sequence[Object]) -> list[Object]:
    """By name."""
    return sorted(clusters, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
