"""Unmarshal errors of ObjectMeta for custom resources, with upstream's messages.

A built-in's metadata is validated with its schema. A custom resource's schema does not cover metadata.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

_STRING, _INTEGER, _TIME, _MAP, _STRINGS, _OWNERS, _MANAGERS = range(7)
_FIELDS = {
    "name": _STRING,
    "generateName": _STRING,
    "namespace": _STRING,
    "selfLink": _STRING,
    "uid": _STRING,
    "resourceVersion": _STRING,
    "generation": _INTEGER,
    "deletionGracePeriodSeconds": _INTEGER,
    "creationTimestamp": _TIME,
    "deletionTimestamp": _TIME,
    "labels": _MAP,
    "annotations": _MAP,
    "finalizers": _STRINGS,
    "ownerReferences": _OWNERS,
    "managedFields": _MANAGERS,
}
_OWNER_REFERENCE_TYPES = dict.fromkeys(("apiVersion", "kind", "name", "uid"), "string") | dict.fromkeys(
    ("controller", "blockOwnerDeletion"), "bool"
)
_MANAGED_FIELDS_TYPES = dict.fromkeys(
    ("manager", "operation", "apiVersion", "fieldsType", "subresource", "time"), "string"
)


def unmarshal_error(metadata: dict[str, Any]) -> str:
    """Returns why Go cannot unmarshal the metadata, or an empty string."""
    for field, value in metadata.items():
        kind = _FIELDS.get(field)
        if kind is None or value is None or (kind == _STRING and type(value) is str):
            continue
        problem = _field_error(field, kind, value)
        if problem:
            return problem
    return ""


def omit_empty(metadata: dict[str, Any]) -> None:
    """Changes in place: a null in labels or annotations becomes an empty string, and empty fields are omitted, as Go
    writes ObjectMeta.
    """
    for field in ("labels", "annotations"):
        texts = metadata.get(field)
        if texts.__class__ is dict and texts is not None:
            if not texts:
                del metadata[field]
            elif None in texts.values():
                metadata[field] = {key: "" if value is None else value for key, value in texts.items()}
    for field in ("finalizers", "ownerReferences"):
        if metadata.get(field) == []:
            del metadata[field]


def _field_error(field: str, kind: int, value: Any) -> str:
    if kind == _STRING:
        return _cannot_unmarshal(value, field, "string")
    if kind == _INTEGER:
        return "" if type(value) is int else _cannot_unmarshal(value, field, "int64")
    if kind == _TIME:
        return _time_error(field, value)
    if kind == _MAP:
        return _container_error(field, value, dict, "map[string]string", "string")
    if kind == _STRINGS:
        return _container_error(field, value, list, "[]string", "string")
    if kind == _OWNERS:
        return _container_error(field, value, list, "[]v1.OwnerReference", "v1.OwnerReference", _OWNER_REFERENCE_TYPES)
    return _container_error(
        field, value, list, "[]v1.ManagedFieldsEntry", "v1.ManagedFieldsEntry", _MANAGED_FIELDS_TYPES
    )


def _time_error(field: str, value: Any) -> str:
    if not isinstance(value, str):
        return _cannot_unmarshal(value, field, "string")
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
    return ""


def _container_error(
    field: str, value: Any, holder: type, whole: str, part: str, members: dict[str, str] | None = None
) -> str:
    if not isinstance(value, holder):
        return _cannot_unmarshal(value, field, whole)
    items: Any = value
    for item in items.values() if holder is dict else items:
        if item is None or (members is None and type(item) is str):
            continue
        if members is None or not isinstance(item, dict):
            return _cannot_unmarshal(item, field, part)
        for name, wanted in members.items():
            given = item.get(name)
            if given is not None and not isinstance(given, str if wanted == "string" else bool):
                return _cannot_unmarshal(given, f"{field}.{name}", wanted)
    return ""


def _cannot_unmarshal(value: Any, field: str, wanted: str) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    kind = kinds.get(type(value), "number")
    return f"json: cannot unmarshal {kind} into Go struct field ObjectMeta.{field} of type {wanted}"
