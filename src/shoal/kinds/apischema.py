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

_REFS = ("#/components/schemas/", "#/definitions/")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
PRESERVE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_KNOWN: dict[str, Object] = {
    _META + "Time": {"type": "string", "format": "date-time"},
    _META + "MicroTime": {"type": "string", "format": "date-time"},
    _META + "Duration": {"type": "string"},
    _META + "ObjectMeta": PRESERVE,
    _META + "FieldsV1": PRESERVE,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": PRESERVE,
    _EXTENSIONS + "JSON": ANYTHING,
    _EXTENSIONS + "JSONSchemaPropsOrBool": ANYTHING,
    _EXTENSIONS + "JSONSchemaPropsOrArray": ANYTHING,
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": ANYTHING,
}
_DROPPED = {"description", "example", "externalDocs", "title", "x-kubernetes-group-version-kind", "x-kubernetes-unions"}
MOST_PLACES = 100_000
"""The limit for one schema without references. The largest kind of Kubernetes has a few thousand nodes."""
_STRATEGY, _MERGE_KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"
_LIST_TYPE, _MAP_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"


class SchemaError(ShoalError):
    """The server does not describe the kind, or its schema cannot be converted."""


def schemas_of(document: Object) -> Schemas:
    """Returns the named schemas of an OpenAPI document, v3 or v2."""
    found = (document.get("components") or {}).get("schemas") or document.get("definitions")
    return found if isinstance(found, dict) else {}


def schema_of(schemas: Schemas, group: str, version: str, kind: str) -> Object:
    """Returns the structural schema of a kind from the schemas of its server."""
    wanted = {"group": group, "version": version, "kind": kind}
    for name, schema in schemas.items():
        if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
            found: Object = _Conversion(schemas).whole(schema, (name,))
            properties = found.get("properties")
            if isinstance(properties, dict) and "metadata" in properties:
                properties["metadata"] = {"type": "object"}
            return found
    raise SchemaError(f"its OpenAPI document of {group or 'core'}/{version} has no {kind}")


def plain(schema: Any) -> Any:
    """Returns the schema of a CRD without its descriptions."""
    return _Conversion(None).whole(schema, ())


def digest_of(schema: Object) -> str:
    """Returns a digest that is equal for equal schemas."""
    return hashlib.sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


class _Conversion:
    def __init__(self, schemas: Schemas | None) -> None:
        """Without `schemas` the input is a CRD's schema: structural, without references, and not reinterpreted."""
        self._schemas = schemas
        self._left = MOST_PLACES

    def whole(self, schema: Any, inside: tuple[str, ...]) -> Any:
        """Converts a schema of an untrusted cluster. References that multiply and nesting beyond the stack are
        refused.
        """
        try:
            return self.converted(schema, inside)
        except RecursionError:
            raise SchemaError("its schema is nested too deeply") from None
        except (TypeError, AttributeError, KeyError, ValueError):
            raise SchemaError("its schema cannot be read") from None

    def converted(self, schema: Any, inside: tuple[str, ...]) -> Any:
        """Converts one node. `ancestors` are the names of the definitions above it."""
        if not isinstance(schema, dict):
            return schema
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"its schema has more than {MOST_PLACES:,} places")
        if "$ref" in schema:
            return self._referred(schema["$ref"], inside)
        made: Object = {}
        for key, value in schema.items():
            if key in _DROPPED or key in (_STRATEGY, _MERGE_KEY):
                continue
            if key == "properties":
                made[key] = {name: self.converted(found, inside) for name, found in value.items()}
            elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
                # OpenAPI v3 form of a reference with its own default or description.
                made.update(self._referred(value[0]["$ref"], inside))
            elif key in ("items", "additionalProperties", "not"):
                made[key] = self.converted(value, inside)
            elif key in ("allOf", "anyOf", "oneOf"):
                made[key] = [self.converted(found, inside) for found in value]
            else:
                made[key] = value
        return made if self._schemas is None else _as_published(schema, made)

    def _referred(self, ref: str, inside: tuple[str, ...]) -> Object:
        name = ref
        for prefix in _REFS:
            name = name.removeprefix(prefix)
        if name in _KNOWN:
            return {**_KNOWN[name]}
        target = (self._schemas or {}).get(name)
        if target is None:
            raise SchemaError(f"its OpenAPI document refers to {name} and has it not")
        if name in inside:
            return {**(PRESERVE if target.get("type", "object") == "object" else ANYTHING)}
        found: Object = self.converted(target, (*inside, name))
        return found


def _as_published(schema: Object, made: Object) -> Object:
    """Makes implicit meanings of published schemas explicit: free-form objects, and list types given only as patch
    strategies.
    """
    if made.get("default") == {}:
        # Go's zero value of a struct, not an upstream default.
        del made["default"]
    if not made:
        return {**ANYTHING}
    if made.get("format") == "int-or-string":
        return {**_INT_OR_STRING}
    if made == {"type": "object"}:
        return {**PRESERVE}
    if made.get("type") == "array":
        _as_list_type(schema, made)
    return made


def _as_list_type(schema: Object, made: Object) -> None:
    if _LIST_TYPE not in made and "merge" in schema.get(_STRATEGY, ""):
        made[_LIST_TYPE] = "map" if _MERGE_KEY in schema else "set"
        if _MERGE_KEY in schema:
            made[_MAP_KEYS] = [schema[_MERGE_KEY]]
    items = made.get("items")
    if made.get(_LIST_TYPE) != "map" or not isinstance(items, dict):
        return
    properties, needed = items.get("properties") or {}, list(items.get("required") or ())
    needed += [
        key for key in made.get(_MAP_KEYS) or () if key not in needed and "default" not in (properties.get(key) or {})
    ]
    made["items"] = {**items, "required": needed} if needed else items
