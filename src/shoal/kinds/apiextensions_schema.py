"""Validates the `openAPIV3Schema` of a CRD version beyond being structural: keywords, list types, defaults.

Messages and paths are upstream's (apiextensions validation). CEL rules are compiled by `rules` when the schema is
otherwise valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from shoal.kinds.apiextensions_structural import EMBEDDED, INT_OR_STRING, PRESERVE, properties_of, structural_causes
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required
from shoal.objects.schema import MAX_DEPTH, default_causes, depth_of

JsonSchema = dict[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_META = ("metadata", "kind", "apiVersion")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_AT_ROOT = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    PRESERVE: "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
_SHAPES: dict[str, tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys(
        ("type", "format", "title", "description", "pattern", "id", "$ref", "x-kubernetes-list-type",
         "x-kubernetes-map-type"),
        ("must be a string", (str,)),
    ),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        ("must be an integer", (int,)),
    ),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), ("must be a number", (int, float))),
    **dict.fromkeys(
        ("nullable", "uniqueItems", "exclusiveMaximum", "exclusiveMinimum", PRESERVE, EMBEDDED, INT_OR_STRING),
        ("must be a boolean", (bool,)),
    ),
    **dict.fromkeys(("enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
                    ("must be a list", (list,))),
}  # fmt: skip
_MEMBERS: dict[str, tuple[str, type]] = {
    "required": ("must be a string", str),
    "x-kubernetes-list-map-keys": ("must be a string", str),
    "x-kubernetes-validations": ("must be an object", dict),
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the object the current schema node is."""

    in_meta: bool = False
    no_defaults: str = ""
    """The reason why defaults are forbidden here. Empty: they are allowed."""


def schema_causes(schema: JsonSchema, path: str, *, status: bool, settled: bool = False) -> list[Cause]:
    """Validates a version's schema. `has_status`: the status subresource is enabled. `unchanged`: the stored CRD has
    the same schema.
    """
    if depth_of(schema) > MAX_DEPTH:
        return [invalid_value(path, "", f"must not be nested deeper than {MAX_DEPTH} levels")]
    shape = list(_shape(schema, path))
    if shape:
        return shape
    causes = list(_root(schema, path)) if status else []
    if schema.get("nullable"):
        causes.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    if not _has_unsupported(schema):
        causes += structural_causes(schema, path) or _defaults(schema, path, root=True)
    causes += _keywords(schema, path, _Place(), root=True)
    return list(dict.fromkeys(causes)) or _compiled_rules(schema, path, settled)


def _compiled_rules(schema: JsonSchema, path: str, settled: bool) -> list[Cause]:
    if b'"x-kubernetes-validations"' not in orjson.dumps(schema):
        return []
    # CEL is imported lazily: a server whose CRDs have no rules starts without it.
    from shoal.kinds.apiextensions_rules import rule_causes  # noqa: PLC0415

    return rule_causes(schema, path, settled=settled)


def _shape(schema: Any, path: str) -> Iterator[Cause]:
    """Checks that subschemas are dicts where schemas are expected. All later checks rely on it."""
    if not isinstance(schema, dict):
        yield invalid_value(path, schema, "must be a schema object")
        return
    yield from _keyword_shapes(schema, path)
    for key in ("properties", "patternProperties", "definitions"):
        value = schema.get(key)
        if value is not None and not isinstance(value, dict):
            yield invalid_value(f"{path}.{key}", value, "must be an object of schemas")
            continue
        for name, sub in (value or {}).items():
            yield from _shape(sub, f"{path}.{key}[{name}]")
    for key in ("allOf", "anyOf", "oneOf"):
        value = schema.get(key)
        if value is not None and not isinstance(value, list):
            yield invalid_value(f"{path}.{key}", value, "must be a list of schemas")
            continue
        for index, sub in enumerate(value or ()):
            yield from _shape(sub, f"{path}.{key}[{index}]")
    for key, others in (("not", ()), ("items", (list,)), ("additionalProperties", (bool,))):
        value = schema.get(key)
        if value is not None and not isinstance(value, others):
            yield from _shape(value, f"{path}.{key}")


