"""Events have two forms, of the core group and of events.k8s.io, which differ in names only. One is stored.

What is wrong with an event is in `events_validation`.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: name for name, core in _TO_CORE.items()}


_ALWAYS = ("reportingComponent", "reportingInstance")
"""What the v1 form has even when it is empty, and the other form only when it is not."""


def to_core(event: Object) -> Object:
    """The v1 form of an event of events.k8s.io/v1."""
    core = {_TO_CORE.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1"}
    for field in _ALWAYS:
        core.setdefault(field, "")
    return core


def from_core(event: Object) -> Object:
    """The events.k8s.io/v1 form of an event of v1."""
    there = {key: value for key, value in event.items() if value or key not in _ALWAYS}
    return {_FROM_CORE.get(key, key): value for key, value in there.items()} | {"apiVersion": "events.k8s.io/v1"}


def default(event: Object) -> None:
    """What Go writes of every event, of either form."""
    core = event["apiVersion"] == "v1"
    event.setdefault("source" if core else "deprecatedSource", {})
    times = ("firstTimestamp", "lastTimestamp") if core else ("deprecatedFirstTimestamp", "deprecatedLastTimestamp")
    for field in (*times, "eventTime"):
        event.setdefault(field, None)
    if core:
        for field in _ALWAYS:
            event.setdefault(field, "")
    series = event.get("series")
    if series is not None:
        series.setdefault("lastObservedTime", None)
        if not core:
            series.setdefault("count", 0)


def selectable(event: Object, path: str) -> str:
    """What a field selector sees of the v1 form: an event without a source has its reporter for one."""
    if path == "source":
        return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
    parent, _, field = path.rpartition(".")
    holder = event.get(parent) if parent else event
    return str((holder or {}).get(field) or "")


def core_path(path: str) -> str:
    """Where the v1 form has a field: `involvedObject.name` for `regarding.name`."""
    first, dot, rest = path.partition(".")
    return _TO_CORE.get(first, first) + dot + rest
