"""Whether a Worker is there, and what that means for the ManagedClusters given to it. Pure.

It is told from its Lease, by the hub's own clock: the worker's may be wrong, so what counts is when the hub saw the
Lease change. Only for a Lease found at the start is its own time believed, and a Worker that was ready then has a while
to show that it still is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shoal.kinds import fleet
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]

GRACE_SECONDS = 15.0
"""For a Worker that was ready when the hub was started, whatever the age of its Lease."""
NEVER, SILENT, HEARD = "NeverHeard", "HeartbeatMissing", "Heartbeat"
MISSING = "WorkerMissing"
OTHER_HUB, ACCEPTED = "AnotherHub", "Accepted"
HOSTING, EMPTY = "HostsManagedClusters", "NothingHosted"
NAMED = 3
"""ManagedClusters that are named where many are meant."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    renewed: str
    """The Lease's own time; a different one is a sign of life."""
    heard: float
    """When that sign came, on the monotonic clock."""
    pinned: str = ""
    """The id of another hub, which the worker says it belongs to."""


@dataclass(frozen=True, slots=True)
class Health:
    status: Object | None
    """The part of the status to write, which nobody else does; None: it is right as it is."""
    again: float | None
    """When to look again if nothing is heard."""


def heartbeat(before: Heartbeat | None, lease: Object, was_ready: bool, now: float, monotonic: float) -> Heartbeat:
    renewed = str((lease.get("spec") or {}).get("renewTime") or "")
    pinned = str(((lease.get("metadata") or {}).get("annotations") or {}).get(fleet.PINNED_HUB) or "")
    if before is not None:
        return before if renewed == before.renewed else Heartbeat(renewed, monotonic, pinned)
    age = max(0.0, now - _seconds(renewed))
    if was_ready:
        age = min(age, fleet.SILENCE_SECONDS - GRACE_SECONDS)
    return Heartbeat(renewed, monotonic - age, pinned)


def _seconds(renewed: str) -> float:
    try:
        return datetime.fromisoformat(renewed).timestamp()
    except ValueError:
        return 0.0


def was_ready(worker: Object) -> bool:
    return condition_is(worker, fleet.READY)


def health(
    worker: Object,
    heard: Heartbeat | None,
    monotonic: float,
    now: str,
    hosted: Sequence[str] | None = None,
    awaited: Sequence[str] | None = None,
) -> Health:
    """`hosted` are the ManagedClusters it has, `awaited` those whose end waits for its word; None: that is not known
    yet."""
    left = fleet.SILENCE_SECONDS - (monotonic - heard.heard) if heard is not None else 0.0
    if heard is None:
        told = _told(worker, "Unknown", NEVER, "nothing has been heard of it yet", fleet.PENDING, now)
    elif left <= 0:
        message = f"no heartbeat for more than {fleet.SILENCE_SECONDS:.0f} seconds"
        told = _told(worker, "Unknown", SILENT, message, fleet.LOST, now)
    else:
        told = _told(worker, "True", HEARD, "it renews its Lease", fleet.RUNNING, now)
    if heard is not None:
        told["conditions"] = _belonging({**worker, "status": told}, heard.pinned, now)
    if fleet.is_deleting(worker) and hosted is not None:
        told["conditions"] = _deleting({**worker, "status": told}, hosted, now)
    if awaited is not None and list(awaited) != (fleet.status_of(worker).get("awaited") or []):
        told["awaited"] = list(awaited) or None
    return Health(None if told.items() <= fleet.status_of(worker).items() else told, left if left > 0 else None)


def _told(worker: Object, ready: str, reason: str, message: str, phase: str, now: str) -> Object:
    generation = worker["metadata"].get("generation")
    told = set_condition(
        worker, fleet.READY, ready, reason=reason, message=message, observed_generation=generation, now=now
    )
    phase = fleet.TERMINATING if fleet.is_deleting(worker) else phase
    return {"phase": phase, "conditions": fleet.status_of(told)["conditions"]}


def _belonging(worker: Object, pinned: str, now: str) -> list[Object]:
    """Said when it is another hub's, and taken back when it is not any more."""
    before: list[Object] = fleet.status_of(worker)["conditions"]
    if not pinned and get_condition(worker, fleet.HUB_ACCEPTED) is None:
        return before
    status, reason, message = "True", ACCEPTED, "it belongs to this hub"
    if pinned:
        message = (
            f"it belongs to the hub {pinned}: nothing is deleted for this one; to accept this one, delete ConfigMap "
            f"{fleet.NAMESPACE}/hub of the worker's own API"
        )
        status, reason = "False", OTHER_HUB
    generation = worker["metadata"].get("generation")
    told = set_condition(
        worker, fleet.HUB_ACCEPTED, status, reason=reason, message=message, observed_generation=generation, now=now
    )
    found: list[Object] = fleet.status_of(told)["conditions"]
    return found


def _deleting(worker: Object, hosted: Sequence[str], now: str) -> list[Object]:
    """Why it is still there."""
    reason, message = EMPTY, "no ManagedCluster is given to it"
    if hosted:
        some = ", ".join(sorted(hosted)[:NAMED]) + (", …" if len(hosted) > NAMED else "")
        count = "1 ManagedCluster" if len(hosted) == 1 else f"{len(hosted)} ManagedClusters"
        first = "must be moved (spec.drain: true) or deleted first"
        reason, message = HOSTING, f"{count} it hosts {first}: {some}; it gets no new ones"
    generation = worker["metadata"].get("generation")
    told = set_condition(
        worker, fleet.DELETING, "True", reason=reason, message=message, observed_generation=generation, now=now
    )
    found: list[Object] = fleet.status_of(told)["conditions"]
    return found


def is_silent(worker: Object | None) -> bool:
    """One that has joined, and of which nothing is heard; or that is not there at all."""
    return worker is None or condition_is(worker, fleet.READY, "Unknown")


def says_silent(managed: Object) -> bool:
    return condition_is(managed, fleet.WORKER_READY, "Unknown")


def standing(managed: Object, worker: Object | None, now: str) -> Object | None:
    """The status of a ManagedCluster whose Worker has fallen silent, or is heard again; None: it is right as it is."""
    name = fleet.assigned_worker(managed)
    if not name or is_silent(worker) == says_silent(managed):
        return None
    told = ("True", HEARD, f"worker {name} is heard again")
    if worker is None:
        told = ("Unknown", MISSING, f"there is no Worker {name}: what it hosts may run all the same")
    elif is_silent(worker):
        ready = get_condition(worker, fleet.READY) or {}
        message = f"worker {name}: {ready.get('message')}; what it hosts may run all the same"
        told = ("Unknown", str(ready.get("reason")), message)
    generation, (status, reason, message) = managed["metadata"].get("generation"), told
    found = set_condition(
        managed, fleet.WORKER_READY, status, reason=reason, message=message, observed_generation=generation, now=now
    )
    return {**fleet.status_of(found), "phase": fleet.phase_of(found)}
