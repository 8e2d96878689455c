"""Builds the OpenAPI v3 document of one group and version: its paths, and every schema they refer to."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from shoal.apiserver.endpoints.openapi.operations import META, build_paths, list_schema_name, object_schema_name
from shoal.apiserver.registry.registry import Resource
from shoal.kinds.builtin_schemas import builtin_schema, direct_references
from shoal.kinds.versions import KUBERNETES_VERSION

Object = dict[str, Any]

_GVK = "x-kubernetes-group-version-kind"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_KINDS_OF_EVERY_GROUP = {META + "DeleteOptions": "DeleteOptions", META + "WatchEvent": "WatchEvent"}
"""Kinds that every group and version publishes under its own group, version and kind."""


def build_v3_document(group: str, version: str, resources: list[Resource]) -> Generator[None, None, Object]:
    """Builds one resource in each step."""
    paths = build_paths(group, version, resources)
    yield
    referenced = set(direct_references(paths))
    if any("watch" in resource.verbs for resource in resources):
        referenced.add(META + "WatchEvent")
    bearer = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": paths,
        "components": {
            "schemas": (yield from _collect_schemas(group, version, resources, referenced)),
            "securitySchemes": {"BearerToken": bearer},
        },
    }


def _collect_schemas(
    group: str, version: str, resources: list[Resource], referenced: set[str]
) -> Generator[None, None, dict[str, Object]]:
    """Returns the referenced schemas and all schemas they refer to, sorted by name."""
    schemas: dict[str, Object] = {}
    pending = list(referenced)
    for resource in resources:
        schema = _with_gvk(resource.schema() or {"type": "object"}, group, version, resource.kind)
        schemas[object_schema_name(resource)] = schema
        if resource.custom:
            schemas[list_schema_name(resource)] = _list_schema(resource)
            # Not searched for references: a default or an example in a custom schema may look like one.
            pending += [META + "ObjectMeta", META + "ListMeta"]
        else:
            pending.extend(direct_references(schema))
        yield
    while pending:
        name = pending.pop()
        if name not in schemas:
            schemas[name] = builtin_schema(name)
            pending.extend(direct_references(schemas[name]))
    for name, kind in _KINDS_OF_EVERY_GROUP.items():
        if name in schemas:
            schemas[name] = _with_gvk(schemas[name], group, version, kind)
    return dict(sorted(schemas.items()))


def _with_gvk(schema: Object, group: str, version: str, kind: str) -> Object:
    """Returns the schema with its group, version and kind, by which clients find it."""
    if _GVK in schema:
        return schema
    return {**schema, _GVK: [{"group": group, "kind": kind, "version": version}]}


def _list_schema(resource: Resource) -> Object:
    kind = resource.list_kind or resource.kind + "List"
    status_properties = builtin_schema(META + "Status")["properties"]
    items = {
        "description": f"List of {resource.plural}. More info: {_CONVENTIONS}",
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{object_schema_name(resource)}"},
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
            "apiVersion": status_properties["apiVersion"],
            "items": items,
            "kind": status_properties["kind"],
            "metadata": metadata,
        },
    }
    if resource.selectable_fields:
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in resource.selectable_fields]
    return _with_gvk(schema, resource.group, resource.version, kind)
