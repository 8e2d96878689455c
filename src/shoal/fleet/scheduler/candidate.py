"""A Worker as the scheduler sees it: what it offers and what is used of it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.resources import amounts
from shoal.kinds import fleet
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    capacity: int
    """Slots: the most ManagedClusters it hosts."""
    ready: bool = True
    """Its Lease is fresh."""
    lost: bool = False
    """It was ready once and is silent now."""
    leaving: bool = False
    cordoned: bool = False
    """It gets no new ManagedClusters: `spec.unschedulable`, or it is being drained."""
    location: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""
    provides: frozenset[str] = frozenset({"embedded"})
    versions: frozenset[str] = frozenset()
    """Releases or minor versions its clusters may have; empty: any."""
    allocatable: tuple[tuple[str, int], ...] = ()
    """Upper limits for all nodes of its clusters together. A resource that is not listed is not limited."""
    cost: float = 0.0
    auto: str = ""
    """Hash of the requirements it was created for, where the scheduler created it."""
    trouble: str = ""
    """Why its process does not run, where the scheduler created it."""


@dataclass(slots=True)
class Usage:
    """What ManagedClusters use of a Worker, whatever their phase: a slot is free only when the object is gone."""

    clusters: int = 0
    amounts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Company:
    """Where the members of a spread group are."""

    workers: Counter[str] = field(default_factory=Counter)
    locations: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def add(self, worker: str, location: str, number: int) -> None:
        self.workers[worker] += number
        self.locations[location] += number
        self.total += number


def candidate(worker: Object) -> Candidate:
    spec, metadata = fleet.spec_of(worker), worker["metadata"]
    labels = metadata.get("labels") or {}
    return Candidate(
        name=metadata["name"],
        capacity=fleet.capacity_of(worker),
        ready=condition_is(worker, fleet.READY),
        lost=fleet.status_of(worker).get("phase") == fleet.LOST,
        leaving=fleet.is_deleting(worker),
        cordoned=bool(spec.get("unschedulable") or spec.get("drain")),
        location=spec.get("location") or "",
        labels=tuple(sorted(labels.items())),
        taints=tuple((t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        provides=frozenset(spec.get("provides") or ()),
        versions=frozenset(spec.get("versions") or ()),
        allocatable=tuple(sorted(amounts(spec.get("allocatable")).items())),
        cost=float(spec.get("cost") or 0),
        auto=labels.get(fleet.AUTO_WORKER, ""),
        trouble=_trouble(worker) if fleet.AUTO_WORKER in labels else "",
    )


def _trouble(worker: Object) -> str:
    said = get_condition(worker, fleet.SUPERVISED) or {}
    return str(said.get("message") or "") if said.get("status") == "False" else ""


def group_of(managed: Object) -> str:
    """Returns the spread group: its members are spread over Workers and locations."""
    metadata = managed["metadata"]
    namespace, label = metadata.get("namespace", ""), (metadata.get("labels") or {}).get(fleet.SPREAD_GROUP)
    return f"{namespace}/{label}" if label else str(namespace)
