"""The paths of a group and version and their operations, with upstream's operation ids.

Only what this server supports is published: no `/watch/` paths, and JSON as the only response type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.apiserver.discovery import subresources_of
from shoal.apiserver.negotiate import JSON, PATCHES, YAML
from shoal.apiserver.openapi.parameters import DELETE, LIST, NAMESPACE, PATCH, PRETTY, SELECT, WRITE, name_parameter
from shoal.apiserver.registry import Resource
from shoal.kinds.apiextensions_publish import definition_name
from shoal.kinds.definitions import definition_of

Object = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_STREAM = JSON + ";stream=watch"


@dataclass(frozen=True, slots=True)
class _Verb:
    method: str
    action: str
    operation: str
    """Prefix of the operationId."""
    said: str
    """Description template. {} is the kind or the subresource of the kind."""
    parameters: list[Object]
    codes: tuple[str, ...] = ("200",)
    types: tuple[str, ...] = (JSON,)
    """Media types of its responses."""


_COLLECTION = {
    "list": _Verb("get", "list", "list", "list objects of kind {}", LIST),
    "create": _Verb("post", "post", "create", "create {}", WRITE, ("200", "201", "202")),
    "deletecollection": _Verb(
        "delete", "deletecollection", "deleteCollection", "delete collection of {}", [*SELECT, *DELETE]
    ),
}
_OBJECT = {
    "get": _Verb("get", "get", "read", "read {}", []),
    "update": _Verb("put", "put", "replace", "replace {}", WRITE, ("200", "201")),
    "delete": _Verb("delete", "delete", "delete", "delete {}", DELETE, ("200", "202")),
    "patch": _Verb("patch", "patch", "patch", "partially update {}", PATCH, ("200", "201")),
}
_WATCHED = _Verb("get", "list", "list", "list or watch objects of kind {}", LIST, types=(JSON, _STREAM))
_LOG = _Verb("get", "get", "read", "read {}", [], types=("text/plain",))
_SUBRESOURCE = {**_OBJECT, "create": _COLLECTION["create"]}
_SAID = {"200": "OK", "201": "Created", "202": "Accepted"}


def object_name(resource: Resource) -> str:
    """Returns the name of a resource's schema: `io.k8s.api.core.v1.ConfigMap`, `com.example.v1.Widget`."""
    return _schema_name(resource, resource.kind)


def list_name(resource: Resource) -> str:
    return _schema_name(resource, resource.list_kind or resource.kind + "List")


def _schema_name(resource: Resource, kind: str) -> str:
    if resource.custom:
        return definition_name(resource.group, resource.version, kind)
    return definition_of(resource.group, resource.version, kind)


def make_paths(group: str, version: str, resources: list[Resource]) -> dict[str, Object]:
    root = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    trimmed = (group or "core").removesuffix(".k8s.io")
    tag = f"{_camel(trimmed)}_{_camel(version)}"
    about = {
        "description": "get available resources",
        "operationId": f"get{_camel(trimmed, True)}{_camel(version, True)}APIResources",
        "responses": _responses(("200",), _content(_ref(META + "APIResourceList"), JSON)),
        "tags": [tag],
    }
    paths: dict[str, Object] = {root: {"get": about}}
    for resource in resources:
        paths.update(_Paths(resource, root, tag, _camel(trimmed, True) + _camel(version, True)).make())
    return dict(sorted(paths.items()))


