"""The paths of a group and version and their operations, with upstream's operation ids.

Only what this server supports is published: no `/watch/` paths, and JSON as the only response type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.apiserver.endpoints.discovery import subresources_of
from shoal.apiserver.endpoints.openapi.parameters import (
    DELETE_PARAMETERS,
    LIST_PARAMETERS,
    NAMESPACE_PARAMETER,
    PATCH_PARAMETERS,
    PRETTY_PARAMETER,
    SELECT_PARAMETERS,
    WRITE_PARAMETERS,
    name_parameter,
)
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.negotiation import JSON, PATCH_TYPES, YAML
from shoal.kinds.apiextensions.publish import definition_name
from shoal.kinds.builtin_schemas import schema_name

Object = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_WATCH_STREAM = JSON + ";stream=watch"


@dataclass(frozen=True, slots=True)
class _OperationTemplate:
    method: str
    action: str
    id_prefix: str
    """Prefix of the operationId."""
    description: str
    """Description template. {} is the kind or the subresource of the kind."""
    parameters: list[Object]
    codes: tuple[str, ...] = ("200",)
    media_types: tuple[str, ...] = (JSON,)
    """Media types of its responses."""


_COLLECTION_VERBS = {
    "list": _OperationTemplate("get", "list", "list", "list objects of kind {}", LIST_PARAMETERS),
    "create": _OperationTemplate("post", "post", "create", "create {}", WRITE_PARAMETERS, ("200", "201", "202")),
    "deletecollection": _OperationTemplate(
        "delete",
        "deletecollection",
        "deleteCollection",
        "delete collection of {}",
        [*SELECT_PARAMETERS, *DELETE_PARAMETERS],
    ),
}
_OBJECT_VERBS = {
    "get": _OperationTemplate("get", "get", "read", "read {}", []),
    "update": _OperationTemplate("put", "put", "replace", "replace {}", WRITE_PARAMETERS, ("200", "201")),
    "delete": _OperationTemplate("delete", "delete", "delete", "delete {}", DELETE_PARAMETERS, ("200", "202")),
    "patch": _OperationTemplate("patch", "patch", "patch", "partially update {}", PATCH_PARAMETERS, ("200", "201")),
}
_LIST_OR_WATCH = _OperationTemplate(
    "get", "list", "list", "list or watch objects of kind {}", LIST_PARAMETERS, media_types=(JSON, _WATCH_STREAM)
)
_LOG = _OperationTemplate("get", "get", "read", "read {}", [], media_types=("text/plain",))
_SUBRESOURCE_VERBS = {**_OBJECT_VERBS, "create": _COLLECTION_VERBS["create"]}
_STATUS_TEXTS = {"200": "OK", "201": "Created", "202": "Accepted"}


def object_schema_name(resource: Resource) -> str:
    """Returns the name of a resource's schema: `io.k8s.api.core.v1.ConfigMap`, `com.example.v1.Widget`."""
    return _schema_name(resource, resource.kind)


def list_schema_name(resource: Resource) -> str:
    return _schema_name(resource, resource.list_kind or resource.kind + "List")


def _schema_name(resource: Resource, kind: str) -> str:
    if resource.custom:
        return definition_name(resource.group, resource.version, kind)
    return schema_name(resource.group, resource.version, kind)


def build_paths(group: str, version: str, resources: list[Resource]) -> dict[str, Object]:
    root = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    short_group = (group or "core").removesuffix(".k8s.io")
    tag = f"{_camel_case(short_group)}_{_camel_case(version)}"
    discovery = {
        "description": "get available resources",
        "operationId": f"get{_camel_case(short_group, True)}{_camel_case(version, True)}APIResources",
        "responses": _responses(("200",), _content(_ref(META + "APIResourceList"), JSON)),
        "tags": [tag],
    }
    paths: dict[str, Object] = {root: {"get": discovery}}
    for resource in resources:
        paths.update(
            _ResourcePaths(resource, root, tag, _camel_case(short_group, True) + _camel_case(version, True)).build()
        )
    return dict(sorted(paths.items()))


