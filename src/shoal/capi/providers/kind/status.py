"""Builds the status of a KINDCluster: the claimed kind cluster, history and retry time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shoal.capi.conditions import TRUE, UNKNOWN, Condition, conditions_of, paused_condition, with_status
from shoal.objects.conditions import condition_is

Object = dict[str, Any]

CREATING, CREATED, REMOVING = "Creating", "Created", "Removing"
"""States of `status.cluster`, the kind cluster of this object."""
CREATE, DELETE = "Create", "Delete"
MAX_HISTORY = 20

NO_CLUSTER = Condition("UpToDate", UNKNOWN, "NoCluster")
UNCHANGED: Object = {}
"""Sentinel: the field stays unchanged."""


class HistoryEntry(NamedTuple):
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


def with_new_status(
    obj: Object,
    now: str,
    *,
    ready: Condition,
    phase: str,
    cluster: Object | None = UNCHANGED,
    up_to_date: Condition = NO_CLUSTER,
    failure: str = "",
    progress: str = "",
    retry: Object | None = UNCHANGED,
    events: Iterable[HistoryEntry] = (),
) -> Object:
    """The object with its desired status; the identical object if nothing changes.

    A condition that is not True is added to the history when its reason changes.
    """
    old = status_of(obj)
    entries = list(events)
    last_ready = conditions_of(obj).get("Ready")
    if (
        not entries
        and ready.status != TRUE
        and ready.message
        and (last_ready is None or last_ready.reason != ready.reason)
    ):
        entries = [HistoryEntry(ready.reason, ready.message)]
    history = old.get("history") or []
    for entry in entries:
        history = append_history(history, entry, now)
    is_ready = ready.status == TRUE
    status = {
        **{key: value for key, value in old.items() if key not in ("conditions", "observedGeneration")},
        "ready": is_ready,
        "phase": phase,
        "cluster": old.get("cluster") if cluster is UNCHANGED else cluster,
        "retry": old.get("retry") if retry is UNCHANGED else retry,
        "failureMessage": failure or None,
        "progress": progress or None,
        "history": history or None,
    }
    if is_ready:
        status["initialization"] = {"provisioned": True, "controlPlaneInitialized": True}
    return with_status(obj, status, [ready, up_to_date, paused_condition(False, None)], now)


def append_history(history: list[Object], entry: HistoryEntry, now: str) -> list[Object]:
    """The newest entry is the last. Repeated entries are counted in one."""
    last = history[-1] if history else {}
    if (last.get("reason"), last.get("message")) == entry:
        return [*history[:-1], {**last, "timestamp": now, "count": int(last.get("count", 1)) + 1}]
    record = {"timestamp": now, "message": entry.message, "reason": entry.reason}
    return [*history, record][-MAX_HISTORY:]


def next_retry(obj: Object, action: str, now: str, initial: float, maximum: float) -> Object:
    """`status.retry` after another failure: each delay is twice the previous one."""
    generation, last = obj["metadata"].get("generation", 0), status_of(obj).get("retry") or {}
    is_same = (last.get("action"), last.get("generation")) == (action, generation)
    attempts = int(last.get("attempts", 0)) + 1 if is_same else 1
    delay = min(initial * float(2 ** min(attempts - 1, 30)), maximum)
    return {"action": action, "attempts": attempts, "after": _after(now, delay), "generation": generation}


def retry_wait(obj: Object, action: str, now: str) -> float:
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