def _keyword_shapes(schema: JsonSchema, path: str) -> Iterator[Cause]:
    for key in [key for key in schema if key in _SHAPES]:
        told, kinds = _SHAPES[key]
        if schema[key] is not None and type(schema[key]) not in kinds:
            yield invalid_value(f"{path}.{key}", schema[key], told)
        elif key in _MEMBERS:
            told, kind = _MEMBERS[key]
            for index, member in enumerate(schema[key] or ()):
                if type(member) is not kind:
                    yield invalid_value(f"{path}.{key}[{index}]", member, told)


def _has_unsupported(schema: JsonSchema) -> bool:
    if any(schema.get(key) for key in _UNSUPPORTED) or isinstance(schema.get("items"), list):
        return True
    return any(_has_unsupported(sub) for sub, _ in _inner(schema, ""))


def _inner(schema: JsonSchema, path: str) -> Iterator[tuple[JsonSchema, str]]:
    """Yields the direct subschemas: those of the same value, and those of its items and properties."""
    if isinstance(schema.get("not"), dict):
        yield schema["not"], f"{path}.not"
    for key in ("allOf", "oneOf", "anyOf"):
        for index, sub in enumerate(schema.get(key) or ()):
            yield sub, f"{path}.{key}[{index}]"
    if isinstance(schema.get("items"), dict):
        yield schema["items"], f"{path}.items"
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"], f"{path}.additionalProperties"
    for key, sub in properties_of(schema).items():
        yield sub, f"{path}.properties[{key}]"


