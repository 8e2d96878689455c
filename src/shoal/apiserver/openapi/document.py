"""Builds the OpenAPI v3 document of one group and version: its paths, and every schema they refer to."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.openapi.operations import META, list_name, make_paths, object_name
from shoal.apiserver.registry import Resource
from shoal.kinds.definitions import definition, references
from shoal.kinds.versions import KUBERNETES

Object = dict[str, Any]

_GVK = "x-kubernetes-group-version-kind"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_EVERY_GROUP = {META + "DeleteOptions": "DeleteOptions", META + "WatchEvent": "WatchEvent"}
"""Kinds that every group and version publishes under its own group, version and kind."""


def make_document(group: str, version: str, resources: list[Resource]) -> Object:
    paths = make_paths(group, version, resources)
    wanted = set(references(paths))
    if any("watch" in resource.verbs for resource in resources):
        wanted.add(META + "WatchEvent")
    bearer = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES},
        "paths": paths,
        "components": {
            "schemas": _schemas(group, version, resources, wanted),
            "securitySchemes": {"BearerToken": bearer},
        },
    }


def _schemas(group: str, version: str, resources: list[Resource], wanted: set[str]) -> dict[str, Object]:
    """Returns the referenced schemas and all schemas they refer to, sorted by name."""
    found: dict[str, Object] = {}
    waiting = list(wanted)
    for resource in resources:
        schema = _marked(resource.schema() or {"type": "object"}, group, version, resource.kind)
        found[object_name(resource)] = schema
        if resource.custom:
            found[list_name(resource)] = _list_schema(resource)
            # Not searched for references: a default or an example in a custom schema may look like one.
            waiting += [META + "ObjectMeta", META + "ListMeta"]
        else:
            waiting.extend(references(schema))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definition(name)
            waiting.extend(references(found[name]))
    for name, kind in _EVERY_GROUP.items():
        if name in found:
            found[name] = _marked(found[name], group, version, kind)
    return dict(sorted(found.items()))


def _marked(schema: Object, group: str, version: str, kind: str) -> Object:
    """Returns the schema with its group, version and kind, by which clients find it."""
    if _GVK in schema:
        return schema
    return {**schema, _GVK: [{"group": group, "kind": kind, "version": version}]}


def _list_schema(resource: Resource) -> Object:
    kind = resource.list_kind or resource.kind + "List"
    typed = definition(META + "Status")["properties"]
    items = {
        "description": f"List of {resource.plural}. More info: {_CONVENTIONS}",
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{object_name(resource)}"},
    }
    metadata = {
        "description": f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds",
        "allOf": [{"$ref": f"#/components/schemas/{META}ListMeta"}],
    }
    schema: Object = {
        "description": f"{kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": typed["apiVersion"],
            "items": items,
            "kind": typed["kind"],
            "metadata": metadata,
        },
    }
    if resource.selectable:
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in resource.selectable]
    return _marked(schema, resource.group, resource.version, kind)
