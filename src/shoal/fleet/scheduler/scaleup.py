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

from shoal.fleet.scheduler.candidate import Candidate, WorkerUsage
from shoal.fleet.scheduler.decide import Unschedulable
from shoal.fleet.scheduler.filters import filter_capacity, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements
from shoal.kinds.fleet import infrav1
from shoal.kinds.versions import KUBERNETES_VERSION, SUPPORTED_VERSIONS
from shoal.objects.duration import parse_duration

Object = dict[str, Any]

WAITING_FOR_WORKER = "WaitingForWorker"
DEFAULT_EMPTY_FOR, NEVER = "10m", "never"


@dataclass(frozen=True, slots=True)
class AutoWorkerSettings:
    max_workers: int = 0
    capacity: int = 100
    empty_seconds: float | None = None
    """Seconds after which an empty Worker is deleted; None: never."""
    settings_error: str = ""


@dataclass(frozen=True, slots=True)
class ScaleUpDecision:
    unschedulable: Unschedulable
    """The reason that is reported to the ManagedClusters in the queue."""
    worker: Object | None = None
    """The Worker to create."""


def parse_auto_worker_settings(config: Object | None) -> AutoWorkerSettings:
    if config is None:
        return AutoWorkerSettings()
    data = config.get("data") or {}
    maximum, capacity = str(data.get("max", "0")), str(data.get("capacity", "100"))
    for name, value in (("max", maximum), ("capacity", capacity)):
        if not (value.isdecimal() and len(value) < 7):
            return AutoWorkerSettings(
                settings_error="ConfigMap "
                f"{infrav1.NAMESPACE}/{infrav1.AUTO_WORKERS_CONFIG_MAP}: {name} is not a number: {value!r}"
            )
    if not int(capacity):
        message = "capacity is 0: such a Worker takes no clusters"
        return AutoWorkerSettings(
            settings_error=f"ConfigMap {infrav1.NAMESPACE}/{infrav1.AUTO_WORKERS_CONFIG_MAP}: {message}"
        )
    text = str(data.get("emptyFor", DEFAULT_EMPTY_FOR))
    seconds = parse_duration(text)
    if not seconds and text != NEVER:
        message = f"emptyFor is neither a duration such as {DEFAULT_EMPTY_FOR} nor {NEVER}: {text!r}"
        return AutoWorkerSettings(
            settings_error=f"ConfigMap {infrav1.NAMESPACE}/{infrav1.AUTO_WORKERS_CONFIG_MAP}: {message}"
        )
    return AutoWorkerSettings(int(maximum), int(capacity), seconds)


def decide_scale_up(
    requirements: ClusterRequirements,
    unschedulable: Unschedulable,
    workers: Collection[Candidate],
    settings: AutoWorkerSettings,
) -> ScaleUpDecision:
    """`unschedulable` is why no existing Worker fits."""
    if settings.settings_error:
        return ScaleUpDecision(
            Unschedulable(unschedulable.reason, f"{unschedulable.message}; {settings.settings_error}")
        )
    new_worker = (
        _new_candidate(requirements, settings) if settings.max_workers and not requirements.selector_error else None
    )
    if (
        new_worker is None
        or run_filters(requirements, new_worker) is not None
        or filter_capacity(requirements, new_worker, WorkerUsage()) is not None
    ):
        return ScaleUpDecision(unschedulable)  # An auto-created Worker would not fit either.
    starting = [each for each in workers if each.auto_worker_hash == new_worker.auto_worker_hash and _is_starting(each)]
    if starting:
        first = min(starting, key=lambda each: each.name)
        return ScaleUpDecision(_waiting_for_worker(unschedulable, first.name, first.supervisor_error))
    auto_workers = sum(bool(each.auto_worker_hash) and not each.is_deleting for each in workers)
    if auto_workers >= settings.max_workers:
        message = f"the limit of {settings.max_workers} auto-created workers is reached"
        return ScaleUpDecision(Unschedulable(unschedulable.reason, f"{unschedulable.message}; {message}"))
    names = {each.name for each in workers}
    name = next(
        name
        for name in (f"auto-{new_worker.auto_worker_hash}-{n}" for n in range(1, len(names) + 2))
        if name not in names
    )
    return ScaleUpDecision(_waiting_for_worker(unschedulable, name), _worker_object(name, new_worker))


def _waiting_for_worker(unschedulable: Unschedulable, name: str, supervisor_error: str = "") -> Unschedulable:
    state = f"which is not running: {supervisor_error}" if supervisor_error else "which is starting"
    return Unschedulable(WAITING_FOR_WORKER, f"waiting for worker {name}, {state}; {unschedulable.message}")


def _is_starting(worker: Candidate) -> bool:
    return not (worker.is_ready or worker.is_deleting or worker.is_lost)


def _new_candidate(requirements: ClusterRequirements, settings: AutoWorkerSettings) -> Candidate:
    labels = {
        each.key: each.values[0] for each in requirements.selector.requirements if each.operator in ("=", "==", "in")
    }
    label_hash = hashlib.sha256(orjson.dumps([requirements.location, sorted(labels.items())])).hexdigest()[:8]
    return Candidate(
        name="",
        capacity=settings.capacity,
        location=requirements.location,
        labels=tuple(sorted((labels | {infrav1.AUTO_WORKER_LABEL: label_hash}).items())),
        versions=frozenset(SUPPORTED_VERSIONS),
        auto_worker_hash=label_hash,
    )


def _worker_object(name: str, new_worker: Candidate) -> Object:
    return {
        "apiVersion": infrav1.API_VERSION,
        "kind": infrav1.WORKER,
        "metadata": {"name": name, "namespace": infrav1.NAMESPACE, "labels": dict(new_worker.labels)},
        "spec": {
            "version": KUBERNETES_VERSION,
            "versions": list(SUPPORTED_VERSIONS),
            "capacity": new_worker.capacity,
            "location": new_worker.location,
            "infrastructure": "process",
            "provides": sorted(new_worker.infrastructures),
        },
    }
