"""What placement needs to know of a workload cluster, and of an object's current share in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import Resources, parse_amounts
from shoal.fit.room import ClusterRoom, NodeGroup, PoolRoom
from shoal.kinds.karpenter.karpenter import WELL_KNOWN_LABELS
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.served_apis import UNKNOWN_APIS, ServedAPIs, served_apis
from shoal.kinds.workload.workloadcluster import NODE_GROUPS, NODE_POOLS, OMITTED_NODE_LABELS
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
    reports: bool = True
    """Whether the statuses of its objects are current."""
    apis: ServedAPIs = UNKNOWN_APIS
    room: ClusterRoom | None = None
    """Room for pods by groups of nodes; None if unknown."""

    def differs_in_amounts(self, other: ClusterInfo) -> bool:
        """Returns whether the two differ only in how much room there is."""
        if (self.room is None) != (other.room is None):
            return False
        if self.room is not None and other.room is not None and self.room.shape != other.room.shape:
            return False
        return replace(self, free=other.free, room=other.room) == other

    def is_evicted(self, now: float) -> bool:
        return self.until is not None and self.until <= now


def cluster_info_of(cluster: Object, imports: Iterable[Object] = ()) -> ClusterInfo:
    """`imports` are the APIResourceImports of the cluster."""
    spec, metadata, status = cluster.get("spec") or {}, cluster["metadata"], cluster.get("status") or {}
    evict_at = 0.0 if "deletionTimestamp" in metadata else parse_time(spec.get("evictAfter"))
    ready_condition = get_condition(cluster, workloadcluster.READY) or {}
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
        workloadcluster.reports_status(cluster),
        served_apis(cluster, imports),
        _parse_room(status),
    )


def _parse_room(status: Object) -> ClusterRoom | None:
    if NODE_GROUPS not in status:
        return None
    groups = (
        NodeGroup(
            each.get("labels") or {},
            tuple(each.get("taints") or ()),
            parse_amounts(each.get("free")),
            parse_amounts(each.get("largestFree")),
        )
        for each in status[NODE_GROUPS]
    )
    pools = (
        PoolRoom(
            from_expressions(each.get("requirements")),
            tuple(each.get("taints") or ()),
            parse_amounts(each["remaining"]) if "remaining" in each else None,
        )
        for each in status.get(NODE_POOLS) or ()
    )
    omitted_labels = frozenset(status.get(OMITTED_NODE_LABELS) or ())
    try:
        return ClusterRoom(tuple(groups), tuple(pools), omitted_labels, WELL_KNOWN_LABELS)
    except ValueError:  # a requirement that cannot be read
        return None


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
    has_backoff: bool = False
    """Its leaf records that the cluster was found full."""
    pods: int = 0
    """How many exist there according to its status, also those that terminate."""
    is_rolling_out: bool = False
    """A new pod template replaces the pods there."""
    was_evicted: bool = False
    """It was evicted because the cluster was not ready."""
    first_ordinal: int = 0
    """Its first ordinal, where the kind has ordinals."""

    @property
    def is_stopping(self) -> bool:
        """It still runs more pods than its share."""
        return self.pods > self.replicas


NO_SHARE = CurrentShare()
