"""Decides whether an auto-created Worker is deleted because it has hosted nothing for a while. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.scheduler.growth import Setting
from shoal.kinds import fleet

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    empty_since: float | None = None
    """On the monotonic clock; None if it is not empty, or if that does not matter."""
    delete: bool = False
    again: float | None = None


def concerns(worker: Object) -> bool:
    metadata = worker["metadata"]
    made = fleet.AUTO_WORKER in (metadata.get("labels") or {})
    return made and metadata.get("namespace") == fleet.NAMESPACE and not fleet.is_deleting(worker)


def decide(worker: Object, hosted: bool, empty_since: float | None, allowed: Setting, monotonic: float) -> Decision:
    """`has_clusters`: a ManagedCluster is assigned to it. `empty_since`: when it was first seen empty. Without
    settings, or with invalid ones, nothing is deleted.
    """
    if not concerns(worker) or hosted or allowed.wrong or allowed.empty_seconds is None:
        return Decision()
    since = monotonic if empty_since is None else empty_since
    left = since + allowed.empty_seconds - monotonic
    return Decision(since, left <= 0, left if left > 0 else None)
