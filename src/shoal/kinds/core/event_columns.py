"""Printer columns of Events, which v1 and events.k8s.io/v1 serve in two forms."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import Column, text_cell
from shoal.objects.duration import human_age

Object = dict[str, Any]


def _last_seen(obj: Object, now: float) -> object:
    series = obj.get("series") or {}
    last_time = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    return human_age(last_time, now) if last_time else _first_seen(obj, now)


def _first_seen(obj: Object, now: float) -> object:
    return human_age(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)


def _event_count(obj: Object, now: float) -> object:
    series = obj.get("series")
    if series is not None:
        return series.get("count") or 0
    return obj.get("count") or obj.get("deprecatedCount") or 1


def _event_object(obj: Object, now: float) -> object:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _event_field_path(obj: Object, now: float) -> object:
    return str((obj.get("involvedObject") or obj.get("regarding") or {}).get("fieldPath") or "")


def _event_source(obj: Object, now: float) -> object:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    who = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    where = source.get("host") or obj.get("reportingInstance")
    return f"{who}, {where}" if where else who


_EVENT = (
    Column("Last Seen", cell=_last_seen),
    Column("Type", cell=text_cell("type")),
    Column("Reason", cell=text_cell("reason")),
    Column("Object", cell=_event_object),
    Column("Subobject", priority=1, cell=_event_field_path),
    Column("Source", priority=1, cell=_event_source),
    Column("Message", cell=lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip()),
    Column("First Seen", priority=1, cell=_first_seen),
    Column("Count", priority=1, cell=_event_count),
    # The only kind whose table does not begin with the name.
    Column("Name", format="name", priority=1, cell=text_cell("metadata", "name")),
)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
}
