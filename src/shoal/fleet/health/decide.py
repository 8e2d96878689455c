"""Whether a Worker is there: from its Lease, by the hub's own clock. Pure.

The worker's clock may be wrong, so what counts is when the hub saw the Lease change. Only for a Lease found at the
start is its own time believed, and a Worker that was ready then has a while to show that it still is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shoal.kinds import fleet
from shoal.objects.conditions import condition_is, set_condition

Object = dict[str, Any]

GRACE_SECONDS = 15.0
"""For a Worker that was ready when the hub was started, whatever the age of its Lease."""
NEVER, SILENT, HEARD = "NeverHeard", "HeartbeatMissing", "Heartbeat"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    renewed: str
    """The Lease's own time; a different one is a sign of life."""
    heard: float
    """When that sign came, on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Health:
    status: Object | None
    """The part of the status to write, which nobody else does; None: it is right as it is."""
    again: float | None
    """When to look again if nothing is heard."""


def heartbeat(before: Heartbeat | None, lease: Object, was_ready: bool, now: float, monotonic: float) -> Heartbeat:
    renewed = str((lease.get("spec") or {}).get("renewTime") or "")
    if before is not None:
        return before if renewed == before.renewed else Heartbeat(renewed, monotonic)
    age = max(0.0, now - _seconds(renewed))
    if was_ready:
        age = min(age, fleet.SILENCE_SECONDS - GRACE_SECONDS)
    return Heartbeat(renewed, monotonic - age)


def _seconds(renewed: str) -> float:
    try:
        return datetime.fromisoformat(renewed).timestamp()
    except ValueError:
        return 0.0


def was_ready(worker: Object) -> bool:
    return condition_is(worker, fleet.READY)


def health(worker: Object, heard: Heartbeat | None, monotonic: float, now: str) -> Health:
    left = fleet.SILENCE_SECONDS - (monotonic - heard.heard) if heard is not None else 0.0
    if heard is None:
        told = _told(worker, "Unknown", NEVER, "nothing has been heard of it yet", fleet.PENDING, now)
    elif left <= 0:
        message = f"no heartbeat for more than {fleet.SILENCE_SECONDS:.0f} seconds"
        told = _told(worker, "Unknown", SILENT, message, fleet.LOST, now)
    else:
        told = _told(worker, "True", HEARD, "it renews its Lease", fleet.RUNNING, now)
    return Health(None if told.items() <= fleet.status_of(worker).items() else told, left if left > 0 else None)


def _told(worker: Object, ready: str, reason: str, message: str, phase: str, now: str) -> Object:
    generation = worker["metadata"].get("generation")
    told = set_condition(
        worker, fleet.READY, ready, reason=reason, message=message, observed_generation=generation, now=now
    )
    phase = fleet.TERMINATING if fleet.is_deleting(worker) else phase
    return {"phase": phase, "conditions": fleet.status_of(told)["conditions"]}
