"""Builds the OpenAPI v2 document of everything a registry serves from the v3 documents of its groups.

kubectl before 1.29 validates by it, and newer versions use it for kinds that v3 does not have. Constructs v2 cannot
express (alternatives, nullable) are dropped as upstream does, so that clients accept such values.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

Object = dict[str, Any]

_GVK = "x-kubernetes-group-version-kind"
_SELECTABLE = "x-kubernetes-selectable-fields"
_V3_REF_PREFIX = "#/components/schemas/"
_UNSUPPORTED_KEYS = {"oneOf", "anyOf", "not", "allOf", "nullable", "default"}
_STRING_DEFINITIONS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}
"""Alternatives of string and number, which v2 declares as strings."""


def build_v2_document(documents: Iterable[Object]) -> Generator[None, None, Object]:
    """Converts one path or definition in each step."""
    paths: Object = {}
    definitions: Object = {}
    info: Object = {}
    for document in documents:
        info = document["info"]
        for path, item in document["paths"].items():
            paths[path] = _convert_path_item(item)
            yield
        for name, schema in document["components"]["schemas"].items():
            existing = definitions.get(name)
            if existing is None:
                definitions[name] = _convert_definition(name, schema)
                yield
            elif existing.get(_GVK) != schema.get(_GVK):
                existing[_GVK] = existing.get(_GVK, []) + [gvk for gvk in schema[_GVK] if gvk not in existing[_GVK]]
    bearer = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}
    return {
        "swagger": "2.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {"BearerToken": bearer},
        "security": [{"BearerToken": []}],
    }


def _convert_definition(name: str, schema: Object) -> Object:
    if _GVK in schema and schema.get("x-kubernetes-preserve-unknown-fields") is True:
        # kubectl would reject undeclared fields if any field were declared.
        return {"type": "object"} | {key: schema[key] for key in (_GVK, _SELECTABLE) if key in schema}
    converted = _convert_schema(schema)
    return {**converted, "type": "string"} if name in _STRING_DEFINITIONS else converted


def _convert_schema(schema: Object) -> Object:
    reference = _reference_of(schema)
    if reference:
        converted: Object = {"$ref": "#/definitions/" + reference.removeprefix(_V3_REF_PREFIX)}
        if "description" in schema:
            converted["description"] = schema["description"]
        return converted
    converted = {key: value for key, value in schema.items() if key not in _UNSUPPORTED_KEYS}
    if schema.get("default") not in (None, {}):
        converted["default"] = schema["default"]
    preserves_unknown = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if schema.get("nullable") or preserves_unknown:
        # kubectl accepts a value without a type as it is, but reports a type without its parts as an error.
        for key in ("properties", "items", *(("type",) if schema.get("nullable") or _is_object(schema) else ())):
            converted.pop(key, None)
    if "properties" in converted:
        converted["properties"] = {name: _convert_schema(sub) for name, sub in converted["properties"].items()}
        nullable = {name for name, sub in schema["properties"].items() if sub.get("nullable")}
        if nullable & set(converted.get("required", ())):
            converted["required"] = [name for name in converted["required"] if name not in nullable]
    if isinstance(converted.get("items"), dict):
        converted["items"] = _convert_schema(converted["items"])
    elif converted.get("type") == "array":
        del converted["type"]
    if isinstance(converted.get("additionalProperties"), dict):
        converted["additionalProperties"] = _convert_schema(converted["additionalProperties"])
    return converted


def _is_object(schema: Object) -> bool:
    return schema.get("type") == "object"


def _reference_of(schema: Object) -> str:
    reference: str = schema.get("$ref", "")
    all_of = schema.get("allOf", ())
    if not reference and len(all_of) == 1:
        reference = all_of[0].get("$ref", "")
    return reference


def _convert_path_item(item: Object) -> Object:
    converted: Object = {key: _convert_operation(value) for key, value in item.items() if key != "parameters"}
    if "parameters" in item:
        converted["parameters"] = [_convert_parameter(parameter) for parameter in item["parameters"]]
    return converted


def _convert_operation(operation: Object) -> Object:
    converted = {key: value for key, value in operation.items() if key != "requestBody"}
    parameters = [_convert_parameter(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        converted["consumes"] = list(body["content"])
        schema = _convert_schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **required, "schema": schema})
    if parameters:
        converted["parameters"] = parameters
    media_types: dict[str, None] = {}
    responses: Object = {}
    for code, response in operation["responses"].items():
        content = response.get("content", {})
        media_types.update(dict.fromkeys(content))
        response_schema = {"schema": _convert_schema(next(iter(content.values()))["schema"])} if content else {}
        responses[code] = {"description": response["description"], **response_schema}
    converted["produces"] = list(media_types)
    converted["responses"] = responses
    return converted


def _convert_parameter(parameter: Object) -> Object:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}
