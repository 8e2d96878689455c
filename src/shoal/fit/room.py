"""Room for pods in the nodes of a whole cluster, from groups of alike nodes and from the pools that can buy more. Pure.

It is an estimate for the choice of a cluster. The scheduler of the cluster decides about nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shoal.fit.affinity import matches_node_affinity
from shoal.fit.requirements import Requirements, from_pod, required_terms
from shoal.fit.resources import Resources, fits
from shoal.fit.taints import first_untolerated

Object = dict[str, Any]

UNLIMITED = 2**53
"""Room of a pool without limits: more than any number of replicas."""
MAX_REMEMBERED = 1000
"""The most demands whose room is remembered for a cluster."""


@dataclass(frozen=True)
class PodDemand:
    """What one replica demands of a node. Without a pod spec every cluster has room."""

    requests: Resources = field(default_factory=dict)
    spec: Object | None = None

    @cached_property
    def key(self) -> str:
        """Equal for demands that fit in the same nodes."""
        spec = self.spec or {}
        affinity = (spec.get("affinity") or {}).get("nodeAffinity")
        parts = [self.requests, spec.get("nodeSelector"), affinity, spec.get("tolerations"), spec.get("nodeName")]
        return json.dumps(parts, sort_keys=True)

    @cached_property
    def label_keys(self) -> frozenset[str]:
        """Labels of nodes that decide whether it fits."""
        spec = self.spec or {}
        expressions = (each for term in required_terms(spec) for each in term.get("matchExpressions") or ())
        return frozenset(spec.get("nodeSelector") or ()) | {str(each.get("key")) for each in expressions}

    @cached_property
    def names_nodes(self) -> bool:
        """Whether it depends on the names of nodes, which groups do not have."""
        spec = self.spec or {}
        return bool(spec.get("nodeName")) or any(term.get("matchFields") for term in required_terms(spec))


NO_DEMAND = PodDemand()


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same labels and taints."""

    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    free: Resources
    largest_free: Resources
    """The largest free amount of a single node, for each resource."""

    def takes(self, spec: Object) -> bool:
        """Returns whether a pod may be scheduled there, whatever it requests."""
        is_tolerated = first_untolerated(self.taints, spec.get("tolerations") or ()) is None
        return is_tolerated and matches_node_affinity(spec, "", self.labels)


@dataclass(frozen=True, slots=True)
class PoolRoom:
    """What a NodePool can buy."""

    requirements: Requirements
    taints: tuple[Object, ...]
    remaining: Resources | None
    """What its limits leave, of the resources that they name; None: it has no limits."""

    def takes(self, spec: Object, allow_undefined: frozenset[str]) -> bool:
        if first_untolerated(self.taints, spec.get("tolerations") or ()) is not None:
            return False
        alternatives = (from_pod(spec, term) for term in range(max(len(required_terms(spec)), 1)))
        return any(self.requirements.is_compatible(each, allow_undefined) for each in alternatives)


@dataclass(frozen=True, slots=True)
class RoomEstimate:
    has_matching_nodes: bool
    """Some node, or a node that could be bought, satisfies node selector, affinity and tolerations."""
    replicas: int | None
    """How many more fit; None: unknown."""


@dataclass(frozen=True)
class ClusterRoom:
    groups: tuple[NodeGroup, ...] = ()
    pools: tuple[PoolRoom, ...] = ()
    omitted_labels: frozenset[str] = frozenset()
    """Labels of nodes that the groups do not have, because too many nodes differ in them."""
    well_known_labels: frozenset[str] = frozenset()
    """Labels that a bought node has with some value, whether or not its pool names them."""
    _estimates: dict[str, RoomEstimate] = field(default_factory=dict, compare=False, repr=False)

    @property
    def shape(self) -> object:
        """Equal if only amounts differ."""
        pools = [(pool.requirements, pool.taints) for pool in self.pools]
        return [(group.labels, group.taints) for group in self.groups], pools, self.omitted_labels

    @property
    def is_empty(self) -> bool:
        return not self.groups and not self.pools

    def estimate(self, demand: PodDemand) -> RoomEstimate:
        estimate = self._estimates.get(demand.key)
        if estimate is None:
            if len(self._estimates) >= MAX_REMEMBERED:
                self._estimates.clear()
            estimate = self._estimates[demand.key] = self._compute(demand)
        return estimate

    def _compute(self, demand: PodDemand) -> RoomEstimate:
        if demand.spec is None:
            return RoomEstimate(True, UNLIMITED)
        if demand.names_nodes or demand.label_keys & self.omitted_labels:
            return RoomEstimate(not self.is_empty, None if not self.is_empty else 0)
        try:
            groups = [group for group in self.groups if group.takes(demand.spec)]
            pools = [pool for pool in self.pools if pool.takes(demand.spec, self.well_known_labels)]
        except ValueError:  # a malformed selector matches no node
            groups, pools = [], []
        room = sum(count_fitting(demand.requests, each.free, each.largest_free) for each in groups)
        room += sum(_count_bought(demand.requests, pool.remaining) for pool in pools)
        return RoomEstimate(bool(groups or pools), min(room, UNLIMITED))


def count_fitting(requests: Mapping[str, int], free: Mapping[str, int], largest_free: Mapping[str, int]) -> int:
    """Returns how many fit in nodes with these free amounts together, of which no node has more than the largest."""
    return _count(requests, free) if fits(requests, largest_free) else 0


def _count_bought(requests: Mapping[str, int], remaining: Mapping[str, int] | None) -> int:
    """Resources without a limit can be bought."""
    if remaining is None:
        return UNLIMITED
    return _count({name: amount for name, amount in requests.items() if name in remaining}, remaining)


def _count(requests: Mapping[str, int], free: Mapping[str, int]) -> int:
    counts: Iterable[int] = (free.get(name, 0) // amount for name, amount in requests.items() if amount > 0)
    return max(min(counts, default=UNLIMITED), 0)
