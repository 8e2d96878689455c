"""Why Go could not read a JSON value into the type of a built-in kind, in the words of its decoder.

The types are what the published schemas say of them: structs by the names of their definitions, lists, maps and
numbers. Names Go has for some strings (`v1.Protocol`) are not in the schemas and are told as `string`. Pure.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from shoal.objects.schema.formats import is_date_time

Schema = dict[str, Any]
Resolve = Callable[[str], Schema]

_NUMBERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_OWN_WORDS = ("resource.Quantity", "intstr.IntOrString", "v1.FieldsV1", "runtime.RawExtension", "v1.JSON")
"""They read themselves; their mistakes are told elsewhere."""
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def problem(value: Any, kind: str, schema: Schema, resolve: Resolve) -> str:
    """The first one in the order of the text; empty where there is none."""
    return _members(value, schema["properties"], resolve, kind, "")


def _members(value: Any, properties: Schema, resolve: Resolve, struct: str, path: str) -> str:
    for key, each in value.items():
        if key in properties:
            said = _look(each, properties[key], resolve, struct, f"{path}.{key}".lstrip("."))
            if said:
                return said
    return ""


def _look(value: Any, schema: Schema, resolve: Resolve, struct: str, path: str) -> str:
    name = _name(schema)
    if value is None or name in _OWN_WORDS:
        return ""
    schema = resolve(_reference(schema)) if name else schema
    kind, form = schema.get("type"), schema.get("format", "")
    properties = schema.get("properties")
    if kind == "object" and properties is not None:
        if not isinstance(value, dict):
            return _cannot(value, struct, path, name)
        return _members(value, properties, resolve, name.rpartition(".")[2], path)
    if kind == "object":
        inner = schema.get("additionalProperties")
        if not isinstance(value, dict):
            return _cannot(value, struct, path, go_type(schema, resolve))
        # The decoder names the map itself for what is wrong in it.
        return _first(value.values(), inner, resolve, struct, path) if isinstance(inner, dict) else ""
    if kind == "array":
        if not isinstance(value, list):
            return _cannot(value, struct, path, go_type(schema, resolve))
        return _first(value, schema.get("items") or {}, resolve, struct, path)
    return _scalar(value, kind, form, struct, path)


def _first(values: Any, schema: Schema, resolve: Resolve, struct: str, path: str) -> str:
    for each in values:
        said = _look(each, schema, resolve, struct, path)
        if said:
            return said
    return ""


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
        if form == "date-time" and value and not is_date_time(value):
            return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
    return ""


def _base64(text: str) -> str:
    strange = _NOT_BASE64.search(text.rstrip("=\n"))
    if strange is not None:
        return f"illegal base64 data at input byte {strange.start()}"
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return f"illegal base64 data at input byte {len(text.rstrip('=')) + 1 if '=' in text else len(text) // 4 * 4}"
    return ""


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
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    kind = kinds.get(type(value), "number")
    if kind == "number" and literal:
        kind = f"number {value}"
    return f"json: cannot unmarshal {kind} into Go struct field {struct}.{path} of type {wanted}"


def _reference(schema: Schema) -> str:
    found = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf") or () if "$ref" in part), "")
    return str(found).rpartition("/")[2]


def _name(schema: Schema) -> str:
    """`v1.Container` of a schema that refers to `io.k8s.api.core.v1.Container`."""
    return ".".join(_reference(schema).split(".")[-2:])
