"""The rules of structural schemas: every field has a type, and logical junctors (allOf, anyOf, oneOf, not) only
restrict values.

Messages and paths are upstream's (apiextensions-apiserver/pkg/apiserver/schema). The schema is a CRD version's
`openAPIV3Schema`, and its subschemas are known to be dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.objects.errors import Cause, forbidden_field, invalid_value, required
from shoal.objects.schema.patterns import is_pattern

JsonSchema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
_BOTH_TYPES = [{"type": "integer"}, {"type": "string"}]
_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN_NESTED = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def structural_causes(schema: JsonSchema, path: str) -> list[Cause]:
    """Returns why the schema is not structural, sorted by message."""
    causes = [*_invariants(schema, "root", path), *_complete(schema, schema, path, path)]
    return sorted(causes, key=lambda cause: cause.message)


def properties_of(schema: JsonSchema) -> dict[str, JsonSchema]:
    return schema.get("properties") or {}


def _invariants(schema: JsonSchema, level: str, path: str) -> Iterator[Cause]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield from _invariants(items, "item", f"{path}.items")
    elif schema.get("type") == "array":
        yield required(f"{path}.items", "must be specified")
    for key, sub in properties_of(schema).items():
        yield from _invariants(sub, "field", f"{path}.properties[{key}]")
    if additional is not None:
        if level == "root":
            yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, "field", f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    first = (schema.get("allOf") or [{}])[0]
    yield from _junctors(schema, schema.get("anyOf") == _BOTH_TYPES, first.get("anyOf") == _BOTH_TYPES, path)
    yield from _types(schema, level, path)
    yield from _metadata(schema, level, path)


def _extensions(schema: JsonSchema, path: str) -> Iterator[Cause]:
    if schema.get(INT_OR_STRING):
        for key in (PRESERVE, EMBEDDED):
            if schema.get(key):
                yield invalid_value(f"{path}.{key}", True, f"must be false if {INT_OR_STRING} is true")


def _types(schema: JsonSchema, level: str, path: str) -> Iterator[Cause]:
    kind, embedded = schema.get("type") or "", schema.get(EMBEDDED)
    if embedded and kind != "object":
        detail = f"must be object if {EMBEDDED} is true"
        yield invalid_value(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", _NO_TYPE[level])
    if embedded and schema.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
    if level == "root" and kind and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    if embedded and not schema.get(PRESERVE) and not properties_of(schema):
        yield required(f"{path}.properties", f"must not be empty if {EMBEDDED} is true without {PRESERVE}")


def _metadata(schema: JsonSchema, level: str, path: str) -> Iterator[Cause]:
    properties = properties_of(schema)
    checked = level == "root" or schema.get(EMBEDDED)
    for key in ("kind", "apiVersion"):
        if checked and key in properties and properties[key].get("type") != "string":
            yield invalid_value(f"{path}.properties[{key}].type", properties[key].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if checked and metadata.get("type") != "object":
        yield invalid_value(f"{where}.type", metadata.get("type") or "", "must be object")
    rest = {key for key, value in metadata.items() if value and key not in ("type", "default", "properties")}
    if level == "root" and (rest or not properties_of(metadata).keys() <= {"name", "generateName"}):
        told = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden_field(where, told)


def _junctors(schema: JsonSchema, skip_any: bool, skip_first: bool, path: str) -> Iterator[Cause]:
    if not skip_any:
        for index, sub in enumerate(schema.get("anyOf") or ()):
            yield from _nested(sub, False, f"{path}.anyOf[{index}]")
    for index, sub in enumerate(schema.get("allOf") or ()):
        yield from _nested(sub, skip_first and index == 0, f"{path}.allOf[{index}]")
    for index, sub in enumerate(schema.get("oneOf") or ()):
        yield from _nested(sub, False, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        yield from _nested(schema["not"], False, f"{path}.not")
    pattern = schema.get("pattern")
    if pattern and not is_pattern(pattern):
        told = "must be a valid regular expression, but isn't: error parsing regexp"
        yield invalid_value(f"{path}.pattern", pattern, told)


def _nested(schema: JsonSchema, skip_any: bool, path: str) -> Iterator[Cause]:
    """Validates a schema below a junctor: it may restrict values but not define types or fields."""
    yield from _junctors(schema, skip_any, False, path)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], False, f"{path}.items")
    for key, sub in properties_of(schema).items():
        yield from _nested(sub, False, f"{path}.properties[{key}]")
    for key, detail in _FORBIDDEN_NESTED:
        value = schema.get(key)
        if value or (value is not None and key == "default") or (key == "additionalProperties" and value == {}):
            yield forbidden_field(f"{path}.{key}", detail)
    if "metadata" in properties_of(schema):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _complete(value: JsonSchema, schema: JsonSchema | None, path: str, seen_at: str) -> Iterator[Cause]:
    """Checks that everything in the junctors of `value` is defined in `schema`."""
    for key in ("not", "allOf", "anyOf", "oneOf"):
        inner = value.get(key)
        for index, sub in enumerate(inner if isinstance(inner, list) else [inner] if inner is not None else []):
            where = f"{seen_at}.{key}[{index}]" if isinstance(inner, list) else f"{seen_at}.{key}"
            yield from _complete_nested(sub, schema, path, where)


def _complete_nested(value: JsonSchema, schema: JsonSchema | None, path: str, seen_at: str) -> Iterator[Cause]:
    if schema is None:
        yield required(path, f"because it is defined in {seen_at}")
        return
    yield from _complete(value, schema, path, seen_at)
    if isinstance(value.get("items"), dict):
        items = schema.get("items")
        yield from _complete_nested(value["items"], items, f"{path}.items", f"{seen_at}.items")
    for key, sub in properties_of(value).items():
        field, where = f"{path}.properties[{key}]", f"{seen_at}.properties[{key}]"
        yield from _complete_nested(sub, properties_of(schema).get(key), field, where)
