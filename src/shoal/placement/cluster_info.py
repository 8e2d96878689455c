"""What placement needs to know of a workload cluster, and of an object's current share in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.resources import Resources, parse_amounts
from shoal.kinds.workload.workloadcluster import READY
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

PRICE_ANNOTATION = "placement.shoal.dev/price"
"""Annotation of a workload Cluster: the price of a CPU hour there, in any unit that all clusters share."""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
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

    def is_evicted(self, now: float) -> bool:
        return self.until is not None and self.until <= now


def cluster_info_of(cluster: Object) -> ClusterInfo:
    spec, metadata, status = cluster.get("spec") or {}, cluster["metadata"], cluster.get("status") or {}
    evict_at = 0.0 if "deletionTimestamp" in metadata else parse_time(spec.get("evictAfter"))
    ready_condition = get_condition(cluster, READY) or {}
    return ClusterInfo(
        metadata["name"],
        ready_condition.get("status") == "True",
        parse_time(ready_condition.get("lastTransitionTime")) or 0.0,
        not spec.get("unschedulable"),
        evict_at,
        metadata.get("labels") or {},
        tuple(spec.get("taints") or ()),
        parse_amounts(status["available"]) if status.get("available") else None,
        _parse_price((metadata.get("annotations") or {}).get(PRICE_ANNOTATION)),
    )


def _parse_price(text: str | None) -> float | None:
    try:
        price = float(text or "")
    except ValueError:
        return None
    return price if 0 <= price < float("inf") else None


@dataclass(frozen=True, slots=True)
class CurrentShare:
    """The current share of an object in a cluster."""

    replicas: int = 0
    available: int = 0
    capacity_limit: int | None = None
    """No more than these found nodes there, the last time more were tried."""
    was_evicted: bool = False
    """It was evicted because the cluster was not ready."""
    first_ordinal: int = 0
    """Its first ordinal, where the kind has ordinals."""


NO_SHARE = CurrentShare()
