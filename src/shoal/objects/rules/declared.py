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

from shoal.objects.cel.escaping import escaped
from shoal.objects.cel.library.times import read_duration, read_timestamp
from shoal.objects.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of
from shoal.objects.cel.values import MapList, SetList

JsonSchema = dict[str, Any]
Convert = Callable[[Any], Any]

MAX_REQUEST: Final = 3 * 1024 * 1024
_EMBEDDED = "x-kubernetes-embedded-resource"
_META: JsonSchema = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}


@dataclass(slots=True, eq=False)
class Declared:
    type: Type
    max_elements: int = 0
    """Maximum characters, items or entries."""
    min_size: int = 0
    """Bytes of its shortest JSON."""
    fields: Mapping[str, Declared] = field(default_factory=dict)
    """Fields by their names in expressions."""
    item: Declared | None = None
    """The item type of a list or map."""
    convert: Convert | None = None
    """Converts from the wire. None: values are used as they are."""

    def named(self, name: str) -> Declared | None:
        """Returns the declaration of a property by its wire name."""
        identifier = escaped(name)
        return None if identifier is None else self.fields.get(identifier)

    def size_at(self, path: Sequence[str]) -> int | None:
        """Returns the maximum size of the value at a path of an expression, or None if nothing is known of it."""
        here: Declared | None = self
        for step in path:
            if here is None:
                return None
            if step == "@keys":
                here = _KEY if here.type.kind == "map" else None
            else:
                here = here.item if step in ("@items", "@values") else here.fields.get(step)
        return None if here is None else here.max_elements

    def read(self, value: Any) -> Any:
        return value if self.convert is None or value is None else self.convert(value)


_KEY: Final = Declared(STRING)


def declared(schema: JsonSchema, *, root: bool, name: str = "selfType") -> Declared | None:
    """`root`: the schema is that of a whole resource, whose kind and name are always present."""
    if schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        return Declared(DYN, MAX_REQUEST - 2 if longest is None else max(longest, 0) * 4, 1)
    if root:
        schema = with_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name)
    if kind == "object":
        return _object(schema, name)
    if kind == "string":
        return _string(schema)
    if kind == "boolean":
        return Declared(BOOL, 0, 4)
    if kind == "number":
        return Declared(DOUBLE, 0, 1, convert=lambda value: float(value) if value.__class__ is int else value)
    return Declared(INT, 0, 1) if kind == "integer" else None


def with_meta(schema: JsonSchema) -> JsonSchema:
    """Returns the schema of a resource with kind, apiVersion and name added if it does not declare them."""
    text: JsonSchema = {"type": "string"}
    properties = schema.get("properties") or {}
    meta = properties.get("metadata") or {}
    named = meta.get("properties") or {}
    known = [properties.get("kind"), properties.get("apiVersion"), named.get("name"), named.get("generateName")]
    if meta.get("type") == "object" and all((one or {}).get("type") == "string" for one in known):
        return schema
    return {**schema, "properties": {**properties, "kind": text, "apiVersion": text, "metadata": _META}}


def _inner(schema: JsonSchema, name: str) -> Declared | None:
    return declared(schema, root=bool(schema.get(_EMBEDDED)), name=name)


def _list(schema: JsonSchema, name: str) -> Declared | None:
    items = schema.get("items")
    item = _inner(items, f"{name}.@idx") if isinstance(items, dict) else None
    if item is None:
        return None
    most = schema.get("maxItems")
    longest = (MAX_REQUEST - 2) // (item.min_size + 1) if most is None else max(most, 0)
    return Declared(list_of(item.type), longest, 2, item=item, convert=_list_reader(schema, item.convert))


def _list_reader(schema: JsonSchema, convert: Convert | None) -> Convert | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return lambda value: SetList(value if convert is None else map(convert, value))
    if kind == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())

        def keyed(value: list[Any]) -> MapList:
            made = MapList(value if convert is None else map(convert, value))
            made.keys = keys
            return made

        return keyed
    if convert is None:
        return None
    return lambda value: [item if item is None else convert(item) for item in value]


def _object(schema: JsonSchema, name: str) -> Declared | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        value = _inner(additional, f"{name}.@elem")
        return None if value is None else _map(schema, value)
    required = set(schema.get("required") or ())
    fields: dict[str, Declared] = {}
    keys: dict[str, str] = {}
    smallest = 2
    for key, sub in (schema.get("properties") or {}).items():
        identifier = escaped(key)
        inner = _inner(sub, f"{name}.{identifier}")
        if inner is None:
            continue
        if identifier is not None:
            fields[identifier] = inner
            if identifier != key:
                keys[identifier] = key
        if key in required and sub.get("default") is None:
            smallest += len(key.encode()) + inner.min_size + 4
    kind = Type("object", (), name, {key: inner.type for key, inner in fields.items()}, keys)
    return Declared(kind, 0, smallest, fields, convert=_object_reader(fields, keys))


def _object_reader(fields: Mapping[str, Declared], keys: Mapping[str, str]) -> Convert | None:
    changed = {keys.get(key, key): inner.convert for key, inner in fields.items() if inner.convert is not None}
    if not changed:
        return None

    def read(value: dict[str, Any]) -> dict[str, Any]:
        made = None
        for key, convert in changed.items():
            inner = value.get(key)
            if inner is not None:
                made = dict(value) if made is None else made
                made[key] = convert(inner)
        return value if made is None else made

    return read


def _map(schema: JsonSchema, value: Declared) -> Declared:
    most = schema.get("maxProperties")
    longest = (MAX_REQUEST - 2) // (value.min_size + 6) if most is None else max(most, 0)
    convert = value.convert

    def read(entries: dict[str, Any]) -> dict[str, Any]:
        assert convert is not None
        return {key: inner if inner is None else convert(inner) for key, inner in entries.items()}

    return Declared(map_of(STRING, value.type), longest, 2, item=value, convert=None if convert is None else read)


def _string(schema: JsonSchema) -> Declared:
    longest, form = schema.get("maxLength"), schema.get("format")
    if form == "byte":
        return Declared(BYTES, MAX_REQUEST - 2 if longest is None else max(longest, 0), 2, convert=_bytes)
    if form == "duration":
        return Declared(DURATION, 32, 3, convert=lambda text: _or_itself(read_duration, text))
    if form == "date":
        return Declared(TIMESTAMP, 12, 12, convert=lambda text: _or_itself(read_timestamp, f"{text}T00:00:00Z"))
    if form == "date-time":
        return Declared(TIMESTAMP, 32, 21, convert=lambda text: _or_itself(read_timestamp, text.upper()))
    return _plain(schema)


def _plain(schema: JsonSchema) -> Declared:
    longest, choices = schema.get("maxLength"), schema.get("enum") or ()
    if longest is not None:
        return Declared(STRING, max(longest, 0) * 4, 2)
    if choices:
        return Declared(STRING, max(len(one.encode()) if isinstance(one, str) else 0 for one in choices), 2)
    return Declared(STRING, MAX_REQUEST - 2, 2)


def _bytes(text: str) -> bytes | str:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text


def _or_itself(read: Callable[[str], Any], text: str) -> Any:
    """Keeps a text that the schema's format check accepted but that cannot be parsed. No rule will accept it."""
    found = read(text)
    return text if found is None else found
