"""The rules of structural schemas: every field has a type, and logical junctors (allOf, anyOf, oneOf, not) only
restrict values.

Messages and paths are upstream's (apiextensions-apiserver/pkg/apiserver/schema). The schema is a CRD version's
`openAPIV3Schema`, and its subschemas are known to be dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.objects.errors import Cause, forbidden_field, invalid_value, required_value
from shoal.objects.schema.patterns import is_valid_pattern

JsonSchema = dict[str, Any]

PRESERVE_UNKNOWN_FIELDS = "x-kubernetes-preserve-unknown-fields"
EMBEDDED_RESOURCE = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
_INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]
_MISSING_TYPE = {
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
    (PRESERVE_UNKNOWN_FIELDS, "must be false to be structural"),
    (EMBEDDED_RESOURCE, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def validate_structural(schema: JsonSchema, path: str) -> list[Cause]:
    """Returns why the schema is not structural, sorted by message."""
    causes = [*_validate_invariants(schema, "root", path), *_validate_completeness(schema, schema, path, path)]
    return sorted(causes, key=lambda cause: cause.message)


def properties_of(schema: JsonSchema) -> dict[str, JsonSchema]:
    return schema.get("properties") or {}


def _validate_invariants(schema: JsonSchema, level: str, path: str) -> Iterator[Cause]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield from _validate_invariants(items, "item", f"{path}.items")
    elif schema.get("type") == "array":
        yield required_value(f"{path}.items", "must be specified")
    for key, sub in properties_of(schema).items():
        yield from _validate_invariants(sub, "field", f"{path}.properties[{key}]")
    if additional is not None:
        if level == "root":
            yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _validate_invariants(additional, "field", f"{path}.additionalProperties")
    yield from _validate_extensions(schema, path)
    first = (schema.get("allOf") or [{}])[0]
    yield from _validate_junctors(
        schema, schema.get("anyOf") == _INT_OR_STRING_TYPES, first.get("anyOf") == _INT_OR_STRING_TYPES, path
    )
    yield from _validate_types(schema, level, path)
    yield from _validate_metadata(schema, level, path)


def _validate_extensions(schema: JsonSchema, path: str) -> Iterator[Cause]:
    if schema.get(INT_OR_STRING):
        for key in (PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE):
            if schema.get(key):
                yield invalid_value(f"{path}.{key}", True, f"must be false if {INT_OR_STRING} is true")


def _validate_types(schema: JsonSchema, level: str, path: str) -> Iterator[Cause]:
    kind, embedded = schema.get("type") or "", schema.get(EMBEDDED_RESOURCE)
    if embedded and kind != "object":
        detail = f"must be object if {EMBEDDED_RESOURCE} is true"
        yield invalid_value(f"{path}.type", kind, detail) if kind else required_value(f"{path}.type", detail)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE_UNKNOWN_FIELDS):
        yield required_value(f"{path}.type", _MISSING_TYPE[level])
    if embedded and schema.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", f"must not be used if {EMBEDDED_RESOURCE} is set")
    if level == "root" and kind and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    if embedded and not schema.get(PRESERVE_UNKNOWN_FIELDS) and not properties_of(schema):
        yield required_value(
            f"{path}.properties", f"must not be empty if {EMBEDDED_RESOURCE} is true without {PRESERVE_UNKNOWN_FIELDS}"
        )


def _validate_metadata(schema: JsonSchema, level: str, path: str) -> Iterator[Cause]:
    properties = properties_of(schema)
    is_resource = level == "root" or schema.get(EMBEDDED_RESOURCE)
    for key in ("kind", "apiVersion"):
        if is_resource and key in properties and properties[key].get("type") != "string":
            yield invalid_value(f"{path}.properties[{key}].type", properties[key].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    item_path = f"{path}.properties[metadata]"
    if is_resource and metadata.get("type") != "object":
        yield invalid_value(f"{item_path}.type", metadata.get("type") or "", "must be object")
    rest = {key for key, value in metadata.items() if value and key not in ("type", "default", "properties")}
    if level == "root" and (rest or not properties_of(metadata).keys() <= {"name", "generateName"}):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden_field(item_path, detail)


def _validate_junctors(schema: JsonSchema, skip_any: bool, skip_first: bool, path: str) -> Iterator[Cause]:
    if not skip_any:
        for index, sub in enumerate(schema.get("anyOf") or ()):
            yield from _validate_nested_value(sub, False, f"{path}.anyOf[{index}]")
    for index, sub in enumerate(schema.get("allOf") or ()):
        yield from _validate_nested_value(sub, skip_first and index == 0, f"{path}.allOf[{index}]")
    for index, sub in enumerate(schema.get("oneOf") or ()):
        yield from _validate_nested_value(sub, False, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        yield from _validate_nested_value(schema["not"], False, f"{path}.not")
    pattern = schema.get("pattern")
    if pattern and not is_valid_pattern(pattern):
        detail = "must be a valid regular expression, but isn't: error parsing regexp"
        yield invalid_value(f"{path}.pattern", pattern, detail)


def _validate_nested_value(schema: JsonSchema, skip_any: bool, path: str) -> Iterator[Cause]:
    """Validates a schema below a junctor: it may restrict values but not define types or fields."""
    yield from _validate_junctors(schema, skip_any, False, path)
    if isinstance(schema.get("items"), dict):
        yield from _validate_nested_value(schema["items"], False, f"{path}.items")
    for key, sub in properties_of(schema).items():
        yield from _validate_nested_value(sub, False, f"{path}.properties[{key}]")
    for key, detail in _FORBIDDEN_NESTED:
        value = schema.get(key)
        if value or (value is not None and key == "default") or (key == "additionalProperties" and value == {}):
            yield forbidden_field(f"{path}.{key}", detail)
    if "metadata" in properties_of(schema):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _validate_completeness(value: JsonSchema, schema: JsonSchema | None, path: str, value_path: str) -> Iterator[Cause]:
    """Checks that everything in the junctors of `value` is defined in `schema`."""
    for key in ("not", "allOf", "anyOf", "oneOf"):
        inner = value.get(key)
        for index, sub in enumerate(inner if isinstance(inner, list) else [inner] if inner is not None else []):
            nested_path = f"{value_path}.{key}[{index}]" if isinstance(inner, list) else f"{value_path}.{key}"
            yield from _validate_nested_completeness(sub, schema, path, nested_path)


def _validate_nested_completeness(
    value: JsonSchema, schema: JsonSchema | None, path: str, value_path: str
) -> Iterator[Cause]:
    if schema is None:
        yield required_value(path, f"because it is defined in {value_path}")
        return
    yield from _validate_completeness(value, schema, path, value_path)
    if isinstance(value.get("items"), dict):
        items = schema.get("items")
        yield from _validate_nested_completeness(value["items"], items, f"{path}.items", f"{value_path}.items")
    for key, sub in properties_of(value).items():
        field, item_path = f"{path}.properties[{key}]", f"{value_path}.properties[{key}]"
        yield from _validate_nested_completeness(sub, properties_of(schema).get(key), field, item_path)
