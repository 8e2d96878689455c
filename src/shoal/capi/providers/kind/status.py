"""Builds the status of a KINDCluster: the claimed kind cluster, history and retry time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shoal.capi.conditions import TRUE, UNKNOWN, Condition, own_conditions, paused_condition, with_status
from shoal.objects.conditions import condition_is

Object = dict[str, Any]

CREATING, CREATED, REMOVING = "Creating", "Created", "Removing"
"""States of `status.cluster`, the kind cluster of this object."""
CREATE, DELETE = "Create", "Delete"
LONGEST_HISTORY = 20

NO_CLUSTER = Condition("UpToDate", UNKNOWN, "NoCluster")
KEEP: Object = {}
"""Sentinel: the field stays unchanged."""


class Event(NamedTuple):
    reason: str
    message: str


def status_of(obj: Object) -> Object:
    return obj.get("status") or {}


def claim_of(obj: Object) -> Object | None:
    return status_of(obj).get("cluster")


def with_claim(obj: Object, claim: Object | None) -> Object:
    """Other status fields stay until they are written again."""
    rest = {key: value for key, value in status_of(obj).items() if key not in ("cluster", "progress")}
    return {**obj, "status": {**rest, "cluster": claim} if claim is not None else rest}


def with_progress(obj: Object, progress: str) -> Object:
    """The identical object if nothing changes."""
    status = status_of(obj)
    return obj if status.get("progress", "") == progress else {**obj, "status": {**status, "progress": progress}}


def written(
    obj: Object,
    now: str,
    *,
    ready: Condition,
    phase: str,
    cluster: Object | None = KEEP,
    up_to_date: Condition = NO_CLUSTER,
    failure: str = "",
    progress: str = "",
    retry: Object | None = KEEP,
    events: Iterable[Event] = (),
) -> Object:
    """The object with its desired status; the identical object if nothing changes.

    A condition that is not True is added to the history when its reason changes.
    """
    old = status_of(obj)
    told = list(events)
    known = own_conditions(obj).get("Ready")
    if not told and ready.status != TRUE and ready.message and (known is None or known.reason != ready.reason):
        told = [Event(ready.reason, ready.message)]
    history = old.get("history") or []
    for event in told:
        history = recorded(history, event, now)
    is_ready = ready.status == TRUE
    status = {
        **{key: value for key, value in old.items() if key not in ("conditions", "observedGeneration")},
        "ready": is_ready,
        "phase": phase,
        "cluster": old.get("cluster") if cluster is KEEP else cluster,
        "retry": old.get("retry") if retry is KEEP else retry,
        "failureMessage": failure or None,
        "progress": progress or None,
        "history": history or None,
    }
    if is_ready:
        status["initialization"] = {"provisioned": True, "controlPlaneInitialized": True}
    return with_status(obj, status, [ready, up_to_date, paused_condition(False, None)], now)


def recorded(history: list[Object], event: Event, now: str) -> list[Object]:
    """The newest entry is the last. Repeated entries are counted in one."""
    last = history[-1] if history else {}
    if (last.get("reason"), last.get("message")) == event:
        return [*history[:-1], {**last, "timestamp": now, "count": int(last.get("count", 1)) + 1}]
    entry = {"timestamp": now, "message": event.message, "reason": event.reason}
    return [*history, entry][-LONGEST_HISTORY:]


def failed_again(obj: Object, action: str, now: str, first: float, longest: float) -> Object:
    """`status.retry` after another failure: each delay is twice the previous one."""
    generation, last = obj["metadata"].get("generation", 0), status_of(obj).get("retry") or {}
    same = (last.get("action"), last.get("generation")) == (action, generation)
    attempts = int(last.get("attempts", 0)) + 1 if same else 1
    pause = min(first * float(2 ** min(attempts - 1, 30)), longest)
    return {"action": action, "attempts": attempts, "after": _after(now, pause), "generation": generation}


def resting(obj: Object, action: str, now: str) -> float:
    """Seconds until the action may be retried; 0 if it has not failed."""
    retry = status_of(obj).get("retry") or {}
    if (retry.get("action"), retry.get("generation")) != (action, obj["metadata"].get("generation", 0)):
        return 0.0
    return max((_time(retry["after"]) - _time(now)).total_seconds(), 0.0)


def is_ready(obj: Object) -> bool:
    return condition_is(obj, "Ready")


def _after(now: str, seconds: float) -> str:
    return (_time(now) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
