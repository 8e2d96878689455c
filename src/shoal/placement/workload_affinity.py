"""Affinity of a placed object to other placed objects of its namespace: the terms of a Placement. Pure.

A term is parsed without clusters. Whoever knows where the other objects are adds these (splitter/followers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.placement.resource_selector import ResourceSelector, parse_resource_selector

Object = dict[str, Any]
AFFINITY, ANTI_AFFINITY = "workloadAffinity", "workloadAntiAffinity"
"""Fields of `spec.clusters`."""


@dataclass(frozen=True, slots=True)
class WorkloadTerm:
    selectors: tuple[ResourceSelector, ...]
    is_anti: bool = False
    weight: int = 0
    """Of a preference; 0: the term is required."""
    clusters: frozenset[str] | None = None
    """Clusters with a share of another object that matches. None: the term does not restrict anything."""

    @property
    def is_required(self) -> bool:
        return not self.weight

    def is_met_by(self, cluster: str) -> bool:
        return self.clusters is None or (cluster in self.clusters) != self.is_anti

    def matches(self, obj: Object) -> bool:
        return any(one.matches_object(obj) for one in self.selectors)

    def __str__(self) -> str:
        return " or ".join(map(str, self.selectors))


def parse_workload_terms(clusters: Object) -> tuple[WorkloadTerm, ...]:
    """`clusters` is `spec.clusters`. Raises BadRequest, with the field's path, if a term is invalid."""
    return tuple(
        WorkloadTerm(
            tuple(
                parse_resource_selector(selector, f"spec.clusters.{field}[{index}].selects[{position}]")
                for position, selector in enumerate(term["selects"])
            ),
            is_anti=field == ANTI_AFFINITY,
            weight=0 if term.get("required", True) else term.get("weight", 1),
        )
        for field in (AFFINITY, ANTI_AFFINITY)
        for index, term in enumerate(clusters.get(field) or ())
    )
