"""Which Worker hosts a ManagedCluster. Pure: filter, then the least loaded; where nobody fits, why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.fit.taints import untolerated
from shoal.kinds import fleet
from shoal.objects.conditions import condition_is, set_condition
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import EVERYTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Worker, as far as scheduling goes."""

    name: str
    capacity: int
    used: int = 0
    """ManagedClusters that have it as their Worker, whatever their phase: a slot is free when the object is gone."""
    ready: bool = True
    leaving: bool = False
    location: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""
    provides: frozenset[str] = frozenset({"embedded"})

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.used)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a ManagedCluster asks of a Worker."""

    infrastructure: str = "embedded"
    location: str = ""
    selector: LabelSelector = EVERYTHING
    tolerations: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    worker: str = ""
    """Empty: nobody fits."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write: the finalizer on (True) or off (False) first, then the status."""

    finalizer: bool | None = None
    status: Object | None = None


def candidate(worker: Object, used: int) -> Candidate:
    spec = fleet.spec_of(worker)
    return Candidate(
        name=worker["metadata"]["name"],
        capacity=int(spec.get("capacity") or 0),
        used=used,
        ready=condition_is(worker, fleet.READY),
        leaving=fleet.is_deleting(worker),
        location=spec.get("location") or "",
        labels=tuple(sorted((worker["metadata"].get("labels") or {}).items())),
        taints=tuple((t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        provides=frozenset(spec.get("provides") or ()),
    )


def demand(managed: Object) -> Demand:
    """BadRequest where the selector is not one."""
    spec = fleet.spec_of(managed)
    selector = spec.get("workerSelector")
    return Demand(
        infrastructure=spec.get("infrastructure") or "embedded",
        location=spec.get("location") or "",
        selector=from_label_selector(selector) if selector else EVERYTHING,
        tolerations=tuple(spec.get("tolerations") or ()),
    )


def refusal(asked: Demand, worker: Candidate) -> tuple[str, str]:
    """Why it cannot be this one, told of one and of several; the first reason that holds. Empty: it can."""
    if worker.leaving:
        return "is being deleted", "are being deleted"
    if not worker.ready:
        return "is not ready", "are not ready"
    if asked.infrastructure not in worker.provides:
        what = f"infrastructure {asked.infrastructure}"
        return f"does not provide {what}", f"do not provide {what}"
    if asked.location and asked.location != worker.location:
        return f"is not in location {asked.location}", f"are not in location {asked.location}"
    if asked.selector and not asked.selector.matches(dict(worker.labels)):
        return "does not match workerSelector", "do not match workerSelector"
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in worker.taints]
    taint = untolerated(taints, asked.tolerations)
    if taint is not None:
        text = f"{taint['key']}={taint['value']}" if taint["value"] else taint["key"]
        what = f"taint {text}:{taint['effect']} that is not tolerated"
        return f"has the {what}", f"have the {what}"
    if not worker.free:
        return "has no free slot", "have no free slot"
    return "", ""


def choose(asked: Demand, workers: Collection[Candidate]) -> Choice:
    """The one with the smallest share of its slots taken; among equals the first by name."""
    refused: Counter[tuple[str, str]] = Counter()
    best: Candidate | None = None
    for worker in workers:
        why = refusal(asked, worker)
        if why[0]:
            refused[why] += 1
        elif best is None or _load(worker) < _load(best):
            best = worker
    if best is not None:
        return Choice(best.name)
    return Choice(message=_nobody(len(workers), refused))


def _load(worker: Candidate) -> tuple[float, str]:
    return worker.used / worker.capacity, worker.name


def _nobody(count: int, refused: Counter[tuple[str, str]]) -> str:
    if not count:
        return "there are no workers: start one with shoal worker, or shoal up --workers N"
    groups = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    said = ", ".join(f"{number} {one if number == 1 else several}" for (one, several), number in groups)
    return f"0 of {count} worker{'s' if count > 1 else ''} fit{'s' if count == 1 else ''}: {said}"


def decide(managed: Object, workers: Collection[Candidate], now: str) -> Decision:
    """`workers` have every binding counted that is known to be written."""
    bound = fleet.assigned_worker(managed)
    if fleet.is_deleting(managed):
        if not bound:
            return Decision(finalizer=False if fleet.has_finalizer(managed) else None)
        return Decision(status=_terminating(managed))
    if bound:
        return Decision()
    try:
        choice = choose(demand(managed), workers)
    except BadRequest as error:
        choice = Choice(message=f"spec.workerSelector: {error}")
    if not choice.worker:
        return Decision(status=_waiting(managed, choice.message, now))
    return Decision(None if fleet.has_finalizer(managed) else True, _bound(managed, choice.worker, now))


def _bound(managed: Object, worker: str, now: str) -> Object:
    told = _scheduled(managed, "True", "Bound", f"given to worker {worker}", now)
    kept = {key: value for key, value in fleet.status_of(told).items() if key != "errors"}
    return {**kept, "phase": fleet.PROVISIONING, "assignedWorker": worker, "epoch": fleet.epoch(managed) + 1}


def _waiting(managed: Object, message: str, now: str) -> Object | None:
    told = _scheduled(managed, "False", UNSCHEDULABLE, message, now)
    errors = fleet.errors_now(managed, [(UNSCHEDULABLE, message)], now)
    return _changed(managed, {**fleet.status_of(told), "phase": fleet.PENDING, "errors": errors})


def _terminating(managed: Object) -> Object | None:
    return _changed(managed, {**fleet.status_of(managed), "phase": fleet.TERMINATING})


def _scheduled(managed: Object, status: str, reason: str, message: str, now: str) -> Object:
    generation = managed["metadata"].get("generation")
    return set_condition(
        managed, fleet.SCHEDULED, status, reason=reason, message=message, observed_generation=generation, now=now
    )


def _changed(managed: Object, status: Object) -> Object | None:
    return None if status == fleet.status_of(managed) else status


def opens(before: Candidate, after: Candidate) -> bool:
    """Whether somebody who did not fit before could take the slot that became free."""
    return after.used < before.used and after.free > 0 and after.ready and not after.leaving


def in_order(waiting: Iterable[Object]) -> list[Object]:
    """Whoever came first is looked at first."""
    return sorted(waiting, key=lambda obj: (obj["metadata"].get("creationTimestamp", ""), _key(obj)))


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
