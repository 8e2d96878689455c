"""What a ManagedCluster requires of a Worker. Pure. ManagedClusters with equal requirements share one
ClusterRequirements object, and one scheduling result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.fit.resources import Resources, add_to, amounts
from shoal.kinds import fleet
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import EVERYTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

NODES, CPU, MEMORY = "nodes", "cpu", "memory"


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Compared by identity: RequirementsCache creates one object per distinct value."""

    infrastructure: str = "embedded"
    location: str = ""
    preferred: tuple[str, ...] = ()
    """Locations, most preferred first."""
    version: str = ""
    selector: LabelSelector = EVERYTHING
    tolerations: tuple[Object, ...] = ()
    need: Mapping[str, int] = field(default_factory=dict)
    """Resources that its nodes request."""
    wrong: str = ""
    """Why the worker selector cannot be parsed; empty if it can."""


def demand(managed: Object) -> Demand:
    spec = fleet.spec_of(managed)
    selector, wrong = EVERYTHING, ""
    try:
        if spec.get("workerSelector"):
            selector = from_label_selector(spec["workerSelector"])
    except BadRequest as error:
        wrong = f"spec.workerSelector: {error}"
    return Demand(
        infrastructure=spec.get("infrastructure") or "embedded",
        location=spec.get("location") or "",
        preferred=tuple(spec.get("preferredLocations") or ()),
        version=spec.get("version") or "",
        selector=selector,
        tolerations=tuple(spec.get("tolerations") or ()),
        need=need(managed),
        wrong=wrong,
    )


def need(managed: Object) -> Resources:
    """Returns what its nodes take of a Worker's `spec.allocatable`."""
    total: Resources = {}
    for size, number in fleet.machines(managed):
        if number:
            each = amounts({CPU: size.cpu, MEMORY: size.memory, NODES: 1})
            add_to(total, {name: amount * number for name, amount in each.items()})
    return total


class Demands:
    """Interns one ClusterRequirements for all ManagedClusters that require the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, Demand] = {}

    def of(self, managed: Object) -> Demand:
        said = orjson.dumps([fleet.spec_of(managed).get(field) for field in _FIELDS], option=orjson.OPT_SORT_KEYS)
        found = self._known.get(said)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[said] = demand(managed)
        return found


REMEMBERED = 10_000
_FIELDS = (
    *("infrastructure", "location", "preferredLocations", "version"),
    *("workerSelector", "tolerations", "nodes", "nodePools"),
)
"""Spec fields that ClusterRequirements is built from."""