class _ResourcePaths:
    """Builds the paths of one resource and its subresources."""

    def __init__(self, resource: Resource, root: str, tag: str, group_version: str) -> None:
        self._resource = resource
        self._root = root
        self._tag = tag
        self._group_version = group_version
        self._gvk = {"group": resource.group, "kind": resource.kind, "version": resource.version}

    def build(self) -> dict[str, Object]:
        resource = self._resource
        paths: dict[str, Object] = {}
        common_parameters = [NAMESPACE_PARAMETER, PRETTY_PARAMETER] if resource.namespaced else [PRETTY_PARAMETER]
        path = self._root + ("namespaces/{namespace}/" if resource.namespaced else "") + resource.plural
        if resource.namespaced and "list" in resource.verbs:
            all_namespaces = self._resource_operation(_COLLECTION_VERBS["list"], all_namespaces=True)
            paths[self._root + resource.plural] = {"get": all_namespaces, "parameters": [PRETTY_PARAMETER]}
        collection = {
            v.method: self._resource_operation(v) for verb, v in _COLLECTION_VERBS.items() if verb in resource.verbs
        }
        if collection:
            paths[path] = {**collection, "parameters": common_parameters}
        object_parameters = [name_parameter(resource.kind), *common_parameters]
        object_operations = {
            v.method: self._resource_operation(v) for verb, v in _OBJECT_VERBS.items() if verb in resource.verbs
        }
        if object_operations:
            paths[path + "/{name}"] = {**object_operations, "parameters": object_parameters}
        for name, group, version, kind, verbs in subresources_of(resource):
            gvk = {"group": group, "kind": kind, "version": version}
            operations = {
                v.method: self._subresource_operation(v, name, gvk)
                for verb, v in _SUBRESOURCE_VERBS.items()
                if verb in verbs
            }
            paths[f"{path}/{{name}}/{name}"] = {**operations, "parameters": object_parameters}
        return paths

    def _resource_operation(self, verb: _OperationTemplate, *, all_namespaces: bool = False) -> Object:
        kind, name = self._resource.kind, object_schema_name(self._resource)
        what, response_schema = f"the specified {kind}", name
        if verb.action == "list":
            what, response_schema = kind, list_schema_name(self._resource)
            verb = _LIST_OR_WATCH if "watch" in self._resource.verbs else verb
        elif verb.method == "delete":
            what = kind if verb.action == "deletecollection" else _with_article(kind)
            response_schema = META + "Status"
        elif verb.action == "post":
            what = _with_article(kind)
        suffix = kind + "ForAllNamespaces" if all_namespaces else self._scoped_kind(kind)
        return self._build_operation(verb, what, suffix, self._gvk, _ref(response_schema), name)

    def _subresource_operation(self, verb: _OperationTemplate, name: str, gvk: Object) -> Object:
        kind = self._resource.kind
        what = _with_article(kind) if verb.action == "post" else f"the specified {kind}"
        suffix = self._scoped_kind(kind) + name.title().replace("/", "")
        try:
            schema = object_schema_name(self._resource) if gvk == self._gvk else schema_name(*_gvk_tuple(gvk))
        except KeyError:
            return self._connect_operation(verb.method, f"{name} of {kind}", suffix, gvk)
        what = f"{name} of {what}"
        if name == "log":
            return self._build_operation(_LOG, what, suffix, gvk, {"type": "string"}, schema)
        return self._build_operation(verb, what, suffix, gvk, _ref(schema), schema)

    def _build_operation(
        self, verb: _OperationTemplate, what: str, suffix: str, gvk: Object, response_schema: Object, body_schema: str
    ) -> Object:
        start, collection, _ = verb.id_prefix.partition("Collection")
        operation: Object = {
            "description": verb.description.format(what),
            "operationId": start + self._group_version + collection + suffix,
            **({"parameters": verb.parameters} if verb.parameters else {}),
            "responses": _responses(verb.codes, _content(response_schema, *verb.media_types)),
            "tags": [self._tag],
            "x-kubernetes-action": verb.action,
            "x-kubernetes-group-version-kind": gvk,
        }
        if verb.method != "get":
            operation["requestBody"] = self._request_body(verb, body_schema)
        return operation

    def _request_body(self, verb: _OperationTemplate, schema: str) -> Object:
        custom = self._resource.custom
        if verb.method == "patch":
            types = [name for name, kind in PATCH_TYPES.items() if not (custom and kind == "strategic")]
            return {"content": _content(_ref(META + "Patch"), *types), "required": True}
        types = [JSON, YAML] if custom else ["*/*"]
        if verb.method == "delete":
            return {"content": _content(_ref(META + "DeleteOptions"), *types)}
        return {"content": _content(_ref(schema), *types), "required": True}

    def _connect_operation(self, method: str, what: str, suffix: str, gvk: Object) -> Object:
        """Returns the operation of a connecting subresource (exec, proxy), whose kind consists of query parameters
        only.
        """
        return {
            "description": f"connect {method.upper()} requests to {what}",
            "operationId": f"connect{self._group_version}{method.title()}{suffix}",
            "responses": _responses(("200",), _content({"type": "string"}, "*/*")),
            "tags": [self._tag],
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": gvk,
        }

    def _scoped_kind(self, kind: str) -> str:
        return "Namespaced" + kind if self._resource.namespaced else kind


def _gvk_tuple(gvk: Object) -> tuple[str, str, str]:
    return gvk["group"], gvk["version"], gvk["kind"]


def _ref(name: str) -> Object:
    return {"$ref": "#/components/schemas/" + name}


def _content(schema: Object, *types: str) -> Object:
    return {name: {"schema": schema} for name in types}


def _responses(codes: tuple[str, ...], content: Object) -> Object:
    responses: Object = {code: {"content": content, "description": _STATUS_TEXTS[code]} for code in codes}
    responses["401"] = {"description": "Unauthorized"}
    return responses


def _with_article(kind: str) -> str:
    if kind.endswith("s") and not kind.endswith("ss"):
        return kind
    return ("an " if kind[0] in "AEIOUaeiou" else "a ") + kind


def _camel_case(text: str, upper_first: bool = False) -> str:
    """Converts `rbac.authorization` to `rbacAuthorization`."""
    head, *tail = text.replace("-", ".").split(".")
    return "".join(
        [head[:1].upper() + head[1:] if upper_first else head, *(part[:1].upper() + part[1:] for part in tail)]
    )
