"""Merges the statuses that one object has in several workload Clusters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]

CLAIM_PHASES = ("Lost", "Pending", "Bound")
"""Phases of a PersistentVolumeClaim. The first one that any cluster has is the phase of all."""


def agreed_fields(statuses: Sequence[Object]) -> Object:
    """Returns the fields that have the same value in all statuses."""
    return {
        name: value
        for name, value in (statuses[0] if statuses else {}).items()
        if all(name in status and status[name] == value for status in statuses)
    }


def claim_status(statuses: Sequence[Object]) -> Object:
    """Returns the status of a PersistentVolumeClaim: without a phase it is pending."""
    phases = [status.get("phase", "Pending") for status in statuses]
    return {**agreed_fields(statuses), "phase": next((phase for phase in CLAIM_PHASES if phase in phases), "Pending")}
