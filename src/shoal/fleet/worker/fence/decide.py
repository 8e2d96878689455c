"""Decides whether a worker may write to a cluster it hosts, by its own clock. Pure.

A lease counts from the start of the renewal that succeeded: the hub cannot have seen it earlier. A confirmation from
before a lapse, or for another epoch, is void.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.fleet import infrav1, migration

Object = dict[str, Any]

HELD_ANNOTATION = "shoal.dev/held"
"""Annotation of a copy: the hub knows, or is about to be told, that it is written only while the Lease is fresh."""
FROZEN_ANNOTATION = "shoal.dev/frozen"
"""Annotation of a copy that is being migrated: nothing of it is written any more."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The worker's Lease as the worker knows it."""

    renewed_at: float | None = None
    """When the last successful renewal was started."""
    lapses: int = 0
    """How often it was acquired anew, after it had expired or for the first time."""

    def is_live(self, now: float, seconds: float) -> bool:
        return self.renewed_at is not None and now - self.renewed_at < seconds

    def after_renewal(self, start: float, now: float, seconds: float) -> LeaseState:
        """Returns the state after a renewal that was started at `start` has succeeded."""
        started = start if self.renewed_at is None else max(start, self.renewed_at)
        return LeaseState(started, self.lapses if self.is_live(now, seconds) else self.lapses + 1)


@dataclass(frozen=True, slots=True)
class ClusterHold:
    """The write state of one hosted cluster."""

    epoch: int = 0
    is_guarded: bool = False
    """It may be reassigned to another worker when this one is silent."""
    is_frozen: bool = False
    closures: tuple[tuple[str, str], ...] = ()
    """Who has closed it, and why no write is allowed, whatever else holds."""
    confirmed: tuple[int, int] = (0, 0)
    """The epoch, and the lapse count of the Lease at which the hub confirmed that it is this worker's."""

    @property
    def is_unrestricted(self) -> bool:
        return not (self.is_guarded or self.is_frozen or self.closures)

    def is_confirmed(self, lease: LeaseState) -> bool:
        return lease.lapses > 0 and self.confirmed == (self.epoch, lease.lapses)


def hold_of_copy(hold: ClusterHold, copy: Object | None, *, fences: bool) -> ClusterHold:
    """Returns the hold after a change of its copy. `fences`: this worker can promise to stop writing by itself."""
    if copy is None:
        return ClusterHold(closures=hold.closures)
    annotations_now = copy["metadata"].get("annotations") or {}
    # A cluster that the hub wants deleted is not migrated any more, and its deletion is a write.
    is_staying = not infrav1.is_deleting(copy)
    guarded = (
        fences
        and is_staying
        and (migration.migrates_on_worker_loss(copy) or HELD_ANNOTATION in annotations_now)
        and is_movable(copy)
    )
    return replace(
        hold,
        epoch=version_of(copy).epoch,
        is_guarded=guarded,
        is_frozen=is_staying and FROZEN_ANNOTATION in annotations_now,
    )


def is_movable(copy: Object) -> bool:
    """The machines of infrastructures that are not simulated would stay behind."""
    return infrav1.spec_of(copy).get("infrastructure") == "embedded"


def write_denied_reason(hosted: str, hold: ClusterHold, lease: LeaseState, now: float, seconds: float) -> str:
    """Returns why it may not be written now; empty if it may."""
    if hold.closures:
        return f"cluster {hosted} is read-only: {hold.closures[0][1]}"
    if hold.is_frozen:
        return f"cluster {hosted} is read-only: it is being moved to another worker"
    if not hold.is_guarded:
        return ""
    if not lease.is_live(now, seconds):
        detail = f"its worker has not reached the hub for {seconds:.0f} s and may no longer own it"
        return f"cluster {hosted} is read-only: {detail}"
    if not hold.is_confirmed(lease):
        return f"cluster {hosted} is read-only: the hub has not confirmed yet that this worker still owns it"
    return ""


def ownership_error(managed: Object, worker: str, copy: Object) -> str:
    """Returns why the hub's ManagedCluster is not the one this worker hosts; empty if it is."""
    version = version_of(copy)
    if managed["metadata"]["uid"] != version.uid:
        return "the hub has another ManagedCluster with this name"
    if infrav1.assigned_worker(managed) != worker:
        return "it is not assigned to this worker"
    if infrav1.epoch(managed) != version.epoch:
        return "it was assigned to this worker again"
    return ""


def is_leaving(managed: Object, worker: str) -> bool:
    """True if the hub wants it migrated away from this worker."""
    return migration.planned_migration(managed).get("from") == worker and not infrav1.is_deleting(managed)
