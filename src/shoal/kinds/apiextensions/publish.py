"""The schema of a CRD as OpenAPI v3 publishes it."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apiextensions.customresourcedefinition import Object, schema_of, selectable_fields
from shoal.objects.schema import deep_copy

_DOCS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_REF = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1."
_API_VERSION = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of an object. Servers should"
    " convert recognized schemas to the latest internal value, and may reject unrecognized values."
    f" More info: {_DOCS}#resources",
}
_KIND = {
    "type": "string",
    "description": "Kind is a string value representing the REST resource this object represents. Servers may infer"
    " this from the endpoint the client submits requests to. Cannot be updated. In CamelCase."
    f" More info: {_DOCS}#types-kinds",
}
_METADATA = {
    "description": f"Standard object's metadata. More info: {_DOCS}#metadata",
    "allOf": [{"$ref": _REF + "ObjectMeta"}],
}
_LIST_METADATA = {
    "description": "Standard list metadata. More info:"
    " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    "allOf": [{"$ref": _REF + "ListMeta"}],
}
_EMBEDDED_API_VERSION = {
    "type": "string",
    "description": "apiVersion defines the versioned schema of this representation of an object."
    f" More info: {_DOCS}#resources",
}
_EMBEDDED_KIND = {
    "type": "string",
    "description": "kind is a string value representing the type of this object. In CamelCase."
    f" More info: {_DOCS}#types-kinds",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def published_schema(crd: Object, version: str) -> Object:
    """Returns the schema of a served version as `/openapi/v3` publishes it."""
    schema = schema_of(crd, version)
    out: Object = {"type": "object"}
    if schema is not None:
        out = _expand_int_or_string(deep_copy(schema))
        _expand_embedded_resources(out)
        properties = out.setdefault("properties", {})
        properties.update(apiVersion=dict(_API_VERSION), kind=dict(_KIND), metadata=deep_copy(_METADATA))
    return _add_extensions(out, crd, version, crd["spec"]["names"]["kind"])


def published_list_schema(crd: Object, version: str) -> Object:
    spec = crd["spec"]
    names = spec["names"]
    item = {"$ref": f"#/components/schemas/{definition_name(spec['group'], version, names['kind'])}"}
    out: Object = {
        "type": "object",
        "description": f"{names['listKind']} is a list of {names['kind']}",
        "required": ["items"],
        "properties": {
            "apiVersion": dict(_API_VERSION),
            "items": {"type": "array", "description": f"List of {names['plural']}. More info: {_DOCS}", "items": item},
            "kind": dict(_KIND),
            "metadata": deep_copy(_LIST_METADATA),
        },
    }
    return _add_extensions(out, crd, version, names["listKind"])


def definition_name(group: str, version: str, kind: str) -> str:
    """`com.example.v1.Widget`."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _add_extensions(schema: Object, crd: Object, version: str, kind: str) -> Object:
    gvk = {"group": crd["spec"]["group"], "version": version, "kind": kind}
    schema["x-kubernetes-group-version-kind"] = [gvk]
    fields = selectable_fields(crd, version)
    if fields:
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": field} for field in fields]
    return schema


def _subschemas(schema: Object) -> list[Any]:
    inner = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
    return [sub for sub in inner if isinstance(sub, dict)]


def _expand_int_or_string(schema: Object) -> Object:
    """Expands x-kubernetes-int-or-string for clients that do not know it."""
    if schema.get("x-kubernetes-int-or-string") and schema.get("anyOf") != _INT_OR_STRING:
        first = (schema.get("allOf") or [{}])[0]
        if not schema.get("anyOf"):
            if first.get("anyOf") != _INT_OR_STRING:
                schema["anyOf"] = deep_copy(_INT_OR_STRING)
        elif first.get("anyOf") != _INT_OR_STRING:
            schema["allOf"] = [{"anyOf": deep_copy(_INT_OR_STRING)}, *(schema.get("allOf") or ())]
    for sub in _subschemas(schema):
        _expand_int_or_string(sub)
    return schema


def _expand_embedded_resources(schema: Object) -> None:
    """Adds apiVersion, kind and metadata to embedded resources."""
    for sub in _subschemas(schema):
        _expand_embedded_resources(sub)
    if schema.get("x-kubernetes-embedded-resource"):
        properties = schema.setdefault("properties", {})
        properties.update(
            apiVersion=dict(_EMBEDDED_API_VERSION), kind=dict(_EMBEDDED_KIND), metadata=deep_copy(_METADATA)
        )
        required = schema.setdefault("required", [])
        required += [key for key in ("kind", "apiVersion") if key not in required]
