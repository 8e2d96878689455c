"""CEL declarations of a structural schema: the static type of `self`, maximum sizes, and the conversion of wire values
(a date-time to a timestamp, a number to a double, a list of type set to a set).

Schema parts without a CEL type (unknown fields, a list without items) have no declaration, and expressions cannot use
them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shoal.objects.cel.escaping import escape
from shoal.objects.cel.library.times import parse_duration, parse_timestamp
from shoal.objects.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, CELType, list_of, map_of
from shoal.objects.cel.values import MapList, SetList

JsonSchema = dict[str, Any]
ConvertFunc = Callable[[Any], Any]

MAX_REQUEST_BYTES: Final = 3 * 1024 * 1024
_EMBEDDED = "x-kubernetes-embedded-resource"
_META_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}


@dataclass(slots=True, eq=False)
class DeclType:
    cel_type: CELType
    max_elements: int = 0
    """Maximum characters, items or entries."""
    min_size: int = 0
    """Bytes of its shortest JSON."""
    fields: Mapping[str, DeclType] = field(default_factory=dict)
    """Fields by their names in expressions."""
    item: DeclType | None = None
    """The item type of a list or map."""
    convert: ConvertFunc | None = None
    """Converts from the wire. None: values are used as they are."""

    def field_of(self, name: str) -> DeclType | None:
        """Returns the declaration of a property by its wire name."""
        identifier = escape(name)
        return None if identifier is None else self.fields.get(identifier)

    def max_size_at(self, path: Sequence[str]) -> int | None:
        """Returns the maximum size of the value at a path of an expression, or None if nothing is known of it."""
        decl: DeclType | None = self
        for step in path:
            if decl is None:
                return None
            if step == "@keys":
                decl = _KEY_DECL if decl.cel_type.kind == "map" else None
            else:
                decl = decl.item if step in ("@items", "@values") else decl.fields.get(step)
        return None if decl is None else decl.max_elements

    def convert_value(self, value: Any) -> Any:
        return value if self.convert is None or value is None else self.convert(value)


_KEY_DECL: Final = DeclType(STRING)


def decl_type_of(schema: JsonSchema, *, root: bool, name: str = "selfType") -> DeclType | None:
    """`root`: the schema is that of a whole resource, whose kind and name are always present."""
    if schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        return DeclType(DYN, MAX_REQUEST_BYTES - 2 if longest is None else max(longest, 0) * 4, 1)
    if root:
        schema = with_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list_decl(schema, name)
    if kind == "object":
        return _object_decl(schema, name)
    if kind == "string":
        return _string_decl(schema)
    if kind == "boolean":
        return DeclType(BOOL, 0, 4)
    if kind == "number":
        return DeclType(DOUBLE, 0, 1, convert=lambda value: float(value) if value.__class__ is int else value)
    return DeclType(INT, 0, 1) if kind == "integer" else None


def with_meta(schema: JsonSchema) -> JsonSchema:
    """Returns the schema of a resource with kind, apiVersion and name added if it does not declare them."""
    text: JsonSchema = {"type": "string"}
    properties = schema.get("properties") or {}
    meta = properties.get("metadata") or {}
    meta_properties = meta.get("properties") or {}
    meta_fields = [
        properties.get("kind"),
        properties.get("apiVersion"),
        meta_properties.get("name"),
        meta_properties.get("generateName"),
    ]
    if meta.get("type") == "object" and all((one or {}).get("type") == "string" for one in meta_fields):
        return schema
    return {**schema, "properties": {**properties, "kind": text, "apiVersion": text, "metadata": _META_SCHEMA}}


def _nested_decl(schema: JsonSchema, name: str) -> DeclType | None:
    return decl_type_of(schema, root=bool(schema.get(_EMBEDDED)), name=name)


def _list_decl(schema: JsonSchema, name: str) -> DeclType | None:
    items = schema.get("items")
    item = _nested_decl(items, f"{name}.@idx") if isinstance(items, dict) else None
    if item is None:
        return None
    most = schema.get("maxItems")
    longest = (MAX_REQUEST_BYTES - 2) // (item.min_size + 1) if most is None else max(most, 0)
    return DeclType(list_of(item.cel_type), longest, 2, item=item, convert=_list_converter(schema, item.convert))


def _list_converter(schema: JsonSchema, convert: ConvertFunc | None) -> ConvertFunc | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return lambda value: SetList(value if convert is None else map(convert, value))
    if kind == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())

        def to_map_list(value: list[Any]) -> MapList:
            map_list = MapList(value if convert is None else map(convert, value))
            map_list.keys = keys
            return map_list

        return to_map_list
    if convert is None:
        return None
    return lambda value: [item if item is None else convert(item) for item in value]


def _object_decl(schema: JsonSchema, name: str) -> DeclType | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        value = _nested_decl(additional, f"{name}.@elem")
        return None if value is None else _map_decl(schema, value)
    required = set(schema.get("required") or ())
    fields: dict[str, DeclType] = {}
    keys: dict[str, str] = {}
    smallest = 2
    for key, sub in (schema.get("properties") or {}).items():
        identifier = escape(key)
        inner = _nested_decl(sub, f"{name}.{identifier}")
        if inner is None:
            continue
        if identifier is not None:
            fields[identifier] = inner
            if identifier != key:
                keys[identifier] = key
        if key in required and sub.get("default") is None:
            smallest += len(key.encode()) + inner.min_size + 4
    kind = CELType("object", (), name, {key: inner.cel_type for key, inner in fields.items()}, keys)
    return DeclType(kind, 0, smallest, fields, convert=_object_converter(fields, keys))


def _object_converter(fields: Mapping[str, DeclType], keys: Mapping[str, str]) -> ConvertFunc | None:
    converters = {keys.get(key, key): inner.convert for key, inner in fields.items() if inner.convert is not None}
    if not converters:
        return None

    def read(value: dict[str, Any]) -> dict[str, Any]:
        copy = None
        for key, convert in converters.items():
            inner = value.get(key)
            if inner is not None:
                copy = dict(value) if copy is None else copy
                copy[key] = convert(inner)
        return value if copy is None else copy

    return read


def _map_decl(schema: JsonSchema, value: DeclType) -> DeclType:
    most = schema.get("maxProperties")
    longest = (MAX_REQUEST_BYTES - 2) // (value.min_size + 6) if most is None else max(most, 0)
    convert = value.convert

    def read(entries: dict[str, Any]) -> dict[str, Any]:
        assert convert is not None
        return {key: inner if inner is None else convert(inner) for key, inner in entries.items()}

    return DeclType(map_of(STRING, value.cel_type), longest, 2, item=value, convert=None if convert is None else read)


def _string_decl(schema: JsonSchema) -> DeclType:
    longest, form = schema.get("maxLength"), schema.get("format")
    if form == "byte":
        return DeclType(BYTES, MAX_REQUEST_BYTES - 2 if longest is None else max(longest, 0), 2, convert=_decode_bytes)
    if form == "duration":
        return DeclType(DURATION, 32, 3, convert=lambda text: _parse_or_keep(parse_duration, text))
    if form == "date":
        return DeclType(TIMESTAMP, 12, 12, convert=lambda text: _parse_or_keep(parse_timestamp, f"{text}T00:00:00Z"))
    if form == "date-time":
        return DeclType(TIMESTAMP, 32, 21, convert=lambda text: _parse_or_keep(parse_timestamp, text.upper()))
    return _plain_string_decl(schema)


def _plain_string_decl(schema: JsonSchema) -> DeclType:
    longest, choices = schema.get("maxLength"), schema.get("enum") or ()
    if longest is not None:
        return DeclType(STRING, max(longest, 0) * 4, 2)
    if choices:
        return DeclType(STRING, max(len(one.encode()) if isinstance(one, str) else 0 for one in choices), 2)
    return DeclType(STRING, MAX_REQUEST_BYTES - 2, 2)


def _decode_bytes(text: str) -> bytes | str:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text


def _parse_or_keep(read: Callable[[str], Any], text: str) -> Any:
    """Keeps a text that the schema's format check accepted but that cannot be parsed. No rule will accept it."""
    parsed = read(text)
    return text if parsed is None else parsed