class _Paths:
    """Builds the paths of one resource and its subresources."""

    def __init__(self, resource: Resource, root: str, tag: str, group_version: str) -> None:
        self._resource = resource
        self._root = root
        self._tag = tag
        self._group_version = group_version
        self._gvk = {"group": resource.group, "kind": resource.kind, "version": resource.version}

    def make(self) -> dict[str, Object]:
        resource = self._resource
        found: dict[str, Object] = {}
        place = [NAMESPACE, PRETTY] if resource.namespaced else [PRETTY]
        path = self._root + ("namespaces/{namespace}/" if resource.namespaced else "") + resource.plural
        if resource.namespaced and "list" in resource.verbs:
            everywhere = self._operation(_COLLECTION["list"], everywhere=True)
            found[self._root + resource.plural] = {"get": everywhere, "parameters": [PRETTY]}
        collection = {v.method: self._operation(v) for verb, v in _COLLECTION.items() if verb in resource.verbs}
        if collection:
            found[path] = {**collection, "parameters": place}
        named = [name_parameter(resource.kind), *place]
        one = {v.method: self._operation(v) for verb, v in _OBJECT.items() if verb in resource.verbs}
        if one:
            found[path + "/{name}"] = {**one, "parameters": named}
        for name, group, version, kind, verbs in subresources_of(resource):
            gvk = {"group": group, "kind": kind, "version": version}
            below = {v.method: self._below(v, name, gvk) for verb, v in _SUBRESOURCE.items() if verb in verbs}
            found[f"{path}/{{name}}/{name}"] = {**below, "parameters": named}
        return found

    def _operation(self, verb: _Verb, *, everywhere: bool = False) -> Object:
        kind, name = self._resource.kind, object_name(self._resource)
        what, answer = f"the specified {kind}", name
        if verb.action == "list":
            what, answer = kind, list_name(self._resource)
            verb = _WATCHED if "watch" in self._resource.verbs else verb
        elif verb.method == "delete":
            what = kind if verb.action == "deletecollection" else _with_article(kind)
            answer = META + "Status"
        elif verb.action == "post":
            what = _with_article(kind)
        suffix = kind + "ForAllNamespaces" if everywhere else self._scoped(kind)
        return self._described(verb, what, suffix, self._gvk, _ref(answer), name)

    def _below(self, verb: _Verb, name: str, gvk: Object) -> Object:
        kind = self._resource.kind
        what = _with_article(kind) if verb.action == "post" else f"the specified {kind}"
        suffix = self._scoped(kind) + name.title().replace("/", "")
        try:
            schema = object_name(self._resource) if gvk == self._gvk else definition_of(*_flat(gvk))
        except KeyError:
            return self._connect(verb.method, f"{name} of {kind}", suffix, gvk)
        what = f"{name} of {what}"
        if name == "log":
            return self._described(_LOG, what, suffix, gvk, {"type": "string"}, schema)
        return self._described(verb, what, suffix, gvk, _ref(schema), schema)

    def _described(self, verb: _Verb, what: str, suffix: str, gvk: Object, answer: Object, body: str) -> Object:
        start, collection, _ = verb.operation.partition("Collection")
        operation: Object = {
            "description": verb.said.format(what),
            "operationId": start + self._group_version + collection + suffix,
            **({"parameters": verb.parameters} if verb.parameters else {}),
            "responses": _responses(verb.codes, _content(answer, *verb.types)),
            "tags": [self._tag],
            "x-kubernetes-action": verb.action,
            "x-kubernetes-group-version-kind": gvk,
        }
        if verb.method != "get":
            operation["requestBody"] = self._body(verb, body)
        return operation

    def _body(self, verb: _Verb, schema: str) -> Object:
        custom = self._resource.custom
        if verb.method == "patch":
            types = [name for name, kind in PATCHES.items() if not (custom and kind == "strategic")]
            return {"content": _content(_ref(META + "Patch"), *types), "required": True}
        types = [JSON, YAML] if custom else ["*/*"]
        if verb.method == "delete":
            return {"content": _content(_ref(META + "DeleteOptions"), *types)}
        return {"content": _content(_ref(schema), *types), "required": True}

    def _connect(self, method: str, what: str, suffix: str, gvk: Object) -> Object:
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

    def _scoped(self, kind: str) -> str:
        return "Namespaced" + kind if self._resource.namespaced else kind


def _flat(gvk: Object) -> tuple[str, str, str]:
    return gvk["group"], gvk["version"], gvk["kind"]


def _ref(name: str) -> Object:
    return {"$ref": "#/components/schemas/" + name}


def _content(schema: Object, *types: str) -> Object:
    return {name: {"schema": schema} for name in types}


def _responses(codes: tuple[str, ...], content: Object) -> Object:
    found: Object = {code: {"content": content, "description": _SAID[code]} for code in codes}
    found["401"] = {"description": "Unauthorized"}
    return found


def _with_article(kind: str) -> str:
    if kind.endswith("s") and not kind.endswith("ss"):
        return kind
    return ("an " if kind[0] in "AEIOUaeiou" else "a ") + kind


def _camel(text: str, first: bool = False) -> str:
    """Converts `rbac.authorization` to `rbacAuthorization`."""
    head, *tail = text.replace("-", ".").split(".")
    return "".join([head[:1].upper() + head[1:] if first else head, *(part[:1].upper() + part[1:] for part in tail)])
