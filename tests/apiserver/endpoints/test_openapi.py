from __future__ import annotations

import gc
import json
import re
import weakref
from typing import Any

import jsonschema_rs
import pytest

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.endpoints.openapi import OpenAPIService, service
from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.crds import CRDResources
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.kinds.builtin_schemas import direct_references
from shoal.objects.errors import NotAcceptable, NotFound
from shoal.objects.wire import Request, Response
from tests.steps import result

Object = dict[str, Any]
GVK = "x-kubernetes-group-version-kind"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
METHODS = ("get", "put", "post", "delete", "patch")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
REF = "#/components/schemas/"
PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"

PARAMETER = {
    "type": "object",
    "required": ["name", "in", "schema"],
    "properties": {"in": {"enum": ["query", "path"]}, "schema": {"required": ["type"]}},
    "if": {"properties": {"in": {"const": "path"}}},
    "then": {"required": ["required"], "properties": {"required": {"const": True}}},
}
CONTENT = {"type": "object", "minProperties": 1, "additionalProperties": {"required": ["schema"]}}
OPERATION = {
    "type": "object",
    "required": ["operationId", "responses", "tags", "description"],
    "properties": {
        "parameters": {"type": "array", "items": PARAMETER},
        "requestBody": {"required": ["content"], "properties": {"content": CONTENT}},
        "responses": {
            "type": "object",
            "patternProperties": {
                "^[1-5][0-9][0-9]$": {"required": ["description"], "properties": {"content": CONTENT}}
            },
            "additionalProperties": False,
        },
    },
}
DOCUMENT = {
    "type": "object",
    "required": ["openapi", "info", "paths", "components"],
    "properties": {
        "openapi": {"const": "3.0.0"},
        "info": {"required": ["title", "version"]},
        "paths": {
            "type": "object",
            "patternProperties": {
                "^/": {
                    "properties": {"parameters": {"type": "array", "items": PARAMETER}},
                    "patternProperties": {"^(get|put|post|delete|patch)$": OPERATION},
                    "propertyNames": {"enum": ["parameters", *METHODS]},
                }
            },
            "additionalProperties": False,
        },
        "components": {"required": ["schemas", "securitySchemes"]},
    },
}


def crd(description: str = "When it runs.", kind: str = "CronTab", **version: Any) -> Object:
    names = {"plural": "crontabs", "singular": "crontab", "kind": kind, "listKind": kind + "List"}
    spec = {"type": "object", "properties": {"cron": {"type": "string", "description": description}}}
    schema = {"type": "object", "description": "A table of jobs.", "properties": {"spec": spec}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "metadata": {"name": "crontabs.stable.example.com", "uid": "1"},
        "spec": {"group": "stable.example.com", "scope": "Namespaced", "names": names, "versions": [served]},
        "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
    }


def custom(definition: Object) -> list[Resource]:
    return CRDResources().resources(
        "root", CachedObject("", definition["metadata"]["name"], 1, json.dumps(definition).encode())
    )


def registry(*definitions: Object, profile: str = "hub") -> Registry:
    return Registry([*builtins.profile_resources(profile), *(r for each in definitions for r in custom(each))])


def ask(served: Registry, rest: str, api: OpenAPIService | None = None, prefix: str = "", **headers: str) -> Response:
    path, _, query = rest.partition("?")
    request = Request("GET", f"{prefix}/openapi/{path}", headers={k.replace("_", "-"): v for k, v in headers.items()})
    return result((api or OpenAPIService()).handle(served, path, request, dict([query.split("=")]) if query else {}))


def read(answer: Response) -> Object:
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    found: Object = json.loads(answer.body)
    return found


def document(served: Registry, name: str) -> Object:
    return read(ask(served, "v3/" + name))


def operations(found: Object) -> list[tuple[str, str, Object]]:
    return [(path, m, item[m]) for path, item in found["paths"].items() for m in METHODS if m in item]


