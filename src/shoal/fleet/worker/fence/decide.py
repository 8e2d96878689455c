"""Decides whether a worker may write to a cluster it hosts, by its own clock. Pure.

A lease counts from the start of the renewal that succeeded: the hub cannot have seen it earlier. A confirmation from
before a lapse, or for another epoch, is void.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, moving

Object = dict[str, Any]

HELD = "shoal.dev/held"
"""Annotation of a copy: the hub knows, or is about to be told, that it is written only while the Lease is fresh."""
FROZEN = "shoal.dev/frozen"
"""Annotation of a copy that is being migrated: nothing of it is written any more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The worker's Lease as the worker knows it."""

    renewed: float | None = None
    """When the last successful renewal was started."""
    lapses: int = 0
    """How often it was acquired anew, after it had expired or for the first time."""

    def is_live(self, now: float, seconds: float) -> bool:
        return self.renewed is not None and now - self.renewed < seconds

    def after_renewal(self, start: float, now: float, seconds: float) -> Lease:
        """Returns the state after a renewal that was started at `start` has succeeded."""
        begun = start if self.renewed is None else max(start, self.renewed)
        return Lease(begun, self.lapses if self.is_live(now, seconds) else self.lapses + 1)


@dataclass(frozen=True, slots=True)
class Hold:
    """The write state of one hosted cluster."""

    epoch: int = 0
    guarded: bool = False
    """It may be reassigned to another worker when this one is silent."""
    frozen: bool = False
    closed: tuple[tuple[str, str], ...] = ()
    """Who has closed it, and why no write is allowed, whatever else holds."""
    confirmed: tuple[int, int] = (0, 0)
    """The epoch, and the lapse count of the Lease at which the hub confirmed that it is this worker's."""

    @property
    def is_free(self) -> bool:
        return not (self.guarded or self.frozen or self.closed)

    def is_confirmed(self, lease: Lease) -> bool:
        return lease.lapses > 0 and self.confirmed == (self.epoch, lease.lapses)


def of_copy(hold: Hold, copy: Object | None, *, fences: bool) -> Hold:
    """Returns the hold after a change of its copy. `fences`: this worker can promise to stop writing by itself."""
    if copy is None:
        return Hold(closed=hold.closed)
    notes = copy["metadata"].get("annotations") or {}
    # A cluster that the hub wants deleted is not migrated any more, and its deletion is a write.
    stays = not fleet.is_deleting(copy)
    guarded = fences and stays and (moving.moves_when_lost(copy) or HELD in notes) and is_movable(copy)
    return replace(hold, epoch=mark_of(copy).epoch, guarded=guarded, frozen=stays and FROZEN in notes)


def is_movable(copy: Object) -> bool:
    """The machines of infrastructures that are not simulated would stay behind."""
    return fleet.spec_of(copy).get("infrastructure") == "embedded"


def refusal(hosted: str, hold: Hold, lease: Lease, now: float, seconds: float) -> str:
    """Returns why it may not be written now; empty if it may."""
    if hold.closed:
        return f"cluster {hosted} is read-only: {hold.closed[0][1]}"
    if hold.frozen:
        return f"cluster {hosted} is read-only: it is being moved to another worker"
    if not hold.guarded:
        return ""
    if not lease.is_live(now, seconds):
        said = f"its worker has not reached the hub for {seconds:.0f} s and may have lost it"
        return f"cluster {hosted} is read-only: {said}"
    if not hold.is_confirmed(lease):
        return f"cluster {hosted} is read-only: the hub has not confirmed yet that it is still this worker's"
    return ""


def not_ours(managed: Object, worker: str, copy: Object) -> str:
    """Returns why the hub's ManagedCluster is not the one this worker hosts; empty if it is."""
    mark = mark_of(copy)
    if managed["metadata"]["uid"] != mark.uid:
        return "the hub has another one of that name"
    if fleet.assigned_worker(managed) != worker:
        return "it is not assigned to this worker"
    if fleet.epoch(managed) != mark.epoch:
        return "it was given to this worker anew"
    return ""


def is_leaving(managed: Object, worker: str) -> bool:
    """True if the hub wants it migrated away from this worker."""
    return moving.move(managed).get("from") == worker and not fleet.is_deleting(managed)
