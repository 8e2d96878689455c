"""Validates one entry of a CRD's `spec.versions`: name, schema, subresources, printer columns, selectable fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shoal.kinds.apiextensions.customresourcedefinition import Object
from shoal.kinds.apiextensions.schema import validate_schema
from shoal.objects.errors import Cause, duplicate, invalid_value, required_value, too_many
from shoal.objects.names import is_dns1035_label

MAX_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def dns1035_label_error(value: str) -> str:
    """Returns why the value is not a DNS-1035 label, as one text. Empty: it is one."""
    return ",".join(is_dns1035_label(value))


def shared_fields(crd_versions: list[Object]) -> frozenset[str]:
    """Returns the fields that have the same value in all versions. Upstream reports their errors once."""
    if not crd_versions:
        return frozenset()
    first = crd_versions[0]
    return frozenset(
        key
        for key in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
        if all(version.get(key) and version[key] == first[key] for version in crd_versions)
    )


def validate_version(
    version: Object, path: str, shared: frozenset[str], old_schemas: dict[object, object]
) -> Iterator[Cause]:
    """Validates one version without the fields that it shares with all others. `old_schemas` are those of the stored
    CRD on update, by the name of their version.
    """
    name = version.get("name") or ""
    if problem := dns1035_label_error(name):
        yield invalid_value(f"{path}.name", name, problem)
    yield from _validate_deprecation(version, path)
    if "schema" not in shared:
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            field_path, unchanged = f"{path}.schema.openAPIV3Schema", _is_schema_unchanged(version, old_schemas)
            yield from validate_schema(schema, field_path, has_status=_has_status(version), unchanged=unchanged)
    if "subresources" not in shared:
        yield from _validate_subresources(version.get("subresources") or {}, f"{path}.subresources")
    if "additionalPrinterColumns" not in shared:
        yield from _validate_printer_columns(version, f"{path}.additionalPrinterColumns")
    if "selectableFields" not in shared:
        yield from _validate_selectable_fields(version, f"{path}.selectableFields")


def _is_schema_unchanged(version: Object, old_schemas: dict[object, object]) -> bool:
    name = version.get("name")
    return name in old_schemas and old_schemas[name] == version["schema"]


def validate_shared_fields(
    crd_versions: list[Object], shared: frozenset[str], old_schemas: dict[object, object]
) -> Iterator[Cause]:
    if "schema" in shared and crd_versions[0]["schema"].get("openAPIV3Schema") is not None:
        status = any(map(_has_status, crd_versions))
        schema = crd_versions[0]["schema"]["openAPIV3Schema"]
        unchanged = _is_schema_unchanged(crd_versions[0], old_schemas)
        yield from validate_schema(schema, "spec.validation.openAPIV3Schema", has_status=status, unchanged=unchanged)
    if "subresources" in shared:
        yield from _validate_subresources(crd_versions[0]["subresources"], "spec.subresources")
    if "additionalPrinterColumns" in shared:
        yield from _validate_printer_columns(crd_versions[0], "spec.additionalPrinterColumns")
    if "selectableFields" in shared:
        yield from _validate_selectable_fields(crd_versions[0], "spec.selectableFields")


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _validate_deprecation(version: Object, path: str) -> Iterator[Cause]:
    text, field_path = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid_value(field_path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid_value(field_path, text, "must be <= 256 characters long")
    if not text:
        yield invalid_value(field_path, text, "must not be an empty string")
    for index, char in enumerate(text):
        if not char.isprintable():
            byte_index = len(text[:index].encode())
            detail = (
                f"must only contain printable UTF-8 characters; non-printable character found at index {byte_index}"
            )
            yield invalid_value(field_path, text, detail)
            break


def _validate_simple_json_path(value: str, path: str) -> list[Cause]:
    if value.startswith("."):
        return []
    return [invalid_value(path, value, "must be a simple json path starting with .")]


def _validate_subresources(subresources: Object, path: str) -> Iterator[Cause]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for key, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value, field_path = scale.get(key) or "", f"{path}.scale.{key}"
        if not value:
            yield required_value(field_path)
        elif problems := _validate_simple_json_path(value, field_path):
            yield from problems
        elif not value.startswith(root + "."):
            yield invalid_value(field_path, value, f"should be a json path under {root}")
    value, field_path = scale.get("labelSelectorPath") or "", f"{path}.scale.labelSelectorPath"
    if value and (problems := _validate_simple_json_path(value, field_path)):
        yield from problems
    elif value and not value.startswith((".spec.", ".status.")):
        yield invalid_value(field_path, value, "should be a json path under either .spec or .status")


def _validate_printer_columns(version: Object, path: str) -> Iterator[Cause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        item_path, kind, form = f"{path}[{index}]", column.get("type") or "", column.get("format") or ""
        if not column.get("name"):
            yield required_value(f"{item_path}.name")
        detail = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            yield required_value(f"{item_path}.type", detail)
        elif kind not in _COLUMN_TYPES:
            yield invalid_value(f"{item_path}.type", kind, detail)
        if form and form not in _COLUMN_FORMATS:
            yield invalid_value(f"{item_path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        json_path = column.get("jsonPath") or ""
        if not json_path:
            yield required_value(f"{item_path}.JSONPath")
        else:
            yield from _validate_simple_json_path(json_path, f"{item_path}.JSONPath")


def _validate_selectable_fields(version: Object, path: str) -> Iterator[Cause]:
    fields = version.get("selectableFields") or ()
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if fields and not isinstance(schema, dict):
        detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid_value(path, "", detail)
        return
    seen: set[str] = set()
    for index, field in enumerate(fields):
        json_path, field_path = field.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not json_path:
            yield required_value(field_path)
            continue
        field_schema, path_error = _resolve_json_path(json_path, schema or {})
        if path_error:
            yield invalid_value(field_path, json_path, f"is an invalid path: {path_error}")
            continue
        if json_path.startswith(".metadata"):
            yield invalid_value(field_path, json_path, "must not point to fields in metadata")
        if field_schema.get("type") not in ("string", "boolean", "integer"):
            detail = "must point to a field of type string, boolean or integer."
            yield invalid_value(
                field_path, json_path, f"{detail} Enum string fields and strings with formats are allowed."
            )
        if json_path in seen:
            yield duplicate(field_path, json_path)
        seen.add(json_path)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


_split_path = re.compile(r"[.\[\]]").split


def _resolve_json_path(json_path: str, schema: Any) -> tuple[Object, str]:
    """Returns the schema a simple JSON path leads to, and the error of the path or an empty string."""
    if json_path[0] not in ".[":
        return {}, "expected [ or . but got: " + _split_path(json_path, 1)[0]
    for name in json_path[1:].split("."):
        if "[" in name or "]" in name:
            return {}, "array notation is not allowed"
        if not name:
            return {}, "unexpected end of JSON path"
        properties = schema.get("properties")
        schema = properties.get(name) if properties else schema.get("additionalProperties")
        if not isinstance(schema, dict):
            return {}, "does not refer to a valid field"
    return schema, ""
