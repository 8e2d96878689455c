"""Decides whether a Worker is alive, and what that means for its ManagedClusters. Pure.

It is judged from the Lease by the hub's own clock, because the worker's may be wrong: what counts is when the hub saw
the Lease change. Only for a Lease found at startup is its own time used, and a Worker that was ready then gets a grace
period to renew.
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
"""For a Worker that was ready when the hub started, whatever the age of its Lease."""
NEVER, SILENT, HEARD = "NeverHeard", "HeartbeatMissing", "Heartbeat"
MISSING = "WorkerMissing"
OTHER_HUB, ACCEPTED = "AnotherHub", "Accepted"
HOSTING, EMPTY = "HostsManagedClusters", "NothingHosted"
NAMED = 3
"""The most ManagedClusters that are named in a message."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    renewed: str
    """The Lease's renewTime; a different value is a heartbeat."""
    heard: float
    """When the hub saw it, on the monotonic clock."""
    pinned: str = ""
    """Id of another hub that the worker belongs to; empty if it belongs to this one."""


@dataclass(frozen=True, slots=True)
class Health:
    status: Object | None
    """The status fields to write, which no other controller writes; None if they are current."""
    again: float | None
    """Seconds until the next check if no heartbeat comes."""


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
    """`clusters` are the ManagedClusters assigned to it, `awaited` those whose deletion waits for its confirmation;
    None means not known yet.
    """
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
    """Sets the condition while the worker belongs to another hub, and resets it when it no longer does."""
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
    """Says why a Worker that is being deleted still exists."""
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
    """True for a Worker that joined and is silent, or that does not exist."""
    return worker is None or condition_is(worker, fleet.READY, "Unknown")


def says_silent(managed: Object) -> bool:
    return condition_is(managed, fleet.WORKER_READY, "Unknown")


def standing(managed: Object, worker: Object | None, now: str) -> Object | None:
    """Returns the status of a ManagedCluster whose Worker became silent or is heard again; None if it is current."""
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
