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
from shoal.kinds.fleet.kindhosting import AVAILABLE, KIND_ANNOTATION, KIND_AVAILABLE, KindOffer, decode_offer
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]

GRACE_SECONDS = 15.0
"""For a Worker that was ready when the hub started, whatever the age of its Lease."""
NEVER_HEARD, HEARTBEAT_MISSING, HEARTBEAT_SEEN = "NeverHeard", "HeartbeatMissing", "Heartbeat"
WORKER_MISSING = "WorkerMissing"
BUS_MISSING, BUS_FOUND = "BusNotConnected", "BusConnected"
ANOTHER_HUB, ACCEPTED = "AnotherHub", "Accepted"
HOSTS_CLUSTERS, HOSTS_NOTHING = "HostsManagedClusters", "NothingHosted"
NOT_OFFERED = "NotOffered"
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
    bus_down_since: str = ""
    """Since when the worker has had no connection to the bus; empty: it has one."""
    kind: KindOffer | None = None
    """What it offers to kind clusters; None: nothing."""


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
    annotations = (lease.get("metadata") or {}).get("annotations") or {}
    other_hub = str(annotations.get(infrav1.PINNED_HUB_ANNOTATION) or "")
    bus_down_since = str(annotations.get(infrav1.BUS_DOWN_ANNOTATION) or "")
    kind = decode_offer(str(annotations.get(KIND_ANNOTATION) or ""))
    if previous is not None and renew_time == previous.renew_time:
        return previous
    if previous is not None:
        return Heartbeat(renew_time, monotonic, other_hub, bus_down_since, kind)
    age = max(0.0, now - _timestamp(renew_time))
    if was_ready:
        age = min(age, infrav1.LEASE_GRACE_SECONDS - GRACE_SECONDS)
    return Heartbeat(renew_time, monotonic - age, other_hub, bus_down_since, kind)


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
        status["conditions"] = _bus_conditions({**worker, "status": status}, last_heartbeat.bus_down_since, now)
        status |= _kind_status(worker, status, last_heartbeat.kind, now)
    if infrav1.is_deleting(worker) and clusters is not None:
        status["conditions"] = _deleting_conditions({**worker, "status": status}, clusters, now)
    if awaited is not None and list(awaited) != (infrav1.status_of(worker).get("awaited") or []):
        status["awaited"] = list(awaited) or None
    return WorkerHealthUpdate(
        None if status.items() <= infrav1.status_of(worker).items() else status, remaining if remaining > 0 else None
    )


def _ready_status(worker: Object, ready: str, reason: str, message: str, phase: str, now: str) -> Object:
    phase = infrav1.TERMINATING if infrav1.is_deleting(worker) else phase
    return {"phase": phase, "conditions": _conditions_with(worker, infrav1.READY, (ready, reason, message), now)}


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
    return _conditions_with(worker, infrav1.HUB_ACCEPTED, (status, reason, message), now)


def _conditions_with(worker: Object, type_: str, values: tuple[str, str, str], now: str) -> list[Object]:
    """Returns the conditions with one that is set to a status, a reason and a message."""
    status, reason, message = values
    generation = worker["metadata"].get("generation")
    updated = set_condition(
        worker, type_, status, reason=reason, message=message, observed_generation=generation, now=now
    )
    conditions: list[Object] = infrav1.status_of(updated)["conditions"]
    return conditions


def _bus_conditions(worker: Object, down_since: str, now: str) -> list[Object]:
    """Sets the condition while the worker has no connection to the bus, and resets it when it has one again."""
    current: list[Object] = infrav1.status_of(worker)["conditions"]
    if not down_since and get_condition(worker, infrav1.BUS_CONNECTED) is None:
        return current
    status, reason, message = "True", BUS_FOUND, "worker is connected to the bus"
    if down_since:
        message = f"no connection to the bus since {down_since}: no change reaches the worker, and no status arrives"
        status, reason = "False", BUS_MISSING
    return _conditions_with(worker, infrav1.BUS_CONNECTED, (status, reason, message), now)


def _kind_status(worker: Object, status: Object, offer: KindOffer | None, now: str) -> Object:
    """Returns the fields that say what the worker offers to kind clusters. A worker that has never offered anything has
    none.
    """
    worker, before = {**worker, "status": status}, infrav1.status_of(worker).get("kind")
    if offer is None:
        if get_condition(worker, KIND_AVAILABLE) is None:
            return {}
        values = "False", NOT_OFFERED, "the worker was started without --kind"
        return {
            "conditions": _conditions_with(worker, KIND_AVAILABLE, values, now),
            **({"kind": None} if before else {}),
        }
    values = "True", AVAILABLE, "kind and a container engine answer"
    if not offer.is_available:
        values = "False", offer.reason, offer.message
    machine = {name: amount for name, amount in (("cpu", offer.cpu), ("memory", offer.memory)) if amount}
    kind = {**machine, "versions": list(offer.versions)}
    return {"conditions": _conditions_with(worker, KIND_AVAILABLE, values, now), "kind": kind}


def _deleting_conditions(worker: Object, clusters: Sequence[str], now: str) -> list[Object]:
    """Says why a Worker that is being deleted still exists."""
    reason, message = HOSTS_NOTHING, "no ManagedCluster is assigned"
    if clusters:
        some = ", ".join(sorted(clusters)[:MAX_NAMED]) + (", …" if len(clusters) > MAX_NAMED else "")
        count = "1 ManagedCluster" if len(clusters) == 1 else f"{len(clusters)} ManagedClusters"
        first = "must be moved (spec.drain: true) or deleted first"
        reason, message = HOSTS_CLUSTERS, f"{count} {first}: {some}; no new ones are assigned"
    return _conditions_with(worker, infrav1.DELETING, ("True", reason, message), now)


def is_silent(worker: Object | None) -> bool:
    """True for a Worker that joined and is silent, that does not exist, or whose reports do not arrive."""
    return (
        worker is None
        or condition_is(worker, infrav1.READY, "Unknown")
        or condition_is(worker, infrav1.BUS_CONNECTED, "False")
    )


def reports_silent(managed: Object) -> bool:
    return condition_is(managed, infrav1.WORKER_READY, "Unknown")


def reachability_status(managed: Object, worker: Object | None, now: str) -> Object | None:
    """Returns the status of a ManagedCluster whose Worker became silent or is heard again; None if it is current."""
    name = infrav1.assigned_worker(managed)
    if not name or is_silent(worker) == reports_silent(managed):
        return None
    condition = ("True", HEARTBEAT_SEEN, f"worker {name} is heard again")
    if worker is None:
        condition = ("Unknown", WORKER_MISSING, f"Worker {name} not found; the hosted cluster may still run")
    elif is_silent(worker):
        is_lost = condition_is(worker, infrav1.READY, "Unknown")
        cause = get_condition(worker, infrav1.READY if is_lost else infrav1.BUS_CONNECTED) or {}
        message = f"worker {name}: {cause.get('message')}; the hosted cluster may still run"
        condition = ("Unknown", str(cause.get("reason")), message)
    generation, (status, reason, message) = managed["metadata"].get("generation"), condition
    updated = set_condition(
        managed, infrav1.WORKER_READY, status, reason=reason, message=message, observed_generation=generation, now=now
    )
    return {**infrav1.status_of(updated), "phase": infrav1.phase_of(updated)}
