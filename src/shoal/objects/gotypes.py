"""Errors of Go's JSON decoder for a value that does not fit the type of a built-in kind. Pure.

The types are those of the published schemas: structs by the names of their definitions, lists, maps and numbers. Go's
names of some strings (`v1.Protocol`) are not in the schemas and are reported as `string`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from shoal.objects import gostructs, gotime
from shoal.objects.quantity import Quantity

Schema = dict[str, Any]
Resolve = Callable[[str], Schema]

_NUMBERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_SELF_UNMARSHALING = ("v1.FieldsV1", "runtime.RawExtension", "v1.JSON")
"""Types that unmarshal themselves. Their errors are reported elsewhere."""
_QUANTITY = "resource.Quantity"
_INT_OR_STRING = "intstr.IntOrString"
_MICRO_TIME = "v1.MicroTime"
_KINDS = {dict: "object", list: "array", str: "string", bool: "bool"}
_INVALID_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_EXTRA_VALUE = "v1.ExtraValue"
"""The only named list type that is a map value."""
_find_not_base64 = re.compile(r"[^A-Za-z0-9+/]").search


class _UnmarshalAborted(Exception):
    """Raised by a type that unmarshals itself: the decoder stops there and discards earlier type errors."""


def unmarshal_error(value: Any, kind: str, schema: Schema, resolve: Resolve) -> str:
    """Returns the error of the decoder, which is the first in text order. Empty if there is none."""
    errors: list[str] = []
    try:
        _check_members(value, schema["properties"], resolve, kind, "", errors)
    except _UnmarshalAborted as refused:
        return str(refused)
    return errors[0] if errors else ""


def _check_members(
    value: Any, properties: Schema, resolve: Resolve, struct: str, path: str, errors: list[str], definition: str = ""
) -> None:
    for key, each in value.items():
        if key in properties:
            embedded_struct = gostructs.embedded_struct_of(definition, key) if definition else ""
            member_path = ".".join(part for part in (path, embedded_struct, key) if part)
            _check_value(each, properties[key], resolve, struct, member_path, errors)


def _check_value(value: Any, schema: Schema, resolve: Resolve, struct: str, path: str, errors: list[str]) -> None:
    name = _short_type_name(schema)
    if value is None or name in _SELF_UNMARSHALING:
        return
    if name == _QUANTITY:
        _check_quantity(value)
        return
    if name == _INT_OR_STRING:
        error = "" if isinstance(value, str) else _scalar_error(value, "integer", "int32", struct, path)
        errors += [error] if error else []
        return
    if name == _MICRO_TIME:
        if isinstance(value, str):
            _check_micro_time(value)
        else:
            errors.append(_cannot_unmarshal(value, struct, path, "string"))
        return
    definition = _reference_name(schema) if name else ""
    schema = resolve(definition) if name else schema
    kind, properties = schema.get("type"), schema.get("properties")
    if kind == "object" and properties is not None:
        if isinstance(value, dict):
            _check_members(value, properties, resolve, name.rpartition(".")[2], path, errors, definition)
        else:
            errors.append(_cannot_unmarshal(value, struct, path, name))
    elif kind in ("object", "array"):
        if not isinstance(value, dict if kind == "object" else list):
            errors.append(_cannot_unmarshal(value, struct, path, go_type(schema, resolve)))
            return
        inner = schema.get("additionalProperties" if kind == "object" else "items")
        if isinstance(inner, dict):
            # The decoder reports the map or list itself for an error in it.
            for each in value.values() if isinstance(value, dict) else value:
                if kind == "object" and inner.get("type") == "array" and not isinstance(each, list | None):
                    errors.append(_cannot_unmarshal(each, struct, path, _EXTRA_VALUE))
                else:
                    _check_value(each, inner, resolve, struct, path, errors)
    elif error := _scalar_error(value, kind, schema.get("format", ""), struct, path):
        errors.append(error)


def _check_micro_time(value: str) -> None:
    if said := gotime.parse_error(value, gotime.MICROSECONDS):
        raise _UnmarshalAborted(said)


def _check_quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _UnmarshalAborted(_INVALID_QUANTITY)
    try:
        Quantity.parse(value)
    except ValueError as error:
        raise _UnmarshalAborted(str(error)) from None


def _scalar_error(value: Any, kind: str | None, form: str, struct: str, path: str) -> str:
    if kind == "boolean":
        return "" if isinstance(value, bool) else _cannot_unmarshal(value, struct, path, "bool")
    if kind == "integer":
        number_type = form if form in _NUMBERS else "int64"
        low, high = _NUMBERS[number_type]
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if fits else _cannot_unmarshal(value, struct, path, number_type, literal=True)
    if kind == "string":
        if not isinstance(value, str):
            return _cannot_unmarshal(value, struct, path, "[]uint8" if form == "byte" else "string")
        if form == "byte":
            return _base64_error(value)
        if form == "date-time" and value and (error := gotime.parse_error(value, gotime.SECONDS)):
            raise _UnmarshalAborted(error)
    return ""


def _base64_error(text: str) -> str:
    illegal = _find_not_base64(text.rstrip("=\n"))
    if illegal is not None:
        return f"illegal base64 data at input byte {illegal.start()}"
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return f"illegal base64 data at input byte {_padding_error_offset(text)}"
    return ""


def _padding_error_offset(text: str) -> int:
    """Returns the offset at which Go stops: the first extra character, or the end where one is missing."""
    given = len(text.rstrip("="))
    if given == len(text):
        return given // 4 * 4
    needed = -given % 4 if given % 4 > 1 else 0
    return min(given + needed, len(text))


def go_type(schema: Schema, resolve: Resolve) -> str:
    name = _short_type_name(schema)
    if name:
        return name
    kind = schema.get("type")
    if kind == "array":
        return "[]" + go_type(schema.get("items") or {}, resolve)
    if kind == "object":
        inner = schema.get("additionalProperties")
        return "map[string]" + (go_type(inner, resolve) if isinstance(inner, dict) else "string")
    if kind == "integer":
        return str(schema.get("format") or "int64")
    if kind == "string":
        return "[]uint8" if schema.get("format") == "byte" else "string"
    return {"boolean": "bool", "number": "float64"}.get(str(kind), "interface {}")


def _cannot_unmarshal(value: Any, struct: str, path: str, go_type_name: str, *, literal: bool = False) -> str:
    kind = _KINDS.get(type(value), "number")
    if kind == "number" and literal:
        kind = f"number {value}"
    return f"json: cannot unmarshal {kind} into Go struct field {struct}.{path} of type {go_type_name}"


def _reference_name(schema: Schema) -> str:
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf") or () if "$ref" in part), "")
    return str(reference).rpartition("/")[2]


def _short_type_name(schema: Schema) -> str:
    """Returns `v1.Container` for a schema that refers to `io.k8s.api.core.v1.Container`."""
    return ".".join(_reference_name(schema).split(".")[-2:])
