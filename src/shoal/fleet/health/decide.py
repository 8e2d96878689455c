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

from shoal.kinds.fleet import infrav1
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]

GRACE_SECONDS = 15.0
"""For a Worker that was ready when the hub started, whatever the age of its Lease."""
NEVER_HEARD, HEARTBEAT_MISSING, HEARTBEAT_SEEN = "NeverHeard", "HeartbeatMissing", "Heartbeat"
WORKER_MISSING = "WorkerMissing"
ANOTHER_HUB, ACCEPTED = "AnotherHub", "Accepted"
HOSTS_CLUSTERS, HOSTS_NOTHING = "HostsManagedClusters", "NothingHosted"
MAX_NAMED = 3
"""The most ManagedClusters that are named in a message."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    renew_time: str
    """The Lease's renewTime; a different value is a heartbeat."""
    heard_at: float
    """When the hub saw it, on the monotonic clock."""
    other_hub: str = ""
    """Id of another hub that the worker belongs to; empty if it belongs to this one."""


@dataclass(frozen=True, slots=True)
class WorkerHealthUpdate:
    status: Object | None
    """The status fields to write, which no other controller writes; None if they are current."""
    requeue_after: float | None
    """Seconds until the next check if no heartbeat comes."""


def observe_heartbeat(
    previous: Heartbeat | None, lease: Object, was_ready: bool, now: float, monotonic: float
) -> Heartbeat:
    renew_time = str((lease.get("spec") or {}).get("renewTime") or "")
    other_hub = str(((lease.get("metadata") or {}).get("annotations") or {}).get(infrav1.PINNED_HUB_ANNOTATION) or "")
    if previous is not None:
        return previous if renew_time == previous.renew_time else Heartbeat(renew_time, monotonic, other_hub)
    age = max(0.0, now - _timestamp(renew_time))
    if was_ready:
        age = min(age, infrav1.LEASE_GRACE_SECONDS - GRACE_SECONDS)
    return Heartbeat(renew_time, monotonic - age, other_hub)


def _timestamp(renew_time: str) -> float:
    try:
        return datetime.fromisoformat(renew_time).timestamp()
    except ValueError:
        return 0.0


def was_ready(worker: Object) -> bool:
    return condition_is(worker, infrav1.READY)


def decide_health(
    worker: Object,
    last_heartbeat: Heartbeat | None,
    monotonic: float,
    now: str,
    clusters: Sequence[str] | None = None,
    awaited: Sequence[str] | None = None,
) -> WorkerHealthUpdate:
    """`clusters` are the ManagedClusters assigned to it, `awaited` those whose deletion waits for its confirmation;
    None means not known yet.
    """
    remaining = (
        infrav1.LEASE_GRACE_SECONDS - (monotonic - last_heartbeat.heard_at) if last_heartbeat is not None else 0.0
    )
    if last_heartbeat is None:
        status = _ready_status(worker, "Unknown", NEVER_HEARD, "no heartbeat yet", infrav1.PENDING, now)
    elif remaining <= 0:
        message = f"no heartbeat for more than {infrav1.LEASE_GRACE_SECONDS:.0f} seconds"
        status = _ready_status(worker, "Unknown", HEARTBEAT_MISSING, message, infrav1.LOST, now)
    else:
        status = _ready_status(worker, "True", HEARTBEAT_SEEN, "worker renews its Lease", infrav1.RUNNING, now)
    if last_heartbeat is not None:
        status["conditions"] = _hub_accepted_conditions({**worker, "status": status}, last_heartbeat.other_hub, now)
    if infrav1.is_deleting(worker) and clusters is not None:
        status["conditions"] = _deleting_conditions({**worker, "status": status}, clusters, now)
    if awaited is not None and list(awaited) != (infrav1.status_of(worker).get("awaited") or []):
        status["awaited"] = list(awaited) or None
    return WorkerHealthUpdate(
        None if status.items() <= infrav1.status_of(worker).items() else status, remaining if remaining > 0 else None
    )


