"""How a provisioner decides: what its command line says, and what a worker's does without one."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.provision.simulation.model import RESPECT, STRICT

KARPENTER, OPTIMAL = "karpenter", "optimal"
PLANNERS = (KARPENTER, OPTIMAL)
"""Karpenter's rule alone; or its answer made cheaper where it can be."""


@dataclass(frozen=True, slots=True)
class Settings:
    planner: str = OPTIMAL
    idle: float = 0.05
    longest: float = 1.0
    """A batch of pods ends when no new one came for the one, or after the other, in seconds."""
    preferences: str = RESPECT
    """Of pods: Respect, held as long as it goes; Ignore."""
    min_values: str = STRICT
    """Of a NodePool's requirements: Strict; BestEffort, lowered rather than buying nothing."""
    node_repair: bool = False
    """Nodes that the provider's repair policies call ill are replaced."""
    spot_to_spot: bool = False
    """Whether a spot node may be replaced by a cheaper spot node."""
    validation: float = 15.0
    """Seconds between a decision to consolidate and the second look at it."""


DEFAULT = Settings()
