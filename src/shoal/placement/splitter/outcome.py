"""What a look at a root comes to: the leaves to make, to put right and to remove. Pure."""

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
    """Leaves of clusters nobody knows of: to be deleted once it is certain that there are none."""
    leaves: tuple[Object, ...] = ()
    """Those that stay, as they are found."""
    taken: tuple[str, ...] = ()
    """Names of leaves that other objects have."""
    later: float | None = None
    """Seconds until time alone changes something."""

    expired: bool = False
    """The root is over, and asked to be gone by now."""

    @property
    def unplaced(self) -> int:
        """Replicas for which no cluster is open."""
        return self.placed.unplaced

    @property
    def is_done(self) -> bool:
        return not self.create and not self.update
