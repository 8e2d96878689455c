"""Builds the status of a KINDCluster: the claimed kind cluster, history and retry time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shoal.capi.conditions import FALSE, TRUE, UNKNOWN, Condition, conditions_of, paused_condition, with_status
from shoal.capi.providers.kind.creation_steps import STEP_CONDITIONS
from shoal.objects.conditions import condition_is, remove_condition

Object = dict[str, Any]

CREATING, CREATED, REMOVING = "Creating", "Created", "Removing"
"""States of `status.cluster`, the kind cluster of this object."""
CREATE, DELETE, LOAD_IMAGES = "Create", "Delete", "LoadImages"
MAX_HISTORY = 20
IMAGES_LOADED = "ImagesLoaded"
"""Condition: all of `spec.images` are loaded into the nodes."""

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
    status = {key: value for key, value in status_of(obj).items() if key != "progress"}
    if status_of(obj).get("progress", "") == progress:
        return obj
    return {**obj, "status": {**status, **({"progress": progress} if progress else {})}}


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
    replacement: Object | None = UNCHANGED,
    steps: list[Condition] | None = None,
    events: Iterable[HistoryEntry] = (),
) -> Object:
    """The object with its desired status; the identical object if nothing changes.

    A condition that is not True is added to the history when its reason changes. `steps` replaces the conditions of
    all steps of the creation; None: they stay.
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
        "replacement": old.get("replacement") if replacement is UNCHANGED else replacement,
        "failureMessage": failure or None,
        "progress": progress or None,
        "history": history or None,
    }
    if is_ready:
        status["initialization"] = {"provisioned": True, "controlPlaneInitialized": True}
    new = with_status(obj, status, [ready, up_to_date, paused_condition(False, None), *(steps or ())], now)
    outdated = STEP_CONDITIONS - {step.type for step in steps} if steps is not None else frozenset()
    if (status["cluster"] or {}).get("state") != CREATED:
        outdated |= {IMAGES_LOADED}
    for type_ in outdated:
        new = remove_condition(new, type_)
    return new


def with_history_entry(obj: Object, entry: HistoryEntry, now: str) -> Object:
    status = status_of(obj)
    return {**obj, "status": {**status, "history": append_history(status.get("history") or [], entry, now)}}


def replacement_of(obj: Object) -> Object | None:
    """The replacement of the kind cluster that is under way."""
    return status_of(obj).get("replacement")


def replacing_condition(message: str) -> Condition:
    return Condition("UpToDate", FALSE, "Replacing", message)


def new_history_entries(old: Object, new: Object) -> list[HistoryEntry]:
    """The entries that a status write added, or counted once more."""
    known = [(each.get("timestamp"), each["reason"], each["message"], each.get("count", 1)) for each in _history(old)]
    return [
        HistoryEntry(each["reason"], each["message"])
        for each in _history(new)
        if (each.get("timestamp"), each["reason"], each["message"], each.get("count", 1)) not in known
    ]


def _history(obj: Object) -> list[Object]:
    return status_of(obj).get("history") or []


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
