"""Decides whether a new Worker is created when none has capacity. Pure.

Off by default. The ConfigMap `shoal-system/auto-workers` says how many such Workers there may be (`max`), how many
ManagedClusters each takes (`capacity`), and how long one may be empty (`emptyFor`). The scheduler only creates the
Worker object; a hub runs its process. At most one Worker per location and set of labels is starting at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson

from shoal.fleet.scheduler.candidate import Candidate, Usage
from shoal.fleet.scheduler.decide import Waiting
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import refusal, room
from shoal.kinds import fleet
from shoal.kinds.versions import KUBERNETES, SUPPORTED
from shoal.objects.duration import parse_duration

Object = dict[str, Any]

COMING = "WaitingForWorker"
EMPTY_FOR, NEVER = "10m", "never"


@dataclass(frozen=True, slots=True)
class Setting:
    maximum: int = 0
    capacity: int = 100
    empty_seconds: float | None = None
    """Seconds after which an empty Worker is deleted; None: never."""
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Growth:
    because: Waiting
    """The reason that is reported to the ManagedClusters in the queue."""
    worker: Object | None = None
    """The Worker to create."""


def setting(config: Object | None) -> Setting:
    if config is None:
        return Setting()
    data = config.get("data") or {}
    maximum, capacity = str(data.get("max", "0")), str(data.get("capacity", "100"))
    for name, value in (("max", maximum), ("capacity", capacity)):
        if not (value.isdecimal() and len(value) < 7):
            return Setting(wrong=f"ConfigMap {fleet.NAMESPACE}/{fleet.AUTO_WORKERS}: {name} is no number: {value!r}")
    if not int(capacity):
        said = "capacity is 0: such a Worker takes no clusters"
        return Setting(wrong=f"ConfigMap {fleet.NAMESPACE}/{fleet.AUTO_WORKERS}: {said}")
    text = str(data.get("emptyFor", EMPTY_FOR))
    seconds = parse_duration(text)
    if not seconds and text != NEVER:
        said = f"emptyFor is no duration such as {EMPTY_FOR}, and not {NEVER}: {text!r}"
        return Setting(wrong=f"ConfigMap {fleet.NAMESPACE}/{fleet.AUTO_WORKERS}: {said}")
    return Setting(int(maximum), int(capacity), seconds)


def grow(asked: Demand, because: Waiting, workers: Collection[Candidate], allowed: Setting) -> Growth:
    """`unschedulable` is why no existing Worker fits."""
    if allowed.wrong:
        return Growth(Waiting(because.reason, f"{because.message}; {allowed.wrong}"))
    new = _newcomer(asked, allowed) if allowed.maximum and not asked.wrong else None
    if new is None or refusal(asked, new) is not None or room(asked, new, Usage()) is not None:
        return Growth(because)  # An auto-created Worker would not fit either.
    coming = [each for each in workers if each.auto == new.auto and _is_coming(each)]
    if coming:
        first = min(coming, key=lambda each: each.name)
        return Growth(_coming(because, first.name, first.trouble))
    made = sum(bool(each.auto) and not each.leaving for each in workers)
    if made >= allowed.maximum:
        said = f"auto-creation has reached its limit of {allowed.maximum}"
        return Growth(Waiting(because.reason, f"{because.message}; {said}"))
    taken = {each.name for each in workers}
    name = next(name for name in (f"auto-{new.auto}-{n}" for n in range(1, len(taken) + 2)) if name not in taken)
    return Growth(_coming(because, name), _object(name, new))


def _coming(because: Waiting, name: str, trouble: str = "") -> Waiting:
    state = f"which does not run: {trouble}" if trouble else "which is being started"
    return Waiting(COMING, f"waits for worker {name}, {state}; {because.message}")


def _is_coming(worker: Candidate) -> bool:
    return not (worker.ready or worker.leaving or worker.lost)


def _newcomer(asked: Demand, allowed: Setting) -> Candidate:
    labels = {each.key: each.values[0] for each in asked.selector.requirements if each.operator in ("=", "==", "in")}
    mark = hashlib.sha256(orjson.dumps([asked.location, sorted(labels.items())])).hexdigest()[:8]
    return Candidate(
        name="",
        capacity=allowed.capacity,
        location=asked.location,
        labels=tuple(sorted((labels | {fleet.AUTO_WORKER: mark}).items())),
        versions=frozenset(SUPPORTED),
        auto=mark,
    )


def _object(name: str, new: Candidate) -> Object:
    return {
        "apiVersion": fleet.API_VERSION,
        "kind": fleet.WORKER,
        "metadata": {"name": name, "namespace": fleet.NAMESPACE, "labels": dict(new.labels)},
        "spec": {
            "version": KUBERNETES,
            "versions": list(SUPPORTED),
            "capacity": new.capacity,
            "location": new.location,
            "infrastructure": "process",
            "provides": sorted(new.provides),
        },
    }
