"""Decides whether an auto-created Worker is deleted because it has hosted nothing for a while. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.scheduler.scaleup import AutoWorkerSettings
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScaleDownDecision:
    empty_since: float | None = None
    """On the monotonic clock; None if it is not empty, or if that does not matter."""
    delete: bool = False
    requeue_after: float | None = None


def is_auto_worker(worker: Object) -> bool:
    metadata = worker["metadata"]
    is_auto = infrav1.AUTO_WORKER_LABEL in (metadata.get("labels") or {})
    return is_auto and metadata.get("namespace") == infrav1.NAMESPACE and not infrav1.is_deleting(worker)


def decide(
    worker: Object, has_clusters: bool, empty_since: float | None, settings: AutoWorkerSettings, monotonic: float
) -> ScaleDownDecision:
    """`has_clusters`: a ManagedCluster is assigned to it. `empty_since`: when it was first seen empty. Without
    settings, or with invalid ones, nothing is deleted.
    """
    if not is_auto_worker(worker) or has_clusters or settings.settings_error or settings.empty_seconds is None:
        return ScaleDownDecision()
    first_empty = monotonic if empty_since is None else empty_since
    remaining = first_empty + settings.empty_seconds - monotonic
    return ScaleDownDecision(first_empty, remaining <= 0, remaining if remaining > 0 else None)
