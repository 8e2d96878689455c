"""Event conversion. Core v1 and events.k8s.io/v1 differ only in field names. The core form is stored.

Validation is in `event_validation`.
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


_ALWAYS_IN_CORE = ("reportingComponent", "reportingInstance")
"""Fields the v1 form has even when empty. The other form has them only when set."""


def to_core(event: Object) -> Object:
    """The v1 form of an event of events.k8s.io/v1."""
    core = {_TO_CORE.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1"}
    for field in _ALWAYS_IN_CORE:
        core.setdefault(field, "")
    return core


def from_core(event: Object) -> Object:
    """The events.k8s.io/v1 form of an event of v1."""
    present = {key: value for key, value in event.items() if value or key not in _ALWAYS_IN_CORE}
    return {_FROM_CORE.get(key, key): value for key, value in present.items()} | {"apiVersion": "events.k8s.io/v1"}


def default_event(event: Object) -> None:
    """Sets the fields that Go writes for every event, in either form."""
    core = event["apiVersion"] == "v1"
    event.setdefault("source" if core else "deprecatedSource", {})
    times = ("firstTimestamp", "lastTimestamp") if core else ("deprecatedFirstTimestamp", "deprecatedLastTimestamp")
    for field in (*times, "eventTime"):
        event.setdefault(field, None)
    if core:
        for field in _ALWAYS_IN_CORE:
            event.setdefault(field, "")
    series = event.get("series")
    if series is not None:
        series.setdefault("lastObservedTime", None)
        if not core:
            series.setdefault("count", 0)


def selectable_field(event: Object, path: str) -> str:
    """Returns a selectable field of the v1 form. `source` falls back to the reporting component."""
    if path == "source":
        return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
    parent, _, field = path.rpartition(".")
    holder = event.get(parent) if parent else event
    return str((holder or {}).get(field) or "")


def to_core_path(path: str) -> str:
    """Returns the field path in the v1 form: `involvedObject.name` for `regarding.name`."""
    first, dot, rest = path.partition(".")
    return _TO_CORE.get(first, first) + dot + rest
