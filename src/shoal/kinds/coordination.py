"""Lease of coordination.k8s.io/v1: validation. Pure."""

from __future__ import annotations

from typing import Any

from shoal.objects.errors import Cause, invalid_value


def validate_lease(obj: dict[str, Any], old: dict[str, Any] | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = []
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(seconds, int) and seconds <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if isinstance(transitions, int) and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes
