"""Validates the `openAPIV3Schema` of a CRD version beyond being structural: keywords, list types, defaults.

Messages and paths are upstream's (apiextensions validation). CEL rules are compiled by `rules` when the schema is
otherwise valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from shoal.kinds.apiextensions.structural import (
    EMBEDDED_RESOURCE,
    INT_OR_STRING,
    PRESERVE_UNKNOWN_FIELDS,
    properties_of,
    validate_structural,
)
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.schema import MAX_DEPTH, schema_depth, validate_default

JsonSchema = dict[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED_KEYWORDS = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_METADATA_FIELDS = ("metadata", "kind", "apiVersion")
_RULE_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_ALLOWED_AT_ROOT = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    PRESERVE_UNKNOWN_FIELDS: "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
_KEYWORD_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
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
        ("nullable", "uniqueItems", "exclusiveMaximum", "exclusiveMinimum", PRESERVE_UNKNOWN_FIELDS,
        EMBEDDED_RESOURCE, INT_OR_STRING),
        ("must be a boolean", (bool,)),
    ),
    **dict.fromkeys(("enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
                    ("must be a list", (list,))),
}  # fmt: skip
_ITEM_TYPES: dict[str, tuple[str, type]] = {
    "required": ("must be a string", str),
    "x-kubernetes-list-map-keys": ("must be a string", str),
    "x-kubernetes-validations": ("must be an object", dict),
}


@dataclass(frozen=True, slots=True)
class _SchemaContext:
    """Where in the object the current schema node is."""

    in_metadata: bool = False
    defaults_forbidden_reason: str = ""
    """The reason why defaults are forbidden here. Empty: they are allowed."""


def validate_schema(schema: JsonSchema, path: str, *, has_status: bool, unchanged: bool = False) -> list[Cause]:
    """Validates a version's schema. `has_status`: the status subresource is enabled. `unchanged`: the stored CRD has
    the same schema.
    """
    if schema_depth(schema) > MAX_DEPTH:
        return [invalid_value(path, "", f"must not be nested deeper than {MAX_DEPTH} levels")]
    type_causes = list(_validate_types(schema, path))
    if type_causes:
        return type_causes
    causes = list(_validate_root(schema, path)) if has_status else []
    if schema.get("nullable"):
        causes.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    if not _has_unsupported(schema):
        causes += validate_structural(schema, path) or _validate_defaults(schema, path, root=True)
    causes += _validate_keywords(schema, path, _SchemaContext(), root=True)
    return list(dict.fromkeys(causes)) or _validate_cel_rules(schema, path, unchanged)


def _validate_cel_rules(schema: JsonSchema, path: str, unchanged: bool) -> list[Cause]:
    if b'"x-kubernetes-validations"' not in orjson.dumps(schema):
        return []
    # CEL is imported lazily: a server whose CRDs have no rules starts without it.
    from shoal.kinds.apiextensions.rules import validate_rules  # noqa: PLC0415

    return validate_rules(schema, path, unchanged=unchanged)


def _validate_types(schema: Any, path: str) -> Iterator[Cause]:
    """Checks that subschemas are dicts where schemas are expected. All later checks rely on it."""
    if not isinstance(schema, dict):
        yield invalid_value(path, schema, "must be a schema object")
        return
    yield from _validate_keyword_types(schema, path)
    for key in ("properties", "patternProperties", "definitions"):
        value = schema.get(key)
        if value is not None and not isinstance(value, dict):
            yield invalid_value(f"{path}.{key}", value, "must be an object of schemas")
            continue
        for name, sub in (value or {}).items():
            yield from _validate_types(sub, f"{path}.{key}[{name}]")
    for key in ("allOf", "anyOf", "oneOf"):
        value = schema.get(key)
        if value is not None and not isinstance(value, list):
            yield invalid_value(f"{path}.{key}", value, "must be a list of schemas")
            continue
        for index, sub in enumerate(value or ()):
            yield from _validate_types(sub, f"{path}.{key}[{index}]")
    for key, others in (("not", ()), ("items", (list,)), ("additionalProperties", (bool,))):
        value = schema.get(key)
        if value is not None and not isinstance(value, others):
            yield from _validate_types(value, f"{path}.{key}")


def _validate_keyword_types(schema: JsonSchema, path: str) -> Iterator[Cause]:
    for key in [key for key in schema if key in _KEYWORD_TYPES]:
        detail, kinds = _KEYWORD_TYPES[key]
        if schema[key] is not None and type(schema[key]) not in kinds:
            yield invalid_value(f"{path}.{key}", schema[key], detail)
        elif key in _ITEM_TYPES:
            detail, kind = _ITEM_TYPES[key]
            for index, member in enumerate(schema[key] or ()):
                if type(member) is not kind:
                    yield invalid_value(f"{path}.{key}[{index}]", member, detail)


def _has_unsupported(schema: JsonSchema) -> bool:
    if any(schema.get(key) for key in _UNSUPPORTED_KEYWORDS) or isinstance(schema.get("items"), list):
        return True
    return any(_has_unsupported(sub) for sub, _ in _subschemas(schema, ""))


def _subschemas(schema: JsonSchema, path: str) -> Iterator[tuple[JsonSchema, str]]:
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


def _validate_root(schema: JsonSchema, path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if kind and kind != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid_value(f"{path}.type", kind, detail)
    elif any(value for key, value in schema.items() if key not in _ALLOWED_AT_ROOT):
        allowed = " ".join(_ALLOWED_AT_ROOT.values())
        detail = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid_value(path, schema, detail)


def _validate_keywords(schema: JsonSchema, path: str, context: _SchemaContext, root: bool = False) -> Iterator[Cause]:
    yield from _validate_plain_keywords(schema, path, context)
    additional = schema.get("additionalProperties")
    if additional is not None and properties_of(schema) and additional is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", detail)
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        child_context = replace(context, defaults_forbidden_reason=reason) if context.in_metadata else context
        yield from _validate_keywords(additional, f"{path}.additionalProperties", child_context)
    for key, sub in properties_of(schema).items():
        child_context = context
        if (root or schema.get(EMBEDDED_RESOURCE)) and key in _METADATA_FIELDS:
            child_context = _SchemaContext(True, f"in top-level {key}" if root else context.defaults_forbidden_reason)
        yield from _validate_keywords(sub, f"{path}.properties[{key}]", child_context)
    for key in ("not", "items"):
        if isinstance(schema.get(key), dict):
            yield from _validate_keywords(schema[key], f"{path}.{key}", context)
    for key in ("allOf", "oneOf", "anyOf"):
        for index, sub in enumerate(schema.get(key) or ()):
            yield from _validate_keywords(sub, f"{path}.{key}[{index}]", context)
    yield from _validate_map_type(schema, path)
    yield from _validate_list_type(schema, path)
    yield from _validate_rule_fields(schema, path)


def _validate_plain_keywords(schema: JsonSchema, path: str, context: _SchemaContext) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("default") is not None and context.defaults_forbidden_reason:
        yield forbidden_field(f"{path}.default", f"must not be set {context.defaults_forbidden_reason}")
    for key in _UNSUPPORTED_KEYWORDS:
        if schema.get(key) not in (None, "", {}):
            yield forbidden_field(f"{path}.{key}", f"{key} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if context.in_metadata and schema.get(EMBEDDED_RESOURCE):
        yield forbidden_field(f"{path}.{EMBEDDED_RESOURCE}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", detail)
    if schema.get(PRESERVE_UNKNOWN_FIELDS) is False:
        yield invalid_value(f"{path}.{PRESERVE_UNKNOWN_FIELDS}", False, "must be true or undefined")


def _validate_type_is(kind: str, expected: str, keyword: str, path: str) -> Iterator[Cause]:
    if kind != expected:
        detail = f"must be {expected} if {keyword} is specified"
        yield invalid_value(f"{path}.type", kind, detail) if kind else required_value(f"{path}.type", detail)


def _validate_map_type(schema: JsonSchema, path: str) -> Iterator[Cause]:
    keyword = "x-kubernetes-map-type"
    if schema.get(keyword) is not None:
        yield from _validate_type_is(schema.get("type") or "", "object", keyword, path)
        if schema[keyword] not in ("atomic", "granular"):
            yield not_supported(f"{path}.{keyword}", schema[keyword], ("atomic", "granular"))


def _validate_list_type(schema: JsonSchema, path: str) -> Iterator[Cause]:
    keyword, keys = "x-kubernetes-list-type", schema.get("x-kubernetes-list-map-keys") or ()
    list_type, items = schema.get(keyword), schema.get("items")
    item = items if isinstance(items, dict) else {}
    if list_type is not None:
        yield from _validate_type_is(schema.get("type") or "", "array", keyword, path)
        if schema.get("type") == "array" and list_type == "set":
            yield from _validate_atomic_item(item, f"{path}.items")
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(f"{path}.{keyword}", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        field_path = f"{path}.{keyword}"
        yield required_value(field_path, detail) if list_type is None else invalid_value(field_path, list_type, detail)
    if list_type == "map":
        yield from _validate_map_keys(schema, item, path)
    if list_type in ("set", "map") and item.get("nullable"):
        yield forbidden_field(f"{path}.items.nullable", f"cannot be nullable when {keyword} is {list_type}")
    if list_type == "map":
        yield from _validate_key_properties(keys, item, path)


def _validate_atomic_item(item: JsonSchema, path: str) -> Iterator[Cause]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = item.get("x-kubernetes-list-type")
    if item.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid_value(f"{path}.x-kubernetes-list-type", list_type, detail)
    if item.get("type") == "object" and item.get("x-kubernetes-map-type") != "atomic":
        yield invalid_value(f"{path}.x-kubernetes-map-type", list_type, detail)


def _validate_map_keys(schema: JsonSchema, item: JsonSchema, path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or []
    field_path = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required_value(field_path, "must not be empty if x-kubernetes-list-type is map")
    if schema.get("items") is None:
        yield required_value(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif item.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", item.get("type") or "", detail)
    else:
        # Upstream repeats the errors about all keys for each wrong one.
        if any(key not in properties_of(item) for key in keys):
            yield invalid_value(field_path, keys, "entries must all be names of item properties")
        for key in keys:
            if properties_of(item).get(key, {}).get("type") in ("array", "object"):
                detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield invalid_value(f"{path}.items.properties[{key}].type", item["type"], detail)
        if len(set(keys)) < len(keys):
            yield invalid_value(field_path, keys, "must not contain duplicate entries")


def _validate_key_properties(keys: Any, item: JsonSchema, path: str) -> Iterator[Cause]:
    required = set(item.get("required") or ())
    for key in keys:
        field = properties_of(item).get(key)
        if field is None:
            continue
        item_path = f"{path}.items.properties[{key}]"
        if key not in required and field.get("default") is None:
            detail = "so it must have a default or be a required property"
            yield required_value(f"{item_path}.default", f"this property is in x-kubernetes-list-map-keys, {detail}")
        if field.get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden_field(f"{item_path}.nullable", detail)


def _validate_rule_fields(schema: JsonSchema, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        item_path = f"{path}.x-kubernetes-validations[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required_value(f"{item_path}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid_value(f"{item_path}.message", message, "must be non-empty if specified")
        elif _has_line_breaks(message.strip()):
            yield invalid_value(f"{item_path}.message", message, "must not contain line breaks")
        elif _has_line_breaks(text) and not message.strip():
            yield required_value(f"{item_path}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression")
        if expression and not expression.strip():
            yield required_value(f"{item_path}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in _RULE_REASONS:
            yield not_supported(f"{item_path}.reason", rule["reason"], _RULE_REASONS)
        field = rule.get("fieldPath") or ""
        if field and not field.strip():
            yield invalid_value(f"{item_path}.fieldPath", field, "must be non-empty if specified")
        elif _has_line_breaks(field):
            yield invalid_value(f"{item_path}.fieldPath", field, "must not contain line breaks")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _validate_defaults(schema: JsonSchema, path: str, root: bool = False) -> list[Cause]:
    """Checks that defaults are valid and have no unknown fields. Maps are not followed, as upstream."""
    causes: list[Cause] = []
    if schema.get("default") is not None:
        causes += validate_default(schema | {EMBEDDED_RESOURCE: True} if root else schema, f"{path}.default")
    if isinstance(schema.get("items"), dict):
        causes += _validate_defaults(schema["items"], f"{path}.items")
    for key, sub in properties_of(schema).items():
        causes += _validate_defaults(sub, f"{path}.properties[{key}]")
    return causes
