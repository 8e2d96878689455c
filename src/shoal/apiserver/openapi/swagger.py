"""Builds the OpenAPI v2 document of everything a registry serves from the v3 documents of its groups.

kubectl before 1.29 validates by it, and newer versions use it for kinds that v3 does not have. Constructs v2 cannot
express (alternatives, nullable) are dropped as upstream does, so that clients accept such values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

_GVK = "x-kubernetes-group-version-kind"
_SELECTABLE = "x-kubernetes-selectable-fields"
_NEW = "#/components/schemas/"
_UNKNOWN = {"oneOf", "anyOf", "not", "allOf", "nullable", "default"}
_STRINGS = {"io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}
"""Alternatives of string and number, which v2 declares as strings."""


def make_swagger(documents: Iterable[Object]) -> Object:
    paths: Object = {}
    definitions: Object = {}
    info: Object = {}
    for document in documents:
        info = document["info"]
        for path, item in document["paths"].items():
            paths[path] = _path_item(item)
        for name, schema in document["components"]["schemas"].items():
            known = definitions.get(name)
            if known is None:
                definitions[name] = _definition(name, schema)
            elif known.get(_GVK) != schema.get(_GVK):
                known[_GVK] = known.get(_GVK, []) + [gvk for gvk in schema[_GVK] if gvk not in known[_GVK]]
    bearer = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}
    return {
        "swagger": "2.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {"BearerToken": bearer},
        "security": [{"BearerToken": []}],
    }


def _definition(name: str, schema: Object) -> Object:
    if _GVK in schema and schema.get("x-kubernetes-preserve-unknown-fields") is True:
        # kubectl would reject undeclared fields if any field were declared.
        return {"type": "object"} | {key: schema[key] for key in (_GVK, _SELECTABLE) if key in schema}
    made = _schema(schema)
    return {**made, "type": "string"} if name in _STRINGS else made


def _schema(schema: Object) -> Object:
    reference = _reference(schema)
    if reference:
        made: Object = {"$ref": "#/definitions/" + reference.removeprefix(_NEW)}
        if "description" in schema:
            made["description"] = schema["description"]
        return made
    made = {key: value for key, value in schema.items() if key not in _UNKNOWN}
    if schema.get("default") not in (None, {}):
        made["default"] = schema["default"]
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if schema.get("nullable") or open_ended:
        # kubectl accepts a value without a type as it is, but reports a type without its parts as an error.
        for key in ("properties", "items", *(("type",) if schema.get("nullable") or _is_object(schema) else ())):
            made.pop(key, None)
    if "properties" in made:
        made["properties"] = {name: _schema(sub) for name, sub in made["properties"].items()}
        nullable = {name for name, sub in schema["properties"].items() if sub.get("nullable")}
        if nullable & set(made.get("required", ())):
            made["required"] = [name for name in made["required"] if name not in nullable]
    if isinstance(made.get("items"), dict):
        made["items"] = _schema(made["items"])
    elif made.get("type") == "array":
        del made["type"]
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _schema(made["additionalProperties"])
    return made


def _is_object(schema: Object) -> bool:
    return schema.get("type") == "object"


def _reference(schema: Object) -> str:
    found: str = schema.get("$ref", "")
    every = schema.get("allOf", ())
    if not found and len(every) == 1:
        found = every[0].get("$ref", "")
    return found


def _path_item(item: Object) -> Object:
    made: Object = {key: _operation(value) for key, value in item.items() if key != "parameters"}
    if "parameters" in item:
        made["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return made


def _operation(operation: Object) -> Object:
    made = {key: value for key, value in operation.items() if key != "requestBody"}
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        made["consumes"] = list(body["content"])
        schema = _schema(next(iter(body["content"].values()))["schema"])
        wanted = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **wanted, "schema": schema})
    if parameters:
        made["parameters"] = parameters
    produced: dict[str, None] = {}
    responses: Object = {}
    for code, response in operation["responses"].items():
        content = response.get("content", {})
        produced.update(dict.fromkeys(content))
        answer = {"schema": _schema(next(iter(content.values()))["schema"])} if content else {}
        responses[code] = {"description": response["description"], **answer}
    made["produces"] = list(produced)
    made["responses"] = responses
    return made


def _parameter(parameter: Object) -> Object:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}
