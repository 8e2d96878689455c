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
_OWN_WORDS = ("v1.FieldsV1", "runtime.RawExtension", "v1.JSON")
"""Types that unmarshal themselves. Their errors are reported elsewhere."""
_QUANTITY = "resource.Quantity"
_INT_OR_STRING = "intstr.IntOrString"
_MICRO_TIME = "v1.MicroTime"
_KINDS = {dict: "object", list: "array", str: "string", bool: "bool"}
_NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LISTED = "v1.ExtraValue"
"""The only named list type that is a map value."""
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


class _Refused(Exception):
    """Raised by a type that unmarshals itself: the decoder stops there and discards earlier type errors."""


def problem(value: Any, kind: str, schema: Schema, resolve: Resolve) -> str:
    """Returns the error of the decoder, which is the first in text order. Empty if there is none."""
    noted: list[str] = []
    try:
        _members(value, schema["properties"], resolve, kind, "", noted)
    except _Refused as refused:
        return str(refused)
    return noted[0] if noted else ""


def _members(
    value: Any, properties: Schema, resolve: Resolve, struct: str, path: str, noted: list[str], definition: str = ""
) -> None:
    for key, each in value.items():
        if key in properties:
            within = gostructs.embedded(definition, key) if definition else ""
            at = ".".join(part for part in (path, within, key) if part)
            _look(each, properties[key], resolve, struct, at, noted)


def _look(value: Any, schema: Schema, resolve: Resolve, struct: str, path: str, noted: list[str]) -> None:
    name = _name(schema)
    if value is None or name in _OWN_WORDS:
        return
    if name == _QUANTITY:
        _read_quantity(value)
        return
    if name == _INT_OR_STRING:
        said = "" if isinstance(value, str) else _scalar(value, "integer", "int32", struct, path)
        noted += [said] if said else []
        return
    if name == _MICRO_TIME:
        if isinstance(value, str):
            _read_micro_time(value)
        else:
            noted.append(_cannot(value, struct, path, "string"))
        return
    definition = _reference(schema) if name else ""
    schema = resolve(definition) if name else schema
    kind, properties = schema.get("type"), schema.get("properties")
    if kind == "object" and properties is not None:
        if isinstance(value, dict):
            _members(value, properties, resolve, name.rpartition(".")[2], path, noted, definition)
        else:
            noted.append(_cannot(value, struct, path, name))
    elif kind in ("object", "array"):
        if not isinstance(value, dict if kind == "object" else list):
            noted.append(_cannot(value, struct, path, go_type(schema, resolve)))
            return
        inner = schema.get("additionalProperties" if kind == "object" else "items")
        if isinstance(inner, dict):
            # The decoder reports the map or list itself for an error in it.
            for each in value.values() if isinstance(value, dict) else value:
                if kind == "object" and inner.get("type") == "array" and not isinstance(each, list | None):
                    noted.append(_cannot(each, struct, path, _LISTED))
                else:
                    _look(each, inner, resolve, struct, path, noted)
    elif said := _scalar(value, kind, schema.get("format", ""), struct, path):
        noted.append(said)


def _read_micro_time(value: str) -> None:
    if said := gotime.problem(value, gotime.MICROSECONDS):
        raise _Refused(said)


def _read_quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Refused(_NO_QUANTITY)
    try:
        Quantity.parse(value)
    except ValueError as error:
        raise _Refused(str(error)) from None


def _scalar(value: Any, kind: str | None, form: str, struct: str, path: str) -> str:
    if kind == "boolean":
        return "" if isinstance(value, bool) else _cannot(value, struct, path, "bool")
    if kind == "integer":
        wanted = form if form in _NUMBERS else "int64"
        low, high = _NUMBERS[wanted]
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if fits else _cannot(value, struct, path, wanted, literal=True)
    if kind == "string":
        if not isinstance(value, str):
            return _cannot(value, struct, path, "[]uint8" if form == "byte" else "string")
        if form == "byte":
            return _base64(value)
        if form == "date-time" and value and (said := gotime.problem(value, gotime.SECONDS)):
            raise _Refused(said)
    return ""


def _base64(text: str) -> str:
    strange = _NOT_BASE64.search(text.rstrip("=\n"))
    if strange is not None:
        return f"illegal base64 data at input byte {strange.start()}"
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return f"illegal base64 data at input byte {_wrong_padding(text)}"
    return ""


def _wrong_padding(text: str) -> int:
    """Returns the offset at which Go stops: the first extra character, or the end where one is missing."""
    given = len(text.rstrip("="))
    if given == len(text):
        return given // 4 * 4
    needed = -given % 4 if given % 4 > 1 else 0
    return min(given + needed, len(text))


def go_type(schema: Schema, resolve: Resolve) -> str:
    name = _name(schema)
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


def _cannot(value: Any, struct: str, path: str, wanted: str, *, literal: bool = False) -> str:
    kind = _KINDS.get(type(value), "number")
    if kind == "number" and literal:
        kind = f"number {value}"
    return f"json: cannot unmarshal {kind} into Go struct field {struct}.{path} of type {wanted}"


def _reference(schema: Schema) -> str:
    found = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf") or () if "$ref" in part), "")
    return str(found).rpartition("/")[2]


def _name(schema: Schema) -> str:
    """Returns `v1.Container` for a schema that refers to `io.k8s.api.core.v1.Container`."""
    return ".".join(_reference(schema).split(".")[-2:])
