"""Settings of the provisioner: those of the process, or of each hosted cluster. Pure.

Karpenter has one process, and so one set of flags, for each cluster. A worker provisions for many: each hosted cluster
has its own settings, and they change while the worker runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from shoal.kinds.karpenter.karpenter import parse_duration
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

SPEC_FIELDS = {
    "planner": "planner",
    "batchIdleDuration": "batch_idle_seconds",
    "batchMaxDuration": "batch_max_seconds",
    "preferencePolicy": "preference_policy",
    "minValuesPolicy": "min_values_policy",
}
"""Fields of `spec.provisioner`, named as in Karpenter's Helm chart, and the settings they are."""
FEATURE_GATES = {"nodeRepair": "node_repair", "spotToSpotConsolidation": "spot_to_spot_consolidation"}
"""Fields of `spec.provisioner.featureGates`."""


def settings_from_spec(
    spec: Mapping[str, Any] | None, defaults: ProvisionerSettings = DEFAULT_SETTINGS
) -> ProvisionerSettings:
    """Returns the settings of a field `spec.provisioner`, whose values the schema has checked."""
    spec = spec or {}
    values = {SPEC_FIELDS[key]: value for key, value in spec.items() if key in SPEC_FIELDS}
    for field in ("batch_idle_seconds", "batch_max_seconds"):
        if field in values:
            values[field] = parse_duration(values[field]) or 0.0
    gates = spec.get("featureGates") or {}
    values |= {FEATURE_GATES[key]: bool(value) for key, value in gates.items() if key in FEATURE_GATES}
    return replace(defaults, **values)


class SettingsSource(Protocol):
    def settings_of(self, cluster: str) -> ProvisionerSettings:
        """Returns the current settings of a logical cluster."""

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        """Adds a handler that is called with a logical cluster whose settings may have changed."""


@dataclass(frozen=True, slots=True)
class FixedSettings:
    """The same settings for every cluster, for the life of the process."""

    settings: ProvisionerSettings = DEFAULT_SETTINGS

    def settings_of(self, cluster: str) -> ProvisionerSettings:
        return self.settings

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        """They do not change."""


FIXED_DEFAULTS = FixedSettings()
