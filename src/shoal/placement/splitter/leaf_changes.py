"""Changes to the leaves of a root: create, update and delete. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.placement.decide import PlacementDecision

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeafChanges:
    decision: PlacementDecision
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    orphaned: tuple[Object, ...] = ()
    """Leaves of unknown clusters: deleted once it is certain that the clusters do not exist."""
    existing: tuple[Object, ...] = ()
    """Leaves that stay, as they are now."""
    conflicting_names: tuple[str, ...] = ()
    """Leaf names that other objects have."""
    requeue_after: float | None = None
    """Seconds until time alone changes something."""

    is_expired: bool = False
    """The root has finished, and its time to live is over."""

    @property
    def unassigned(self) -> int:
        """Replicas for which there is no feasible cluster."""
        return self.decision.unassigned

    @property
    def is_done(self) -> bool:
        return not self.create and not self.update
