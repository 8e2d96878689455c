"""Changes to the leaves of a root: create, update and delete. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.placement.decide import Placed

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Split:
    placed: Placed
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    absent: tuple[Object, ...] = ()
    """Leaves of unknown clusters: deleted once it is certain that the clusters do not exist."""
    leaves: tuple[Object, ...] = ()
    """Leaves that stay, as they are now."""
    taken: tuple[str, ...] = ()
    """Leaf names that other objects have."""
    later: float | None = None
    """Seconds until time alone changes something."""

    expired: bool = False
    """The root has finished, and its time to live is over."""

    @property
    def unplaced(self) -> int:
        """Replicas for which there is no feasible cluster."""
        return self.placed.unplaced

    @property
    def is_done(self) -> bool:
        return not self.create and not self.update
