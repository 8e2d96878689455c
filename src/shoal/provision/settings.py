"""Settings of the provisioner: from the command line, or the defaults that a worker uses."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.provision.simulation.model import RESPECT, STRICT

KARPENTER, OPTIMAL = "karpenter", "optimal"
PLANNERS = (KARPENTER, OPTIMAL)
"""`karpenter` uses Karpenter's algorithm alone. `optimal` lets the solver make its results cheaper where it can."""


@dataclass(frozen=True, slots=True)
class ProvisionerSettings:
    planner: str = OPTIMAL
    batch_idle_seconds: float = 0.05
    batch_max_seconds: float = 1.0
    """In seconds. A batch of pods ends when no new pod came for `batch_idle_seconds`, or after `batch_max_seconds`."""
    preference_policy: str = RESPECT
    """Of pods. Respect: preferences hold as long as possible. Ignore: they are not considered."""
    min_values_policy: str = STRICT
    """Of NodePool requirements. Strict: must hold. BestEffort: lowered rather than buying nothing."""
    node_repair: bool = False
    """Replaces nodes that the provider's repair policies call unhealthy."""
    spot_to_spot_consolidation: bool = False
    """Allows a spot node to be replaced by a cheaper spot node."""
    validation_seconds: float = 15.0
    """Seconds between a decision to consolidate and its validation."""


DEFAULT_SETTINGS = ProvisionerSettings()
