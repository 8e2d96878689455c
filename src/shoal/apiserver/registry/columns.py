"""Printer columns of RBAC kinds, events, ConfigMaps, Secrets, Namespaces, Leases and CRDs."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.registry.registry import Column
from shoal.objects.duration import human_age

Object = dict[str, Any]


def _age(obj: Object, now: float) -> object:
    return human_age(obj["metadata"].get("creationTimestamp"), now)


def _created_at(obj: Object, now: float) -> object:
    return obj["metadata"].get("creationTimestamp")


def _role_ref(obj: Object, now: float) -> object:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Any:
    def cell(obj: Object, now: float) -> object:
        found = [s for s in obj.get("subjects") or () if s.get("kind") == kind]
        spaced = kind == "ServiceAccount"
        return ", ".join(f"{s.get('namespace', '')}/{s['name']}" if spaced else s["name"] for s in found)

    return cell


def _data(obj: Object, now: float) -> object:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


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


def _text(*path: str) -> Any:
    def cell(obj: Object, now: float) -> object:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return "" if value is None else str(value)

    return cell


AGE = Column("Age", cell=_age)
CREATED = Column("Created At", type="date", cell=_created_at)
_BINDING = (
    Column("Role", cell=_role_ref),
    AGE,
    Column("Users", priority=1, cell=_subjects("User")),
    Column("Groups", priority=1, cell=_subjects("Group")),
    Column("ServiceAccounts", priority=1, cell=_subjects("ServiceAccount")),
)
_EVENT = (
    Column("Last Seen", cell=_last_seen),
    Column("Type", cell=_text("type")),
    Column("Reason", cell=_text("reason")),
    Column("Object", cell=_event_object),
    Column("Subobject", priority=1, cell=_event_field_path),
    Column("Source", priority=1, cell=_event_source),
    Column("Message", cell=lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip()),
    Column("First Seen", priority=1, cell=_first_seen),
    Column("Count", priority=1, cell=_event_count),
    # The only kind whose table does not begin with the name.
    Column("Name", format="name", priority=1, cell=_text("metadata", "name")),
)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "namespaces": (Column("Status", cell=_text("status", "phase")), AGE),
    "configmaps": (Column("Data", type="string", cell=_data), AGE),
    "secrets": (Column("Type", cell=_text("type")), Column("Data", type="string", cell=_data), AGE),
    "serviceaccounts": (AGE,),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "leases.coordination.k8s.io": (Column("Holder", cell=_text("spec", "holderIdentity")), AGE),
    "roles.rbac.authorization.k8s.io": (CREATED,),
    "clusterroles.rbac.authorization.k8s.io": (CREATED,),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "customresourcedefinitions.apiextensions.k8s.io": (CREATED,),
}
