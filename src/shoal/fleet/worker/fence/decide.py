"""Whether a worker may change a cluster it hosts, by its own clock. Pure.

A lease counts from the start of the renewal that succeeded: the hub cannot have seen it earlier. What was confirmed
before a lapse, or for another epoch, is not confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, moving

Object = dict[str, Any]

HELD = "shoal.dev/held"
"""Annotation of a copy: the hub was told, or is about to be told, that it is changed only while the Lease is fresh."""
FROZEN = "shoal.dev/frozen"
"""Annotation of a copy that is to be moved: nothing of it is changed any more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The worker's, as far as it knows."""

    renewed: float | None = None
    """When the last renewal that succeeded was begun."""
    lapses: int = 0
    """How often it was begun anew, after it had run out or never been."""

    def is_live(self, now: float, seconds: float) -> bool:
        return self.renewed is not None and now - self.renewed < seconds

    def after_renewal(self, start: float, now: float, seconds: float) -> Lease:
        """Once a renewal begun at `start` has succeeded."""
        begun = start if self.renewed is None else max(start, self.renewed)
        return Lease(begun, self.lapses if self.is_live(now, seconds) else self.lapses + 1)


@dataclass(frozen=True, slots=True)
class Hold:
    """What is known of one hosted cluster."""

    epoch: int = 0
    guarded: bool = False
    """It may be given to another worker when this one is silent."""
    frozen: bool = False
    closed: tuple[tuple[str, str], ...] = ()
    """By whom, and why nobody may change it, whatever else is."""
    confirmed: tuple[int, int] = (0, 0)
    """The epoch, and the lapse of the Lease after which the hub has confirmed that it is this worker's."""

    @property
    def is_free(self) -> bool:
        return not (self.guarded or self.frozen or self.closed)

    def is_confirmed(self, lease: Lease) -> bool:
        return lease.lapses > 0 and self.confirmed == (self.epoch, lease.lapses)


def of_copy(hold: Hold, copy: Object | None, *, fences: bool) -> Hold:
    """The same, as its copy is now. `fences`: this worker can promise to stop by itself."""
    if copy is None:
        return Hold(closed=hold.closed)
    notes = copy["metadata"].get("annotations") or {}
    # What the hub wants deleted is not moved any more, and its end is a change.
    stays = not fleet.is_deleting(copy)
    guarded = fences and stays and (moving.moves_when_lost(copy) or HELD in notes) and is_movable(copy)
    return replace(hold, epoch=mark_of(copy).epoch, guarded=guarded, frozen=stays and FROZEN in notes)


def is_movable(copy: Object) -> bool:
    """Of what is not simulated, the machines would stay behind."""
    return fleet.spec_of(copy).get("infrastructure") == "embedded"


def refusal(hosted: str, hold: Hold, lease: Lease, now: float, seconds: float) -> str:
    """Why it may not be changed now; empty: it may."""
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
    """Why the hub's ManagedCluster is not the one this worker hosts; empty: it is."""
    mark = mark_of(copy)
    if managed["metadata"]["uid"] != mark.uid:
        return "the hub has another one of that name"
    if fleet.assigned_worker(managed) != worker:
        return "it is not assigned to this worker"
    if fleet.epoch(managed) != mark.epoch:
        return "it was given to this worker anew"
    return ""


def is_leaving(managed: Object, worker: str) -> bool:
    """Whether the hub wants it moved away from this worker."""
    return moving.move(managed).get("from") == worker and not fleet.is_deleting(managed)