def index(served: Registry, api: OpenAPIService | None = None, prefix: str = "") -> dict[str, str]:
    paths = read(ask(served, "v3", api, prefix))["paths"]
    assert all(list(value) == ["serverRelativeURL"] for value in paths.values())
    return {name: value["serverRelativeURL"] for name, value in paths.items()}


def header(answer: Response, name: str) -> str:
    return dict(answer.headers).get(name, "")


# --- the index ---


def test_the_index_names_every_group_and_version() -> None:
    assert list(index(registry(crd()))) == [
        "api/v1",
        "apis/events.k8s.io/v1",
        "apis/authentication.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
        "apis/certificates.k8s.io/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/coordination.k8s.io/v1",
        "apis/stable.example.com/v1",
    ]


@pytest.mark.parametrize("prefix", ["", "/clusters/root", "/clusters/openapi"])
def test_addresses_stay_below_the_path_of_the_cluster(prefix: str) -> None:
    found = index(registry(), prefix=prefix)["apis/coordination.k8s.io/v1"]
    assert re.fullmatch(re.escape(prefix) + r"/openapi/v3/apis/coordination\.k8s\.io/v1\?hash=[0-9A-F]{64}", found)


def test_the_index_builds_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "build_v3_document", lambda *given: pytest.fail("a document was built"))
    assert index(registry(crd()))


def test_the_index_is_not_sent_again() -> None:
    api, served = OpenAPIService(), registry()
    etag = header(ask(served, "v3", api), "ETag")
    assert ask(served, "v3", api, if_none_match=etag).status == 304
    assert ask(served, "v3", api, prefix="/clusters/root", if_none_match=etag).status == 200


