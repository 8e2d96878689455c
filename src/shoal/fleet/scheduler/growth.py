"""Whether a new Worker is asked for, when nobody has room. Pure.

Off unless somebody allows it: the ConfigMap `shoal-system/auto-workers` says how many such Workers there may be (`max`)
and how many ManagedClusters each takes (`capacity`). A Worker is asked for by its object alone; whoever supervises
processes starts it. There is one under way at a time for each location and set of labels asked for.
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

Object = dict[str, Any]

COMING = "WaitingForWorker"


@dataclass(frozen=True, slots=True)
class Setting:
    maximum: int = 0
    capacity: int = 100
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Growth:
    because: Waiting
    """What those who wait are told."""
    worker: Object | None = None
    """To create."""


def setting(config: Object | None) -> Setting:
    if config is None:
        return Setting()
    data = config.get("data") or {}
    maximum, capacity = str(data.get("max", "0")), str(data.get("capacity", "100"))
    for name, value in (("max", maximum), ("capacity", capacity)):
        if not (value.isdecimal() and len(value) < 7):
            return Setting(wrong=f"ConfigMap {fleet.NAMESPACE}/{fleet.AUTO_WORKERS}: {name} is no number: {value!r}")
    return Setting(int(maximum), int(capacity))


def grow(asked: Demand, because: Waiting, workers: Collection[Candidate], allowed: Setting) -> Growth:
    """`because`: why no Worker that is there has it."""
    if allowed.wrong:
        return Growth(Waiting(because.reason, f"{because.message}; {allowed.wrong}"))
    new = _newcomer(asked, allowed) if allowed.maximum and not asked.wrong else None
    if new is None or refusal(asked, new) is not None or room(asked, new, Usage()) is not None:
        return Growth(because)  # one that is made by itself would be of no use
    coming = sorted(each.name for each in workers if each.auto == new.auto and _is_coming(each))
    if coming:
        return Growth(_coming(because, coming[0]))
    made = sum(bool(each.auto) and not each.leaving for each in workers)
    if made >= allowed.maximum:
        said = f"auto-creation has reached its limit of {allowed.maximum}"
        return Growth(Waiting(because.reason, f"{because.message}; {said}"))
    taken = {each.name for each in workers}
    name = next(name for name in (f"auto-{new.auto}-{n}" for n in range(1, len(taken) + 2)) if name not in taken)
    return Growth(_coming(because, name), _object(name, new))


def _coming(because: Waiting, name: str) -> Waiting:
    return Waiting(COMING, f"waits for worker {name}, which is being started; {because.message}")


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
