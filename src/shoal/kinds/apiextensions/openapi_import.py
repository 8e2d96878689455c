"""Converts a published OpenAPI schema of a kind to one structural schema without references, as a CRD has it. Pure.

Reads OpenAPI v3 and v2. Descriptions are dropped: they are most of the bytes and do not affect validation. A recursive
reference becomes an object that preserves unknown fields: a CRD cannot express recursion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from shoal.objects.errors import ShoalError

Object = dict[str, Any]
Schemas = Mapping[str, Object]

_REF_PREFIXES = ("#/components/schemas/", "#/definitions/")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
PRESERVED_OBJECT: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ANY_VALUE: Object = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_WELL_KNOWN_SCHEMAS: dict[str, Object] = {
    _META + "Time": {"type": "string", "format": "date-time"},
    _META + "MicroTime": {"type": "string", "format": "date-time"},
    _META + "Duration": {"type": "string"},
    _META + "ObjectMeta": PRESERVED_OBJECT,
    _META + "FieldsV1": PRESERVED_OBJECT,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": PRESERVED_OBJECT,
    _EXTENSIONS + "JSON": ANY_VALUE,
    _EXTENSIONS + "JSONSchemaPropsOrBool": ANY_VALUE,
    _EXTENSIONS + "JSONSchemaPropsOrArray": ANY_VALUE,
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": ANY_VALUE,
}
_DROPPED_KEYWORDS = {
    "description",
    "example",
    "externalDocs",
    "title",
    "x-kubernetes-group-version-kind",
    "x-kubernetes-unions",
}
MAX_SCHEMA_NODES = 100_000
"""The limit for one schema without references. The largest kind of Kubernetes has a few thousand nodes."""
_PATCH_STRATEGY, _MERGE_KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"
_LIST_TYPE, _MAP_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"


class SchemaError(ShoalError):
    """The server does not describe the kind, or its schema cannot be converted."""


def schemas_of(document: Object) -> Schemas:
    """Returns the named schemas of an OpenAPI document, v3 or v2."""
    schemas = (document.get("components") or {}).get("schemas") or document.get("definitions")
    return schemas if isinstance(schemas, dict) else {}


def schema_of(schemas: Schemas, group: str, version: str, kind: str) -> Object:
    """Returns the structural schema of a kind from the schemas of its server."""
    gvk = {"group": group, "version": version, "kind": kind}
    for name, schema in schemas.items():
        if gvk in (schema.get("x-kubernetes-group-version-kind") or ()):
            structural: Object = _SchemaConverter(schemas).convert_root(schema, (name,))
            properties = structural.get("properties")
            if isinstance(properties, dict) and "metadata" in properties:
                properties["metadata"] = {"type": "object"}
            return structural
    raise SchemaError(f"its OpenAPI document of {group or 'core'}/{version} has no {kind}")


def strip_descriptions(schema: Any) -> Any:
    """Returns the schema of a CRD without its descriptions."""
    return _SchemaConverter(None).convert_root(schema, ())


def schema_digest(schema: Object) -> str:
    """Returns a digest that is equal for equal schemas."""
    return hashlib.sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


class _SchemaConverter:
    def __init__(self, schemas: Schemas | None) -> None:
        """Without `schemas` the input is a CRD's schema: structural, without references, and not reinterpreted."""
        self._schemas = schemas
        self._nodes_left = MAX_SCHEMA_NODES

    def convert_root(self, schema: Any, ancestors: tuple[str, ...]) -> Any:
        """Converts a schema of an untrusted cluster. References that multiply and nesting beyond the stack are
        refused.
        """
        try:
            return self.convert(schema, ancestors)
        except RecursionError:
            raise SchemaError("its schema is nested too deeply") from None
        except (TypeError, AttributeError, KeyError, ValueError):
            raise SchemaError("its schema cannot be read") from None

    def convert(self, schema: Any, ancestors: tuple[str, ...]) -> Any:
        """Converts one node. `ancestors` are the names of the definitions above it."""
        if not isinstance(schema, dict):
            return schema
        self._nodes_left -= 1
        if self._nodes_left < 0:
            raise SchemaError(f"its schema has more than {MAX_SCHEMA_NODES:,} nodes")
        if "$ref" in schema:
            return self._resolve_ref(schema["$ref"], ancestors)
        converted: Object = {}
        for key, value in schema.items():
            if key in _DROPPED_KEYWORDS or key in (_PATCH_STRATEGY, _MERGE_KEY):
                continue
            if key == "properties":
                converted[key] = {name: self.convert(subschema, ancestors) for name, subschema in value.items()}
            elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
                # OpenAPI v3 form of a reference with its own default or description.
                converted.update(self._resolve_ref(value[0]["$ref"], ancestors))
            elif key in ("items", "additionalProperties", "not"):
                converted[key] = self.convert(value, ancestors)
            elif key in ("allOf", "anyOf", "oneOf"):
                converted[key] = [self.convert(subschema, ancestors) for subschema in value]
            else:
                converted[key] = value
        return converted if self._schemas is None else _apply_published_meaning(schema, converted)

    def _resolve_ref(self, ref: str, ancestors: tuple[str, ...]) -> Object:
        name = ref
        for prefix in _REF_PREFIXES:
            name = name.removeprefix(prefix)
        if name in _WELL_KNOWN_SCHEMAS:
            return {**_WELL_KNOWN_SCHEMAS[name]}
        target = (self._schemas or {}).get(name)
        if target is None:
            raise SchemaError(f"its OpenAPI document lacks the referenced schema {name}")
        if name in ancestors:
            return {**(PRESERVED_OBJECT if target.get("type", "object") == "object" else ANY_VALUE)}
        resolved: Object = self.convert(target, (*ancestors, name))
        return resolved


def _apply_published_meaning(schema: Object, converted: Object) -> Object:
    """Makes implicit meanings of published schemas explicit: free-form objects, and list types given only as patch
    strategies.
    """
    if converted.get("default") == {}:
        # Go's zero value of a struct, not an upstream default.
        del converted["default"]
    if not converted:
        return {**ANY_VALUE}
    if converted.get("format") == "int-or-string":
        return {**_INT_OR_STRING}
    if converted == {"type": "object"}:
        return {**PRESERVED_OBJECT}
    if converted.get("type") == "array":
        _set_list_type(schema, converted)
    return converted


def _set_list_type(schema: Object, converted: Object) -> None:
    if _LIST_TYPE not in converted and "merge" in schema.get(_PATCH_STRATEGY, ""):
        converted[_LIST_TYPE] = "map" if _MERGE_KEY in schema else "set"
        if _MERGE_KEY in schema:
            converted[_MAP_KEYS] = [schema[_MERGE_KEY]]
    items = converted.get("items")
    if converted.get(_LIST_TYPE) != "map" or not isinstance(items, dict):
        return
    properties, required = items.get("properties") or {}, list(items.get("required") or ())
    required += [
        key
        for key in converted.get(_MAP_KEYS) or ()
        if key not in required and "default" not in (properties.get(key) or {})
    ]
    converted["items"] = {**items, "required": required} if required else items