def _ready_status(worker: Object, ready: str, reason: str, message: str, phase: str, now: str) -> Object:
    generation = worker["metadata"].get("generation")
    updated = set_condition(
        worker, infrav1.READY, ready, reason=reason, message=message, observed_generation=generation, now=now
    )
    phase = infrav1.TERMINATING if infrav1.is_deleting(worker) else phase
    return {"phase": phase, "conditions": infrav1.status_of(updated)["conditions"]}


def _hub_accepted_conditions(worker: Object, other_hub: str, now: str) -> list[Object]:
    """Sets the condition while the worker belongs to another hub, and resets it when it no longer does."""
    current: list[Object] = infrav1.status_of(worker)["conditions"]
    if not other_hub and get_condition(worker, infrav1.HUB_ACCEPTED) is None:
        return current
    status, reason, message = "True", ACCEPTED, "worker belongs to this hub"
    if other_hub:
        message = (
            f"worker belongs to hub {other_hub} and deletes nothing for this hub; to accept this hub, delete ConfigMap "
            f"{infrav1.NAMESPACE}/hub in the worker's own API"
        )
        status, reason = "False", ANOTHER_HUB
    generation = worker["metadata"].get("generation")
    updated = set_condition(
        worker, infrav1.HUB_ACCEPTED, status, reason=reason, message=message, observed_generation=generation, now=now
    )
    conditions: list[Object] = infrav1.status_of(updated)["conditions"]
    return conditions


def _deleting_conditions(worker: Object, clusters: Sequence[str], now: str) -> list[Object]:
    """Says why a Worker that is being deleted still exists."""
    reason, message = HOSTS_NOTHING, "no ManagedCluster is assigned"
    if clusters:
        some = ", ".join(sorted(clusters)[:MAX_NAMED]) + (", …" if len(clusters) > MAX_NAMED else "")
        count = "1 ManagedCluster" if len(clusters) == 1 else f"{len(clusters)} ManagedClusters"
        first = "must be moved (spec.drain: true) or deleted first"
        reason, message = HOSTS_CLUSTERS, f"{count} {first}: {some}; no new ones are assigned"
    generation = worker["metadata"].get("generation")
    updated = set_condition(
        worker, infrav1.DELETING, "True", reason=reason, message=message, observed_generation=generation, now=now
    )
    conditions: list[Object] = infrav1.status_of(updated)["conditions"]
    return conditions


def is_silent(worker: Object | None) -> bool:
    """True for a Worker that joined and is silent, or that does not exist."""
    return worker is None or condition_is(worker, infrav1.READY, "Unknown")


def reports_silent(managed: Object) -> bool:
    return condition_is(managed, infrav1.WORKER_READY, "Unknown")


def reachability_status(managed: Object, worker: Object | None, now: str) -> Object | None:
    """Returns the status of a ManagedCluster whose Worker became silent or is heard again; None if it is current."""
    name = infrav1.assigned_worker(managed)
    if not name or is_silent(worker) == reports_silent(managed):
        return None
    condition = ("True", HEARTBEAT_SEEN, f"worker {name} renews its Lease again")
    if worker is None:
        condition = ("Unknown", WORKER_MISSING, f"Worker {name} not found; the hosted cluster may still run")
    elif is_silent(worker):
        ready = get_condition(worker, infrav1.READY) or {}
        message = f"worker {name}: {ready.get('message')}; the hosted cluster may still run"
        condition = ("Unknown", str(ready.get("reason")), message)
    generation, (status, reason, message) = managed["metadata"].get("generation"), condition
    updated = set_condition(
        managed, infrav1.WORKER_READY, status, reason=reason, message=message, observed_generation=generation, now=now
    )
    return {**infrav1.status_of(updated), "phase": infrav1.phase_of(updated)}