@pytest.mark.parametrize(
    "changed",
    [
        crd(description="Otherwise described."),
        crd(kind="CronTable"),
        crd(subresources={"status": {}}),
        crd(subresources={"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}),
        crd(selectableFields=[{"jsonPath": ".spec.cron"}]),
        {**crd(), "metadata": {**crd()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
)
def test_the_hash_changes_with_the_document_and_only_there(changed: Object) -> None:
    name = "apis/stable.example.com/v1"
    before, after = index(registry(crd())), index(registry(changed))
    assert document(registry(crd()), name) != document(registry(changed), name)
    assert before.pop(name) != after.pop(name)
    assert before == after
    assert index(registry(crd())) == index(registry(crd()))


def test_schemas_without_a_hash_are_never_mistaken_for_each_other() -> None:
    def bare(field: str) -> Registry:
        schema = {"type": "object", "properties": {field: {"type": "string"}}}
        return Registry([Resource("a.io", "v1", "as", "A", "a", True, custom=True, schema=lambda: schema)])

    one, other, api = bare("one"), bare("other"), OpenAPIService()
    assert index(one) != index(other)
    for served, field in ((one, "one"), (other, "other")):
        assert field in read(ask(served, "v3/apis/a.io/v1", api))["components"]["schemas"]["io.a.v1.A"]["properties"]


# --- how documents are answered ---


def test_a_document_is_cached_by_its_hash() -> None:
    api, served = OpenAPIService(), registry()
    digest = index(served, api)["api/v1"].partition("?hash=")[2]
    answer = ask(served, f"v3/api/v1?hash={digest}", api)
    assert answer.content_type == "application/json"
    assert answer.headers == (("Vary", "Accept"), ("Cache-Control", "public, immutable"), ("ETag", f'"{digest}"'))
    assert header(ask(served, "v3/api/v1", api), "Cache-Control") == ""
    assert header(ask(served, "v3/api/v1?hash=OLD", api), "Cache-Control") == ""


@pytest.mark.parametrize("form", ['"{}"', 'W/"{}"', '"OTHER", "{}"'])
def test_a_known_document_is_neither_sent_nor_built(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api, served = OpenAPIService(), registry()
    digest = index(served, api)["api/v1"].partition("?hash=")[2]
    monkeypatch.setattr(service, "build_v3_document", lambda *given: pytest.fail("a document was built"))
    answer = ask(served, "v3/api/v1", api, if_none_match=form.format(digest))
    assert (answer.status, answer.body, header(answer, "ETag")) == (304, b"", f'"{digest}"')


def test_another_document_is_sent() -> None:
    assert ask(registry(), "v3/api/v1", if_none_match='"OTHER"').status == 200


def test_registries_that_serve_the_same_share_the_bytes() -> None:
    api, one, other = OpenAPIService(), registry(crd()), registry(crd(kind="CronTable"))
    assert ask(one, "v3/api/v1", api).body is ask(other, "v3/api/v1", api).body
    assert ask(one, "v3/api/v1", api).body is ask(one, "v3/api/v1", api).body
    name = "v3/apis/stable.example.com/v1"
    assert ask(one, name, api).body is ask(registry(crd()), name, api).body
    assert ask(one, name, api).body != ask(other, name, api).body


def test_documents_go_with_the_last_registry() -> None:
    api, served = OpenAPIService(), registry(crd())
    ask(served, "v3/api/v1", api)
    gone = weakref.ref(served)
    del served
    gc.collect()
    assert gone() is None
    assert not api._by_digest


@pytest.mark.parametrize(
    "rest", ["", "v2/api", "v3/api", "v3/api/v2", "v3/apis/apps", "v3/apis/apps/v1", "v4", "v3/api/v1/x"]
)
def test_what_is_not_served(rest: str) -> None:
    with pytest.raises(NotFound, match=r"^the server could not find the requested resource$"):
        ask(registry(), rest)


@pytest.mark.parametrize(
    "accept", ["", "application/json", "*/*", f"{PROTOBUF}, application/json", "application/json, */*"]
)
def test_json_is_had(accept: str) -> None:
    assert ask(registry(), "v3/api/v1", accept=accept).content_type == "application/json"


@pytest.mark.parametrize("accept", [PROTOBUF, PROTOBUF.replace("v3.v1", "v3@v1"), "text/html"])
def test_other_forms_are_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: application/json"):
        ask(registry(), "v3/api/v1", accept=accept)


# --- what is in them ---

CLUSTER = registry(crd(subresources={"status": {}}), profile="cluster")
NAMES = list(index(CLUSTER))


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_sound(name: str) -> None:
    found = document(CLUSTER, name)
    jsonschema_rs.validator_for(DOCUMENT).validate(found)
    schemas = found["components"]["schemas"]
    assert set(direct_references(found)) <= set(schemas)
    assert list(schemas) == sorted(schemas)
    assert list(found["paths"]) == sorted(found["paths"])
    ids = [operation["operationId"] for _, _, operation in operations(found)]
    assert len(ids) == len(set(ids))
    for path, item in found["paths"].items():
        declared = {p["name"] for p in item.get("parameters", []) if p["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path))


@pytest.mark.parametrize("name", NAMES)
def test_what_kubectl_looks_up(name: str) -> None:
    """apply and create look for fieldValidation at the PATCH of a kind; explain for the kind of a path."""
    found = document(CLUSTER, name)
    group, version = name.split("/")[1:] if name.startswith("apis/") else ("", "v1")
    root = f"/{name}/"
    for resource in CLUSTER.resources(group, version):
        gvk = {"group": group, "version": version, "kind": resource.kind}
        patches = [op for _, method, op in operations(found) if method == "patch" and op[GVK] == gvk]
        assert bool(patches) == ("patch" in resource.verbs)
        for patch in patches:
            assert {"name": "fieldValidation", "in": "query"}.items() <= patch["parameters"][2].items()
            strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
            assert strategic != resource.custom
        path = root + ("namespaces/{namespace}/" if resource.namespaced else "") + resource.plural
        assert all(op[GVK] == gvk for where, _, op in operations(found) if where == path)
        assert path in found["paths"]
        owners = [key for key, schema in found["components"]["schemas"].items() if gvk in schema.get(GVK, ())]
        assert len(owners) == 1


def test_the_document_of_leases() -> None:
    found = document(registry(), "apis/coordination.k8s.io/v1")
    assert found["info"] == {"title": "Kubernetes", "version": "v1.36.4"}
    assert [(path, method, op["operationId"]) for path, method, op in operations(found)] == [
        ("/apis/coordination.k8s.io/v1/", "get", "getCoordinationV1APIResources"),
        ("/apis/coordination.k8s.io/v1/leases", "get", "listCoordinationV1LeaseForAllNamespaces"),
        (LEASES, "get", "listCoordinationV1NamespacedLease"),
        (LEASES, "post", "createCoordinationV1NamespacedLease"),
        (LEASES, "delete", "deleteCoordinationV1CollectionNamespacedLease"),
        (LEASES + "/{name}", "get", "readCoordinationV1NamespacedLease"),
        (LEASES + "/{name}", "put", "replaceCoordinationV1NamespacedLease"),
        (LEASES + "/{name}", "delete", "deleteCoordinationV1NamespacedLease"),
        (LEASES + "/{name}", "patch", "patchCoordinationV1NamespacedLease"),
    ]
    assert list(found["components"]["schemas"]) == [
        "io.k8s.api.coordination.v1.Lease",
        "io.k8s.api.coordination.v1.LeaseList",
        "io.k8s.api.coordination.v1.LeaseSpec",
        *(META + kind for kind in ("APIResource", "APIResourceList", "DeleteOptions", "FieldsV1", "ListMeta")),
        *(META + kind for kind in ("ManagedFieldsEntry", "MicroTime", "ObjectMeta", "OwnerReference", "Patch")),
        *(META + kind for kind in ("Preconditions", "ShardInfo", "Status", "StatusCause", "StatusDetails", "Time")),
        META + "WatchEvent",
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
    ]


def test_an_operation() -> None:
    item = document(registry(), "apis/coordination.k8s.io/v1")["paths"][LEASES + "/{name}"]
    assert [p["name"] for p in item["parameters"]] == ["name", "namespace", "pretty"]
    patch = item["patch"]
    answer = {"content": {"application/json": {"schema": {"$ref": f"{REF}io.k8s.api.coordination.v1.Lease"}}}}
    body = {"schema": {"$ref": f"{REF}{META}Patch"}}
    assert [p["name"] for p in patch.pop("parameters")] == ["dryRun", "fieldManager", "fieldValidation", "force"]
    assert patch == {
        "description": "partially update the specified Lease",
        "operationId": "patchCoordinationV1NamespacedLease",
        "responses": {
            "200": {**answer, "description": "OK"},
            "201": {**answer, "description": "Created"},
            "401": {"description": "Unauthorized"},
        },
        "tags": ["coordination_v1"],
        "x-kubernetes-action": "patch",
        GVK: {"group": "coordination.k8s.io", "kind": "Lease", "version": "v1"},
        "requestBody": {
            "content": {
                "application/json-patch+json": body,
                "application/merge-patch+json": body,
                "application/strategic-merge-patch+json": body,
                "application/apply-patch+yaml": body,
            },
            "required": True,
        },
    }


@pytest.mark.parametrize(
    ("path", "method", "operation", "action", "kind"),
    [
        ("namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize", "put", "Namespace"),
        (
            "namespaces/{namespace}/serviceaccounts/{name}/token",
            "post",
            "createCoreV1NamespacedServiceAccountToken",
            "post",
            "TokenRequest",
        ),
        (
            "namespaces/{namespace}/pods/{name}/exec",
            "get",
            "connectCoreV1GetNamespacedPodExec",
            "connect",
            "PodExecOptions",
        ),
        (
            "namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "createCoreV1NamespacedPodEviction",
            "post",
            "Eviction",
        ),
        ("namespaces/{namespace}/pods/{name}/log", "get", "readCoreV1NamespacedPodLog", "get", "Pod"),
        ("componentstatuses", "get", "listCoreV1ComponentStatus", "list", "ComponentStatus"),
    ],
)
def test_subresources_and_others(path: str, method: str, operation: str, action: str, kind: str) -> None:
    found = document(CLUSTER, "api/v1")["paths"]["/api/v1/" + path][method]
    assert (found["operationId"], found["x-kubernetes-action"], found[GVK]["kind"]) == (operation, action, kind)
    assert found["tags"] == ["core_v1"]


def test_logs_are_text_and_what_cannot_be_watched_is_listed_only() -> None:
    paths = document(CLUSTER, "api/v1")["paths"]
    log = paths["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"]["responses"]["200"]
    assert log["content"] == {"text/plain": {"schema": {"type": "string"}}}
    listed, watched = paths["/api/v1/componentstatuses"]["get"], paths["/api/v1/pods"]["get"]
    assert listed["description"] == "list objects of kind ComponentStatus"
    assert list(listed["responses"]["200"]["content"]) == ["application/json"]
    assert watched["description"] == "list or watch objects of kind Pod"
    assert list(watched["responses"]["200"]["content"]) == ["application/json", "application/json;stream=watch"]


def test_options_are_kinds_of_every_group() -> None:
    schemas = document(CLUSTER, "apis/apps/v1")["components"]["schemas"]
    for kind in ("DeleteOptions", "WatchEvent"):
        assert schemas[META + kind][GVK] == [{"group": "apps", "kind": kind, "version": "v1"}]
    core = document(CLUSTER, "api/v1")["components"]["schemas"]
    assert core[META + "DeleteOptions"][GVK] == [{"group": "", "kind": "DeleteOptions", "version": "v1"}]


def test_a_custom_resource() -> None:
    found = document(registry(crd(selectableFields=[{"jsonPath": ".spec.cron"}])), "apis/stable.example.com/v1")
    schema = found["components"]["schemas"]["com.example.stable.v1.CronTab"]
    assert schema["description"] == "A table of jobs."
    assert schema["properties"]["spec"]["properties"]["cron"] == {"type": "string", "description": "When it runs."}
    assert schema["properties"]["metadata"]["allOf"] == [{"$ref": f"{REF}{META}ObjectMeta"}]
    assert schema[GVK] == [{"group": "stable.example.com", "kind": "CronTab", "version": "v1"}]
    listed = found["components"]["schemas"]["com.example.stable.v1.CronTabList"]
    assert listed["description"] == "CronTabList is a list of CronTab"
    assert listed["required"] == ["items"]
    assert listed["properties"]["items"]["items"] == {"$ref": f"{REF}com.example.stable.v1.CronTab"}
    assert listed[GVK] == [{"group": "stable.example.com", "kind": "CronTabList", "version": "v1"}]
    assert listed["x-kubernetes-selectable-fields"] == schema["x-kubernetes-selectable-fields"]
    item = found["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"]
    assert item["post"]["operationId"] == "createStableExampleComV1NamespacedCronTab"
    assert item["post"]["tags"] == ["stableExampleCom_v1"]
    assert list(item["post"]["requestBody"]["content"]) == ["application/json", "application/yaml"]


def test_what_a_definition_turns_on_is_described() -> None:
    def paths(**version: Any) -> set[str]:
        return set(document(registry(crd(**version)), "apis/stable.example.com/v1")["paths"])

    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    one = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"
    assert paths(subresources={"status": {}, "scale": scale}) - paths() == {one + "/status", one + "/scale"}


def test_a_default_that_looks_like_a_reference() -> None:
    definition = crd()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    odd = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"$ref": "#/nowhere"}}
    schema["properties"]["odd"] = odd
    found = document(registry(definition), "apis/stable.example.com/v1")
    assert found["components"]["schemas"]["com.example.stable.v1.CronTab"]["properties"]["odd"] == odd
