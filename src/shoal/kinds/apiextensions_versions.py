"""Validates one entry of a CRD's `spec.versions`: name, schema, subresources, printer columns, selectable fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shoal.kinds.apiextensions import Object
from shoal.kinds.apiextensions_schema import schema_causes
from shoal.objects.errors import Cause, duplicate, invalid_value, required, too_many
from shoal.objects.names import is_dns1035_label

MAX_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def label_problem(value: str) -> str:
    """Returns why the value is not a DNS-1035 label, as one text. Empty: it is one."""
    return ",".join(is_dns1035_label(value))


def _same_everywhere(listed: list[Object], key: str) -> bool:
    """Reports whether all versions have the same value for the key. Upstream then reports it once."""
    return bool(listed) and all(version.get(key) and version[key] == listed[0][key] for version in listed)


def version_causes(version: Object, path: str, listed: list[Object], stored: list[Object]) -> Iterator[Cause]:
    """Validates one version. `old_versions` are the versions of the stored CRD on update."""
    name = version.get("name") or ""
    if problem := label_problem(name):
        yield invalid_value(f"{path}.name", name, problem)
    yield from _deprecation(version, path)
    if not _same_everywhere(listed, "schema"):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            where, settled = f"{path}.schema.openAPIV3Schema", _is_settled(version, stored)
            yield from schema_causes(schema, where, status=_has_status(version), settled=settled)
    if not _same_everywhere(listed, "subresources"):
        yield from _subresources(version.get("subresources") or {}, f"{path}.subresources")
    if not _same_everywhere(listed, "additionalPrinterColumns"):
        yield from _columns(version, f"{path}.additionalPrinterColumns")
    if not _same_everywhere(listed, "selectableFields"):
        yield from _selectable(version, f"{path}.selectableFields")


def _is_settled(version: Object, stored: list[Object]) -> bool:
    return any(old.get("name") == version.get("name") and old.get("schema") == version["schema"] for old in stored)


def shared_causes(listed: list[Object], stored: list[Object]) -> Iterator[Cause]:
    if _same_everywhere(listed, "schema") and listed[0]["schema"].get("openAPIV3Schema") is not None:
        status = any(map(_has_status, listed))
        schema, settled = listed[0]["schema"]["openAPIV3Schema"], _is_settled(listed[0], stored)
        yield from schema_causes(schema, "spec.validation.openAPIV3Schema", status=status, settled=settled)
    if _same_everywhere(listed, "subresources"):
        yield from _subresources(listed[0]["subresources"], "spec.subresources")
    if _same_everywhere(listed, "additionalPrinterColumns"):
        yield from _columns(listed[0], "spec.additionalPrinterColumns")
    if _same_everywhere(listed, "selectableFields"):
        yield from _selectable(listed[0], "spec.selectableFields")


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _deprecation(version: Object, path: str) -> Iterator[Cause]:
    text, where = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid_value(where, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid_value(where, text, "must be <= 256 characters long")
    if not text:
        yield invalid_value(where, text, "must not be an empty string")
    for index, char in enumerate(text):
        if not char.isprintable():
            place = len(text[:index].encode())
            told = f"must only contain printable UTF-8 characters; non-printable character found at index {place}"
            yield invalid_value(where, text, told)
            break


def _simple_path(value: str, path: str) -> list[Cause]:
    if value.startswith("."):
        return []
    return [invalid_value(path, value, "must be a simple json path starting with .")]


def _subresources(subresources: Object, path: str) -> Iterator[Cause]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for key, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value, where = scale.get(key) or "", f"{path}.scale.{key}"
        if not value:
            yield required(where)
        elif problems := _simple_path(value, where):
            yield from problems
        elif not value.startswith(root + "."):
            yield invalid_value(where, value, f"should be a json path under {root}")
    value, where = scale.get("labelSelectorPath") or "", f"{path}.scale.labelSelectorPath"
    if value and (problems := _simple_path(value, where)):
        yield from problems
    elif value and not value.startswith((".spec.", ".status.")):
        yield invalid_value(where, value, "should be a json path under either .spec or .status")


def _columns(version: Object, path: str) -> Iterator[Cause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, kind, form = f"{path}[{index}]", column.get("type") or "", column.get("format") or ""
        if not column.get("name"):
            yield required(f"{where}.name")
        told = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            yield required(f"{where}.type", told)
        elif kind not in _COLUMN_TYPES:
            yield invalid_value(f"{where}.type", kind, told)
        if form and form not in _COLUMN_FORMATS:
            yield invalid_value(f"{where}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        json_path = column.get("jsonPath") or ""
        if not json_path:
            yield required(f"{where}.JSONPath")
        else:
            yield from _simple_path(json_path, f"{where}.JSONPath")


def _selectable(version: Object, path: str) -> Iterator[Cause]:
    fields = version.get("selectableFields") or ()
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if fields and not isinstance(schema, dict):
        told = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid_value(path, "", told)
        return
    seen: set[str] = set()
    for index, field in enumerate(fields):
        json_path, where = field.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not json_path:
            yield required(where)
            continue
        found, problem = _field_at(json_path, schema or {})
        if problem:
            yield invalid_value(where, json_path, f"is an invalid path: {problem}")
            continue
        if json_path.startswith(".metadata"):
            yield invalid_value(where, json_path, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            told = "must point to a field of type string, boolean or integer."
            yield invalid_value(where, json_path, f"{told} Enum string fields and strings with formats are allowed.")
        if json_path in seen:
            yield duplicate(where, json_path)
        seen.add(json_path)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def _field_at(json_path: str, schema: Any) -> tuple[Object, str]:
    """Returns the schema a simple JSON path leads to, and the error of the path or an empty string."""
    if json_path[0] not in ".[":
        return {}, "expected [ or . but got: " + re.split(r"[.\[\]]", json_path)[0]
    for name in json_path[1:].split("."):
        if "[" in name or "]" in name:
            return {}, "array notation is not allowed"
        if not name:
            return {}, "unexpected end of JSON path"
        named = schema.get("properties")
        schema = named.get(name) if named else schema.get("additionalProperties")
        if not isinstance(schema, dict):
            return {}, "does not refer to a valid field"
    return schema, ""
