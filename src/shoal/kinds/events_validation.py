"""Validation of events: few rules for v1, strict ones for events.k8s.io/v1. Pure.

Both validate the v1 form, whose field names appear in the messages. Metadata is validated elsewhere, for all kinds
alike.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import IMMUTABLE, said
from shoal.kinds.events import to_core
from shoal.objects.errors import Cause, invalid_value, required
from shoal.objects.names import is_qualified_name

Object = dict[str, Any]

_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_REFERENCE = (
    ("Kind", "kind"), ("Namespace", "namespace"), ("Name", "name"), ("UID", "uid"), ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"), ("FieldPath", "fieldPath"),
)  # fmt: skip
_SHOWN = {
    "involvedObject": _REFERENCE,
    "related": _REFERENCE,
    "source": (("Component", "component"), ("Host", "host")),
}
"""Structs, and their fields as upstream's messages print them."""
_FIXED = ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason",
          "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance")  # fmt: skip
_EMPTY = {"count": 0, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None, "related": None}


def validate(event: Object, old: Object | None) -> list[Cause]:
    """Validates an event of core/v1."""
    return _plain(event, "reportingComponent")


def validate_strictly(event: Object, old: Object | None) -> list[Cause]:
    """Validates an event of events.k8s.io/v1."""
    event = to_core(event)
    causes = _plain(event, "reportingController")
    if old is None:
        return causes + _series(event) + _new(event)
    old = to_core(old)
    if event.get("series") != old.get("series"):
        causes += _series(event)
    for field in _FIXED:
        if _value(event, field) != _value(old, field):
            where = "reportingController" if field == "reportingComponent" else field
            causes.append(invalid_value(where, _shown(event, field), IMMUTABLE))
    return causes


def _plain(event: Object, controller: str) -> list[Cause]:
    """An event with eventTime must name its reporter. One without must be in the namespace of its object."""
    namespace = event["metadata"].get("namespace") or ""
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    astray = [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]
    if not event.get("eventTime"):
        return astray if namespace != about and not (not about and namespace in ("", "default")) else []
    causes = astray if not about and namespace not in ("default", "kube-system") else []
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        causes.append(required(controller))
    causes += said(controller, reporter, is_qualified_name(reporter))
    for field, limit in _LONGEST.items():
        text = event.get(field) or ""
        if not text and field != "message":
            causes.append(required(field))
        if len(text.encode()) > limit:
            causes.append(invalid_value(field, "", f"can have at most {limit} characters"))
    return causes


def _series(event: Object) -> list[Cause]:
    series = event.get("series")
    if series is None:
        return []
    few = (series.get("count") or 0) < 2
    causes = [invalid_value("series.count", "", "should be at least 2")] if few else []
    return causes if series.get("lastObservedTime") else [*causes, required("series.lastObservedTime")]


def _new(event: Object) -> list[Cause]:
    """Rejects the deprecated fields on create."""
    causes = [] if event.get("eventTime") else [required("eventTime")]
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        causes.append(invalid_value("type", "", f"has invalid value: {kind}"))
    given = [field for field in ("firstTimestamp", "lastTimestamp", "count") if event.get(field)]
    source = event.get("source") or {}
    given += ["source"] if source.get("component") or source.get("host") else []
    return causes + [invalid_value(field, "", "needs to be unset") for field in given]


def _value(event: Object, field: str) -> object:
    """Returns the value for comparison: empty equals absent."""
    found = event.get(field) or None
    return {key: value for key, value in found.items() if value} or None if isinstance(found, dict) else found


def _shown(event: Object, field: str) -> object:
    found = event.get(field)
    if field in _SHOWN and (found is not None or field != "related"):
        return {title: (found or {}).get(key) or "" for title, key in _SHOWN[field]}
    return found if found is not None else _EMPTY.get(field, "")
