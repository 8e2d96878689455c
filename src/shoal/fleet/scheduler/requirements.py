"""What a ManagedCluster requires of a Worker. Pure. ManagedClusters with equal requirements share one
ClusterRequirements object, and one scheduling result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.fit.resources import Resources, add_to, parse_amounts
from shoal.kinds.fleet import infrav1, kindhosting
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_EVERYTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

NODES, CPU, MEMORY = "nodes", "cpu", "memory"
MACHINE_CPU, MACHINE_MEMORY = "machine-cpu", "machine-memory"
"""What the nodes of kind clusters take of the machine of their Worker."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterRequirements:
    """Compared by identity: RequirementsCache creates one object per distinct value."""

    infrastructure: str = "embedded"
    location: str = ""
    preferred_locations: tuple[str, ...] = ()
    """Locations, most preferred first."""
    version: str = ""
    selector: LabelSelector = SELECT_EVERYTHING
    tolerations: tuple[Object, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    """Resources that its nodes request."""
    selector_error: str = ""
    """Why the worker selector cannot be parsed; empty if it can."""


def requirements_of(managed: Object) -> ClusterRequirements:
    spec = infrav1.spec_of(managed)
    selector, selector_error = SELECT_EVERYTHING, ""
    try:
        if spec.get("workerSelector"):
            selector = from_label_selector(spec["workerSelector"])
    except BadRequest as error:
        selector_error = f"spec.workerSelector: {error}"
    return ClusterRequirements(
        infrastructure=spec.get("infrastructure") or "embedded",
        location=spec.get("location") or "",
        preferred_locations=tuple(spec.get("preferredLocations") or ()),
        version=spec.get("version") or "",
        selector=selector,
        tolerations=tuple(spec.get("tolerations") or ()),
        requests=node_requests(managed),
        selector_error=selector_error,
    )


def node_requests(managed: Object) -> Resources:
    """Returns what its nodes take of a Worker's `spec.allocatable`, and those of a kind cluster of the machine."""
    if kindhosting.is_kind(managed):
        return _kind_node_requests(kindhosting.node_count(managed))
    total: Resources = {}
    for size, count in infrav1.requested_machines(managed):
        if count:
            each = parse_amounts({CPU: size.cpu, MEMORY: size.memory, NODES: 1})
            add_to(total, {name: amount * count for name, amount in each.items()})
    return total


def _kind_node_requests(count: int) -> Resources:
    each = parse_amounts({CPU: kindhosting.NODE_CPU, MEMORY: kindhosting.NODE_MEMORY, NODES: 1})
    each |= {MACHINE_CPU: each[CPU], MACHINE_MEMORY: each[MEMORY]}
    return {name: amount * count for name, amount in each.items()}


class RequirementsCache:
    """Interns one ClusterRequirements for all ManagedClusters that require the same."""

    def __init__(self) -> None:
        self._cached: dict[bytes, ClusterRequirements] = {}

    def of(self, managed: Object) -> ClusterRequirements:
        key = orjson.dumps([infrav1.spec_of(managed).get(field) for field in _FIELDS], option=orjson.OPT_SORT_KEYS)
        requirements = self._cached.get(key)
        if requirements is None:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            requirements = self._cached[key] = requirements_of(managed)
        return requirements


MAX_CACHED = 10_000
_FIELDS = (
    *("infrastructure", "location", "preferredLocations", "version"),
    *("workerSelector", "tolerations", "nodes", "nodePools"),
)
"""Spec fields that ClusterRequirements is built from."""
