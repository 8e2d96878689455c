"""Validation of events: few rules for v1, strict ones for events.k8s.io/v1. Pure.

Both validate the v1 form, whose field names appear in the messages. Metadata is validated elsewhere, for all kinds
alike.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.event import to_core
from shoal.kinds.validation.field import IMMUTABLE, invalid_causes
from shoal.objects.errors import Cause, invalid_value, required_value
from shoal.objects.names import is_qualified_name

Object = dict[str, Any]

_MAX_LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_REFERENCE = (
    ("Kind", "kind"), ("Namespace", "namespace"), ("Name", "name"), ("UID", "uid"), ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"), ("FieldPath", "fieldPath"),
)  # fmt: skip
_PRINTED_STRUCTS = {
    "involvedObject": _REFERENCE,
    "related": _REFERENCE,
    "source": (("Component", "component"), ("Host", "host")),
}
"""Structs, and their fields as upstream's messages print them."""
_IMMUTABLE_FIELDS = ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
"reason",
          "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance")  # fmt: skip
_EMPTY = {"count": 0, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None, "related": None}


def validate_core_event(event: Object, old: Object | None) -> list[Cause]:
    """Validates an event of core/v1."""
    return _validate_legacy(event, "reportingComponent")


def validate_event(event: Object, old: Object | None) -> list[Cause]:
    """Validates an event of events.k8s.io/v1."""
    event = to_core(event)
    causes = _validate_legacy(event, "reportingController")
    if old is None:
        return causes + _validate_series(event) + _validate_new_event(event)
    old = to_core(old)
    if event.get("series") != old.get("series"):
        causes += _validate_series(event)
    for field in _IMMUTABLE_FIELDS:
        if _comparable_value(event, field) != _comparable_value(old, field):
            field_name = "reportingController" if field == "reportingComponent" else field
            causes.append(invalid_value(field_name, _printed_value(event, field), IMMUTABLE))
    return causes


def _validate_legacy(event: Object, controller_field: str) -> list[Cause]:
    """An event with eventTime must name its reporter. One without must be in the namespace of its object."""
    namespace = event["metadata"].get("namespace") or ""
    object_namespace = (event.get("involvedObject") or {}).get("namespace") or ""
    mismatch = [invalid_value("involvedObject.namespace", object_namespace, "does not match event.namespace")]
    if not event.get("eventTime"):
        return (
            mismatch
            if namespace != object_namespace and not (not object_namespace and namespace in ("", "default"))
            else []
        )
    causes = mismatch if not object_namespace and namespace not in ("default", "kube-system") else []
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        causes.append(required_value(controller_field))
    causes += invalid_causes(controller_field, reporter, is_qualified_name(reporter))
    for field, limit in _MAX_LENGTHS.items():
        text = event.get(field) or ""
        if not text and field != "message":
            causes.append(required_value(field))
        if len(text.encode()) > limit:
            causes.append(invalid_value(field, "", f"can have at most {limit} characters"))
    return causes


def _validate_series(event: Object) -> list[Cause]:
    series = event.get("series")
    if series is None:
        return []
    is_too_small = (series.get("count") or 0) < 2
    causes = [invalid_value("series.count", "", "should be at least 2")] if is_too_small else []
    return causes if series.get("lastObservedTime") else [*causes, required_value("series.lastObservedTime")]


def _validate_new_event(event: Object) -> list[Cause]:
    """Rejects the deprecated fields on create."""
    causes = [] if event.get("eventTime") else [required_value("eventTime")]
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        causes.append(invalid_value("type", "", f"has invalid value: {kind}"))
    set_fields = [field for field in ("firstTimestamp", "lastTimestamp", "count") if event.get(field)]
    source = event.get("source") or {}
    set_fields += ["source"] if source.get("component") or source.get("host") else []
    return causes + [invalid_value(field, "", "needs to be unset") for field in set_fields]


def _comparable_value(event: Object, field: str) -> object:
    """Returns the value for comparison: empty equals absent."""
    field_value = event.get(field) or None
    return (
        {key: value for key, value in field_value.items() if value} or None
        if isinstance(field_value, dict)
        else field_value
    )


def _printed_value(event: Object, field: str) -> object:
    value = event.get(field)
    if field in _PRINTED_STRUCTS and (value is not None or field != "related"):
        return {title: (value or {}).get(key) or "" for title, key in _PRINTED_STRUCTS[field]}
    return value if value is not None else _EMPTY.get(field, "")
