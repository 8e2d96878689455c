"""A Worker as the scheduler sees it: what it offers and what is used of it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.resources import parse_amounts
from shoal.fleet.scheduler.requirements import CPU, MACHINE_CPU, MACHINE_MEMORY, MEMORY
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.kindhosting import KIND_AVAILABLE
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    capacity: int
    """Slots: the most ManagedClusters it hosts."""
    is_ready: bool = True
    """Its Lease is fresh."""
    is_lost: bool = False
    """It was ready once and is silent now."""
    is_deleting: bool = False
    is_cordoned: bool = False
    """It gets no new ManagedClusters: `spec.unschedulable`, or it is being drained."""
    location: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""
    infrastructures: frozenset[str] = frozenset({"embedded"})
    versions: frozenset[str] = frozenset()
    """Releases or minor versions its clusters may have; empty: any."""
    allocatable: tuple[tuple[str, int], ...] = ()
    """Upper limits for all nodes of its clusters together. A resource that is not listed is not limited."""
    machine: tuple[tuple[str, int], ...] = ()
    """What its machine has for the nodes of kind clusters. A resource that is not listed is not limited."""
    kind_versions: frozenset[str] = frozenset()
    """Releases that its kind clusters may have; empty: any."""
    kind_error: str = ""
    """The reason for which there can be no kind clusters on its machine now; empty if there can be."""
    cost: float = 0.0
    auto_worker_hash: str = ""
    """Hash of the requirements it was created for, where the scheduler created it."""
    supervisor_error: str = ""
    """Why its process does not run, where the scheduler created it."""


@dataclass(slots=True)
class WorkerUsage:
    """What ManagedClusters use of a Worker, whatever their phase: a slot is free only when the object is gone."""

    clusters: int = 0
    amounts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class SpreadCounts:
    """Where the members of a spread group are."""

    workers: Counter[str] = field(default_factory=Counter)
    locations: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def add(self, worker: str, location: str, count: int) -> None:
        self.workers[worker] += count
        self.locations[location] += count
        self.total += count


def candidate_of(worker: Object) -> Candidate:
    spec, metadata = infrav1.spec_of(worker), worker["metadata"]
    labels = metadata.get("labels") or {}
    return Candidate(
        name=metadata["name"],
        capacity=infrav1.capacity_of(worker),
        is_ready=condition_is(worker, infrav1.READY),
        is_lost=infrav1.status_of(worker).get("phase") == infrav1.LOST,
        is_deleting=infrav1.is_deleting(worker),
        is_cordoned=bool(spec.get("unschedulable") or spec.get("drain")),
        location=spec.get("location") or "",
        labels=tuple(sorted(labels.items())),
        taints=tuple((t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        infrastructures=frozenset(spec.get("provides") or ()),
        versions=frozenset(spec.get("versions") or ()),
        allocatable=tuple(sorted(parse_amounts(spec.get("allocatable")).items())),
        machine=_machine_amounts(worker),
        kind_versions=frozenset((infrav1.status_of(worker).get("kind") or {}).get("versions") or ()),
        kind_error=_kind_error(worker),
        cost=float(spec.get("cost") or 0),
        auto_worker_hash=labels.get(infrav1.AUTO_WORKER_LABEL, ""),
        supervisor_error=_supervisor_error(worker) if infrav1.AUTO_WORKER_LABEL in labels else "",
    )


def _machine_amounts(worker: Object) -> tuple[tuple[str, int], ...]:
    reported = infrav1.status_of(worker).get("kind") or {}
    amounts = parse_amounts({name: reported[name] for name in (CPU, MEMORY) if reported.get(name)})
    return tuple((MACHINE_CPU if name == CPU else MACHINE_MEMORY, amount) for name, amount in amounts.items())


def _kind_error(worker: Object) -> str:
    """A worker that has not reported yet has no error: what it is assigned waits for it."""
    condition = get_condition(worker, KIND_AVAILABLE) or {}
    return str(condition.get("reason") or "") if condition.get("status") == "False" else ""


def _supervisor_error(worker: Object) -> str:
    condition = get_condition(worker, infrav1.SUPERVISED) or {}
    return str(condition.get("message") or "") if condition.get("status") == "False" else ""


def spread_group_of(managed: Object) -> str:
    """Returns the spread group: its members are spread over Workers and locations."""
    metadata = managed["metadata"]
    namespace, label = metadata.get("namespace", ""), (metadata.get("labels") or {}).get(infrav1.SPREAD_GROUP)
    return f"{namespace}/{label}" if label else str(namespace)
