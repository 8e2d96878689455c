"""From the OpenAPI v3 document of a cluster to one schema without references, as a CRD has it. Pure.

Descriptions go: they are most of the bytes and say nothing about what is accepted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from shoal.objects.errors import ShoalError

Object = dict[str, Any]

_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_PRESERVE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_KNOWN: dict[str, Object] = {
    _META + "Time": {"type": "string", "format": "date-time"},
    _META + "MicroTime": {"type": "string", "format": "date-time"},
    _META + "Duration": {"type": "string"},
    _META + "ObjectMeta": _PRESERVE,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _PRESERVE,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": {"x-kubernetes-preserve-unknown-fields": True},
}
_DROPPED = {"description", "example", "externalDocs", "title", "x-kubernetes-group-version-kind", "x-kubernetes-unions"}
_STRATEGY, _MERGE_KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"


class SchemaError(ShoalError):
    """A schema that cannot be told without references."""


def schema_of(document: Object, group: str, version: str, kind: str) -> Object:
    """Of the kind, from the document of its group and version."""
    schemas: Mapping[str, Object] = (document.get("components") or {}).get("schemas") or {}
    wanted = {"group": group, "version": version, "kind": kind}
    for name, schema in schemas.items():
        if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
            found: Object = _converted(schema, schemas, (name,))
            properties = found.get("properties")
            if isinstance(properties, dict) and "metadata" in properties:
                properties["metadata"] = {"type": "object"}
            return found
    raise SchemaError(f"the OpenAPI document of {group or 'core'}/{version} has no {kind}")


def plain(schema: Any) -> Any:
    """A structural schema without its descriptions."""
    return _converted(schema, {}, ())


def digest_of(schema: Object) -> str:
    return hashlib.sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _converted(schema: Any, schemas: Mapping[str, Object], inside: tuple[str, ...]) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _referred(schema["$ref"].removeprefix(_REF), schemas, inside)
    made: Object = {}
    for key, value in schema.items():
        if key in _DROPPED or key in (_STRATEGY, _MERGE_KEY):
            continue
        if key == "properties":
            made[key] = {name: _converted(found, schemas, inside) for name, found in value.items()}
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            # How OpenAPI v3 says a reference that has a default or a description of its own.
            made.update(_converted(value[0], schemas, inside))
        elif key in ("items", "additionalProperties", "not"):
            made[key] = _converted(value, schemas, inside)
        elif key in ("allOf", "anyOf", "oneOf"):
            made[key] = [_converted(found, schemas, inside) for found in value]
        else:
            made[key] = value
    _as_list_type(schema, made)
    return made


def _referred(name: str, schemas: Mapping[str, Object], inside: tuple[str, ...]) -> Object:
    if name in _KNOWN:
        return {**_KNOWN[name]}
    if name in inside:
        raise SchemaError(f"{name} refers to itself")
    if name not in schemas:
        raise SchemaError(f"the OpenAPI document refers to {name} and has it not")
    found: Object = _converted(schemas[name], schemas, (*inside, name))
    return found


def _as_list_type(schema: Object, made: Object) -> None:
    """What older servers say by patch strategies only."""
    if made.get("type") != "array" or "x-kubernetes-list-type" in made or "merge" not in schema.get(_STRATEGY, ""):
        return
    if _MERGE_KEY in schema:
        made["x-kubernetes-list-type"] = "map"
        made["x-kubernetes-list-map-keys"] = [schema[_MERGE_KEY]]
    else:
        made["x-kubernetes-list-type"] = "set"