def _root(schema: JsonSchema, path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if kind and kind != "object":
        told = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid_value(f"{path}.type", kind, told)
    elif any(value for key, value in schema.items() if key not in _AT_ROOT):
        allowed = " ".join(_AT_ROOT.values())
        told = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid_value(path, schema, told)


def _keywords(schema: JsonSchema, path: str, place: _Place, root: bool = False) -> Iterator[Cause]:
    yield from _plain_keywords(schema, path, place)
    additional = schema.get("additionalProperties")
    if additional is not None and properties_of(schema) and additional is not True:
        told = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", told)
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        inside = replace(place, no_defaults=reason) if place.in_meta else place
        yield from _keywords(additional, f"{path}.additionalProperties", inside)
    for key, sub in properties_of(schema).items():
        inside = place
        if (root or schema.get(EMBEDDED)) and key in _META:
            inside = _Place(True, f"in top-level {key}" if root else place.no_defaults)
        yield from _keywords(sub, f"{path}.properties[{key}]", inside)
    for key in ("not", "items"):
        if isinstance(schema.get(key), dict):
            yield from _keywords(schema[key], f"{path}.{key}", place)
    for key in ("allOf", "oneOf", "anyOf"):
        for index, sub in enumerate(schema.get(key) or ()):
            yield from _keywords(sub, f"{path}.{key}[{index}]", place)
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    yield from _rules(schema, path)


def _plain_keywords(schema: JsonSchema, path: str, place: _Place) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden_field(f"{path}.default", f"must not be set {place.no_defaults}")
    for key in _UNSUPPORTED:
        if schema.get(key) not in (None, "", {}):
            yield forbidden_field(f"{path}.{key}", f"{key} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and schema.get(EMBEDDED):
        yield forbidden_field(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        told = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", told)
    if schema.get(PRESERVE) is False:
        yield invalid_value(f"{path}.{PRESERVE}", False, "must be true or undefined")


def _must_be(kind: str, expected: str, keyword: str, path: str) -> Iterator[Cause]:
    if kind != expected:
        told = f"must be {expected} if {keyword} is specified"
        yield invalid_value(f"{path}.type", kind, told) if kind else required(f"{path}.type", told)


def _map_type(schema: JsonSchema, path: str) -> Iterator[Cause]:
    keyword = "x-kubernetes-map-type"
    if schema.get(keyword) is not None:
        yield from _must_be(schema.get("type") or "", "object", keyword, path)
        if schema[keyword] not in ("atomic", "granular"):
            yield not_supported(f"{path}.{keyword}", schema[keyword], ("atomic", "granular"))


def _list_type(schema: JsonSchema, path: str) -> Iterator[Cause]:
    keyword, keys = "x-kubernetes-list-type", schema.get("x-kubernetes-list-map-keys") or ()
    list_type, items = schema.get(keyword), schema.get("items")
    item = items if isinstance(items, dict) else {}
    if list_type is not None:
        yield from _must_be(schema.get("type") or "", "array", keyword, path)
        if schema.get("type") == "array" and list_type == "set":
            yield from _atomic(item, f"{path}.items")
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(f"{path}.{keyword}", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        told = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{keyword}"
        yield required(where, told) if list_type is None else invalid_value(where, list_type, told)
    if list_type == "map":
        yield from _map_keys(schema, item, path)
    if list_type in ("set", "map") and item.get("nullable"):
        yield forbidden_field(f"{path}.items.nullable", f"cannot be nullable when {keyword} is {list_type}")
    if list_type == "map":
        yield from _key_properties(keys, item, path)


def _atomic(item: JsonSchema, path: str) -> Iterator[Cause]:
    told = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = item.get("x-kubernetes-list-type")
    if item.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid_value(f"{path}.x-kubernetes-list-type", list_type, told)
    if item.get("type") == "object" and item.get("x-kubernetes-map-type") != "atomic":
        yield invalid_value(f"{path}.x-kubernetes-map-type", list_type, told)


def _map_keys(schema: JsonSchema, item: JsonSchema, path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or []
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if schema.get("items") is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif item.get("type") != "object":
        told = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", item.get("type") or "", told)
    else:
        for index, key in enumerate(keys):
            if key not in properties_of(item):
                yield invalid_value(where, keys, "entries must all be names of item properties")
            elif properties_of(item)[key].get("type") in ("array", "object"):
                told = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield invalid_value(f"{path}.items.properties[{key}].type", item["type"], told)
            if key in keys[:index]:
                yield invalid_value(where, keys, "must not contain duplicate entries")


def _key_properties(keys: Any, item: JsonSchema, path: str) -> Iterator[Cause]:
    for key in keys:
        field = properties_of(item).get(key)
        if field is None:
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in (item.get("required") or ()) and field.get("default") is None:
            told = "so it must have a default or be a required property"
            yield required(f"{where}.default", f"this property is in x-kubernetes-list-map-keys, {told}")
        if field.get("nullable"):
            told = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden_field(f"{where}.nullable", told)


def _rules(schema: JsonSchema, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid_value(f"{where}.message", message, "must be non-empty if specified")
        elif _breaks(message.strip()):
            yield invalid_value(f"{where}.message", message, "must not contain line breaks")
        elif _breaks(text) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression")
        if expression and not expression.strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield not_supported(f"{where}.reason", rule["reason"], _REASONS)
        field = rule.get("fieldPath") or ""
        if field and not field.strip():
            yield invalid_value(f"{where}.fieldPath", field, "must be non-empty if specified")
        elif _breaks(field):
            yield invalid_value(f"{where}.fieldPath", field, "must not contain line breaks")


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _defaults(schema: JsonSchema, path: str, root: bool = False) -> list[Cause]:
    """Checks that defaults are valid and have no unknown fields. Maps are not followed, as upstream."""
    causes: list[Cause] = []
    if schema.get("default") is not None:
        causes += default_causes(schema | {EMBEDDED: True} if root else schema, f"{path}.default")
    if isinstance(schema.get("items"), dict):
        causes += _defaults(schema["items"], f"{path}.items")
    for key, sub in properties_of(schema).items():
        causes += _defaults(sub, f"{path}.properties[{key}]")
    return causes
