"""What placement needs to know of a workload cluster, and of an object's current share in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.resources import Resources, amounts
from shoal.kinds.workload import READY
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

PRICE = "placement.shoal.dev/price"
"""Annotation of a workload Cluster: the price of a CPU hour there, in any unit that all clusters share."""


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    ready: bool = True
    since: float = 0.0
    """When it became ready, or stopped being ready."""
    schedulable: bool = True
    until: float | None = None
    """When its shares are evicted; 0: now, it is being deleted."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    free: Resources | None = None
    """Free resources of its nodes; None if unknown."""
    price: float | None = None

    def is_leaving(self, now: float) -> bool:
        return self.until is not None and self.until <= now


def site_of(cluster: Object) -> Site:
    spec, metadata, status = cluster.get("spec") or {}, cluster["metadata"], cluster.get("status") or {}
    until = 0.0 if "deletionTimestamp" in metadata else parse_time(spec.get("evictAfter"))
    said = get_condition(cluster, READY) or {}
    return Site(
        metadata["name"],
        said.get("status") == "True",
        parse_time(said.get("lastTransitionTime")) or 0.0,
        not spec.get("unschedulable"),
        until,
        metadata.get("labels") or {},
        tuple(spec.get("taints") or ()),
        amounts(status["available"]) if status.get("available") else None,
        _price((metadata.get("annotations") or {}).get(PRICE)),
    )


def _price(text: str | None) -> float | None:
    try:
        price = float(text or "")
    except ValueError:
        return None
    return price if 0 <= price < float("inf") else None


@dataclass(frozen=True, slots=True)
class Part:
    """The current share of an object in a cluster."""

    replicas: int = 0
    available: int = 0
    most: int | None = None
    """No more than these found nodes there, the last time more were tried."""
    away: bool = False
    """It was evicted because the cluster was not ready."""
    start: int = 0
    """Its first ordinal, where the kind has ordinals."""


NO_PART = Part()
