"""Marks an object for graceful deletion and sets its grace period. Pure."""

from __future__ import annotations

from typing import Any

from shoal.clock import rfc3339
from shoal.kinds.strategy import Strategy
from shoal.objects.duration import parse_time

Object = dict[str, Any]

MAX_GRACE_SECONDS = 10**10
"""About three centuries: the longest period that can still be added to a date."""


NO_GRACE_KINDS = {"Namespace": "v1", "CustomResourceDefinition": "apiextensions.k8s.io/v1"}
"""Kinds whose content is deleted first. Their own deletion is a plain update."""


def before_delete(strategy: Strategy, obj: Object, requested: int | None, now: float) -> bool:
    """Marks the object, or shortens its remaining grace period. Returns False if nothing changed."""
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return _shorten_grace(metadata, requested, now)
    seconds = (
        min(strategy.check_graceful_delete(obj, requested), MAX_GRACE_SECONDS)
        if strategy.check_graceful_delete is not None
        else 0
    )
    metadata["deletionTimestamp"] = rfc3339(now + seconds)
    if obj["kind"] in NO_GRACE_KINDS and NO_GRACE_KINDS[obj["kind"]] == obj["apiVersion"]:
        return True
    metadata["deletionGracePeriodSeconds"] = seconds
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True


def _shorten_grace(metadata: Object, requested: int | None, now: float) -> bool:
    left = metadata.get("deletionGracePeriodSeconds") or 0
    if requested is None or not left:
        return False
    seconds = requested if requested >= 0 else 1
    if seconds >= left:
        return False
    end = (parse_time(metadata["deletionTimestamp"]) or now) - left + seconds
    if end < now:
        # The period is over, but a nonzero request still leaves a second for a clean end.
        end, seconds = now, min(seconds, 1)
    metadata["deletionTimestamp"] = rfc3339(end)
    metadata["deletionGracePeriodSeconds"] = seconds
    return True
