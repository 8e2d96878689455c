"""Requests that ask for nonsense: paths, queries, methods, identities, patches, definitions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.faults.test_bad_bodies import CONFIG_MAPS, refused
from tests.serving import DEFINITIONS, WIDGETS, Cluster, config_map, widget, widget_definition

NOWHERE = "the server could not find the requested resource"
UNKNOWN_MEDIA = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
UNKNOWN_VIEW = "only the following media types are accepted: application/json"
NO_METHOD = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v9/pods",
        "/api/v1/nopes",
        "/apis/coordination.k8s.io/v9/leases",
        f"{CONFIG_MAPS}/a/status",
        f"{CONFIG_MAPS}/a/b/c/d",
    ],
)
def test_unknown_paths_are_not_found(cluster: Cluster, path: str) -> None:
    refused(cluster.get(path), 404, "NotFound", NOWHERE)


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "//api/v1/pods",
        "/apis/nope.example.com/v1/widgets",
        "/apis/example.com/v9/namespaces/default/widgets",
        "/apis/example.com/v1/namespaces/default/gadgets",
        "/healthz/nope",
    ],
)
def test_a_path_of_nothing_is_not_found_in_plain_words(cluster: Cluster, path: str) -> None:
    answer = cluster.get(path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_unknown_objects_are_not_found_by_their_name(cluster: Cluster) -> None:
    refused(cluster.get(f"{CONFIG_MAPS}/nope"), 404, "NotFound", 'configmaps "nope" not found')
    refused(cluster.delete(f"{WIDGETS}/nope"), 404, "NotFound", 'widgets.example.com "nope" not found')
    for part in ("nope", "status/more"):
        refused(cluster.get(f"{WIDGETS}/a/{part}"), 404, "NotFound", 'widgets.example.com "a" not found')
    other = Cluster(cluster.server, "nope")
    refused(other.get("/api/v1/namespaces"), 404, "NotFound", 'logicalclusters.core.shoal.dev "nope" not found')
    other.close()


@pytest.mark.parametrize("path", ["/%", "/%zz", "/api/v1/%f", "/api/%ff%fe", "/%c0%af", "/%ed%a0%80"])
def test_invalid_escapes_and_utf8_in_paths_are_refused(cluster: Cluster, path: str) -> None:
    refused(cluster.get(path), 400, "BadRequest", "invalid URL escape in path: ")


def test_escaped_slashes_and_dots_lead_nowhere(cluster: Cluster) -> None:
    for path in ("/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets", "/api/v1/%00"):
        assert cluster.get(path).status == 404, path
    message = "Name parameter invalid: \"..\": may not be '..'"
    refused(cluster.get("/api/v1/namespaces/.."), 400, "BadRequest", message)


@pytest.mark.parametrize(
    ("query", "status", "reason", "message"),
    [
        ("limit=abc", 400, "BadRequest", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("limit=5_0", 400, "BadRequest", 'strconv.ParseInt: parsing "5_0": invalid syntax'),
        ("limit=%D9%A1", 400, "BadRequest", 'strconv.ParseInt: parsing "١": invalid syntax'),
        ("limit=9223372036854775808", 400, "BadRequest", 'strconv.ParseInt: parsing "9223372036854775808": value out'),
        ("timeoutSeconds=x", 400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("continue=garbage", 400, "BadRequest", "invalid continue token: continue key is not valid: "),
        ("continue=%ff", 400, "BadRequest", "invalid continue token: continue key is not valid: "),
        ("continue=bnVsbA", 400, "BadRequest", "invalid continue token: continue key is not valid: "),
        ("continue=e30", 400, "BadRequest", "invalid continue token: continue key is not valid: "),
        ("resourceVersion=999999999", 504, "Timeout", "Timeout: Too large resource version: 999999999, current: "),
        (
            "resourceVersionMatch=Exact",
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: F',
        ),
        ("resourceVersion=1&resourceVersionMatch=Foo", 422, "Invalid", 'ListOptions.meta.k8s.io "" is invalid: resour'),
        ("sendInitialEvents=true", 422, "Invalid", 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbid'),
        ("labelSelector=!!", 400, "BadRequest", "unable to parse requirement: found '!', expected: identifier"),
        ("labelSelector=a%3Db%3Dc", 400, "BadRequest", "found '=', expected: ',' or 'end of string'"),
        ("labelSelector=a%20in%20(", 400, "BadRequest", "unable to parse requirement: found '', expected: "),
        ("labelSelector=%ff", 400, "BadRequest", "unable to parse requirement: <nil>: Invalid value: "),
        ("fieldSelector=garbage", 400, "BadRequest", "invalid selector: 'garbage'; can't understand 'garbage'"),
        ("fieldSelector=metadata.name", 400, "BadRequest", "invalid selector: 'metadata.name'; can't understand"),
        ("&".join(["a=1"] * 500), 400, "BadRequest", "invalid query: "),
    ],
)
def test_absurd_list_parameters_are_refused(
    cluster: Cluster, query: str, status: int, reason: str, message: str
) -> None:
    for path in (CONFIG_MAPS, WIDGETS):
        refused(cluster.get(f"{path}?{query}"), status, reason, message)


def test_parameters_that_go_ignores_are_ignored(cluster: Cluster) -> None:
    cluster.post(CONFIG_MAPS, config_map("a")).ok()
    for query in ("limit=-1", "&&&==&", "%zz=%zz", "nope=1", "pretty=%00", "dryRun=", "watch=", "watch=false"):
        assert "a" in [item["metadata"]["name"] for item in cluster.get(f"{CONFIG_MAPS}?{query}").ok()["items"]], query


@pytest.mark.parametrize(
    "query", ["watch=maybe&timeoutSeconds=1", "watch=1&timeoutSeconds=-5", "watch&timeoutSeconds=1"]
)
def test_odd_watches_end_by_themselves(cluster: Cluster, query: str) -> None:
    cluster.post(CONFIG_MAPS, config_map("a")).ok()
    answer = cluster.get(f"{CONFIG_MAPS}?{query}")
    if query.startswith("watch&"):
        assert answer.ok()["kind"] == "ConfigMapList", "an empty boolean is no"
        return
    assert answer.status == 200
    assert [json.loads(line)["type"] for line in answer.body.splitlines()][:1] in (["ADDED"], [])


def test_watch_for_ever_and_a_watch_of_the_past(cluster: Cluster) -> None:
    with cluster.watch(f"{CONFIG_MAPS}?timeoutSeconds=9223372036854775807") as watch:
        cluster.post(CONFIG_MAPS, config_map("a")).ok()
        names = [event["object"]["metadata"]["name"] for event in watch.take(1)]
    assert names
    for bad in ("abc", "-1", "9" * 30):
        answer = cluster.get(f"{CONFIG_MAPS}?watch=1&resourceVersion={bad}")
        assert answer.status in (400, 422), answer.body
        assert answer["reason"] in ("BadRequest", "Invalid")


def test_continue_tokens_of_other_shapes_are_refused(cluster: Cluster) -> None:
    tokens: list[Any] = [
        {"v": "meta.k8s.io/v2", "rv": 1, "start": "a\0"},
        {"v": "meta.k8s.io/v1", "rv": "x", "start": "a\0"},
        {"v": "meta.k8s.io/v1", "rv": 0, "start": "a\0"},
        {"v": "meta.k8s.io/v1", "rv": 1, "start": ""},
        {"v": "meta.k8s.io/v1", "rv": 1, "start": 5},
        {"v": 5, "rv": None, "start": []},
        [],
    ]
    for token in tokens:
        text = base64.urlsafe_b64encode(json.dumps(token).encode()).decode()
        refused(
            cluster.get(f"{CONFIG_MAPS}?limit=1&continue={text}"),
            400,
            "BadRequest",
            "invalid continue token: continue key is not valid: ",
        )


@pytest.mark.parametrize("resource_version", ["1", "abc", "9" * 50])
def test_stale_resource_versions_conflict(cluster: Cluster, resource_version: str) -> None:
    cluster.post(WIDGETS, widget("a")).ok()
    answer = cluster.put(f"{WIDGETS}/a", widget("a", 2, resourceVersion=resource_version))
    assert answer.status in (400, 409), answer.body
    assert cluster.get(f"{WIDGETS}/a").ok()["spec"]["size"] == 1


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        ("garbage", 401, "Unauthorized"),
        ("a.b.c", 401, "Unauthorized"),
        ("eyJhbGciOiJub25lIn0.e30.", 401, "Unauthorized"),
    ],
)
def test_bad_credentials_are_refused(cluster: Cluster, token: str, status: int, reason: str) -> None:
    refused(cluster.request("GET", CONFIG_MAPS, token=token), status, reason, "Unauthorized")


def test_nobody_in_particular_may_do_nothing(cluster: Cluster) -> None:
    said = 'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the '
    refused(cluster.request("GET", CONFIG_MAPS, token=""), 403, "Forbidden", said + 'namespace "default"')
    said = 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    refused(cluster.request("GET", "/metrics", token=""), 403, "Forbidden", said)
    answer = cluster.request("POST", CONFIG_MAPS, b"{", token="", Authorization="Basic Zm9vOmJhcg==")
    refused(answer, 403, "Forbidden", 'configmaps is forbidden: User "system:anonymous" cannot create resource')


@pytest.mark.parametrize("method", ["TRACE", "PURGE", "OPTIONS"])
def test_methods_nobody_serves_are_refused(cluster: Cluster, method: str) -> None:
    for path in (CONFIG_MAPS, f"{WIDGETS}/a", "/version"):
        answer = cluster.request(method, path)
        assert answer.status in (400, 405), answer.body
        assert answer["kind"] == "Status"


def test_methods_of_other_places_are_refused(cluster: Cluster) -> None:
    refused(cluster.put(CONFIG_MAPS, config_map("a")), 405, "MethodNotAllowed", NO_METHOD)
    refused(cluster.patch(CONFIG_MAPS, {}), 405, "MethodNotAllowed", NO_METHOD)
    refused(cluster.delete("/version"), 405, "MethodNotAllowed", NO_METHOD)
    head = cluster.request("HEAD", CONFIG_MAPS)
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    ("accept", "said"),
    [
        ("text/html", UNKNOWN_MEDIA),
        ("application/xml", UNKNOWN_MEDIA),
        ("garbage", UNKNOWN_MEDIA),
        ("application/json;as=Foo;g=meta.k8s.io;v=v1", UNKNOWN_VIEW),
        ("application/json;as=Table;g=x", UNKNOWN_VIEW),
    ],
)
def test_what_cannot_be_served_is_not_acceptable(cluster: Cluster, accept: str, said: str) -> None:
    refused(cluster.get(CONFIG_MAPS, Accept=accept), 406, "NotAcceptable", said)


WRITES = [
    ("dryRun=Garbage", 'dryRun: Unsupported value: ["Garbage"]: supported values: "All"'),
    ("fieldManager=" + "x" * 200, "fieldManager: Too long: may not be more than 128 bytes"),
    ("fieldManager=%00", "fieldManager: Invalid value: "),
    ("fieldValidation=Foo", 'fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Wa'),
]


@pytest.mark.parametrize(("query", "why"), WRITES, ids=lambda text: text[:16])
def test_garbage_in_write_options_is_refused(cluster: Cluster, query: str, why: str) -> None:
    said = f'CreateOptions.meta.k8s.io "" is invalid: {why}'
    refused(cluster.post(f"{CONFIG_MAPS}?{query}", config_map("a")), 422, "Invalid", said)
    assert cluster.get(f"{CONFIG_MAPS}/a").status == 404


@pytest.mark.parametrize(
    "body",
    [{"dryRun": "All"}, {"dryRun": ["x"]}, {"dryRun": 5}, {"gracePeriodSeconds": "x"}, {"preconditions": "x"},
     {"propagationPolicy": {"a": 1}}, {"propagationPolicy": "Foo"}, {"kind": "Pod"}, [], 5],
    ids=str,
)  # fmt: skip
def test_garbage_in_delete_options_deletes_nothing(cluster: Cluster, body: Any) -> None:
    cluster.post(CONFIG_MAPS, config_map("a")).ok()
    answer = cluster.delete(f"{CONFIG_MAPS}/a", body)
    assert answer.status in (400, 422), answer.body
    assert cluster.get(f"{CONFIG_MAPS}/a").status == 200


TOO_MANY = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        ([{"op": "test", "path": "/kind", "value": "Widget"}] * 10_001, 413, TOO_MANY),
        ([{"op": "add", "path": "/spec/parts", "value": []}]
         + [{"op": "add", "path": "/spec/parts/-", "value": {"name": "x" * 1000}}]
         + [{"op": "copy", "from": "/spec", "path": "/spec/parts/-"}] * 40, 0, ""),
        ({}, 400, ""), (5, 400, ""), ([5], 400, ""), ([{"op": "frob", "path": "/a"}], 422, ""),
        ([{"op": "remove", "path": "/nope/x"}], 422, ""), ([{"op": "remove", "path": ""}], 0, ""),
        ([{"op": "replace", "path": "", "value": 5}], 0, ""),
        ([{"op": "move", "from": "/spec", "path": "/spec/a"}], 0, ""),
        ([{"op": "remove", "path": "/metadata"}], 0, ""),
        ([{"op": "replace", "path": "/metadata/name", "value": "z"}], 0, ""),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_patch_bombs_change_nothing(cluster: Cluster, patch: Any, status: int, message: str) -> None:
    made = cluster.post(WIDGETS, widget("a")).ok()
    answer = cluster.patch(f"{WIDGETS}/a", patch, "json")
    assert answer.status in (400, 413, 422), answer.body
    assert not status or answer.status == status, answer.body
    assert answer["message"].startswith(message)
    assert cluster.get(f"{WIDGETS}/a").ok() == made


@pytest.mark.parametrize("kind", ["json", "merge", "strategic-merge", "apply"])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 10_000, b"5", b'"x"'], ids=lambda body: repr(body)[:8])
def test_garbage_patches_change_nothing(cluster: Cluster, kind: str, body: bytes) -> None:
    made = cluster.post(CONFIG_MAPS, config_map("a")).ok()
    query = "?fieldManager=m" if kind == "apply" else ""
    refused(cluster.patch(f"{CONFIG_MAPS}/a{query}", body, kind), 400, "BadRequest", "")
    assert cluster.get(f"{CONFIG_MAPS}/a").ok() == made


def test_apply_with_duplicate_list_keys_is_refused(cluster: Cluster) -> None:
    twice = widget("a") | {"spec": {"size": 1, "parts": [{"name": "x"}, {"name": "x"}]}}
    answer = cluster.patch(f"{WIDGETS}/a?fieldManager=m", twice, "apply")
    said = (
        "failed to create typed patch object (/a; example.com/v1, Kind=Widget): .spec.parts: duplicate entries for key"
    )
    refused(answer, 400, "BadRequest", said + ' [name="x"]')
    refused(
        cluster.patch(f"{WIDGETS}/a", widget("a"), "apply"), 422, "Invalid", 'PatchOptions.meta.k8s.io "" is invalid'
    )


@pytest.mark.parametrize(("entries", "status"), [(1_000_000, 400), (1_100_000, 413)])
def test_a_million_managed_fields_are_refused(cluster: Cluster, entries: int, status: int) -> None:
    fields = b",".join([b"{}"] * entries)
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","managedFields":[%b]}}' % fields
    answer = cluster.post("/api/v1/namespaces/default/configmaps", body)
    assert answer.status == status
    assert answer["kind"] == "Status"
    assert cluster.get("/api/v1/namespaces/default/configmaps/m").status == 404


def test_garbage_in_managed_fields_is_dropped_or_refused(cluster: Cluster) -> None:
    for entry in (
        {},
        {"manager": "a", "operation": "Frob", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"k:{": {}}},
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "nope/v9",
            "fieldsType": "x",
            "fieldsV1": {"": {}, "v:[": 5},
        },
    ):
        for path, obj in ((CONFIG_MAPS, config_map("a", {"k": "v"})), (WIDGETS, widget("a"))):
            obj["metadata"]["managedFields"] = [entry]
            answer = cluster.post(f"{path}?dryRun=All", obj)
            assert answer.status in (201, 400, 422), answer.body
            if answer.status == 201:
                assert all(each["manager"] != "a" for each in answer["metadata"]["managedFields"])


def definition(schema: object) -> dict[str, Any]:
    return widget_definition(schema={"openAPIV3Schema": schema})


def string(**more: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", **more}}}


@pytest.mark.parametrize(
    "schema",
    [
        {}, 5, "x", {"$ref": "#"}, {"type": "frob"}, {"type": "object", "properties": []}, string(pattern="("),
        string(pattern="(?=a)b"), string(pattern="(a)\\1"), string(pattern="a{1000}{1000}"),
        string(enum="x"), string(default=5),
        string(maxLength=2**63), {"type": "object", "required": "x"}, {"type": "object", "allOf": [5]},
        string(minLength="x"),
        {"type": "object", "properties": {"a": {"type": "array", "items": []}}},
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {}}}},
        {"type": "object", "definitions": {"a": {"$ref": "#/definitions/a"}}},
        {"type": "object", "properties": {"a": {"items": {"properties": 5}}}},
        {"type": "object", "additionalProperties": 5},
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_invalid_schemas_are_refused(cluster: Cluster, schema: object) -> None:
    crd = definition(schema)
    crd["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    crd["metadata"]["name"] = "gadgets.example.com"
    answer = cluster.post(DEFINITIONS, crd)
    assert answer.status in (400, 422), answer.body
    assert answer["reason"] in ("BadRequest", "Invalid")
    assert cluster.get(f"{DEFINITIONS}/gadgets.example.com").status == 404


def test_schemas_too_deep_are_refused_and_wide_ones_served(cluster: Cluster) -> None:
    for depth, most in ((110, 422), (500, 400)):
        text = json.dumps(definition("HERE")).encode()
        deep = b'{"type":"object","properties":{"a":' * depth + b'{"type":"string"}' + b"}}" * depth
        answer = cluster.post(f"{DEFINITIONS}?dryRun=All", text.replace(b'"HERE"', deep))
        assert (answer.status, answer["kind"]) == (most, "Status"), answer.body
    wide = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(20_000)}}
    crd = definition(wide)
    crd["metadata"]["name"], crd["spec"]["names"] = "gadgets.example.com", {"kind": "Gadget", "plural": "gadgets"}
    cluster.post(DEFINITIONS, crd).ok()
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "p7": "x", "q": 1}
    assert "q" not in cluster.post(WIDGETS.replace("widgets", "gadgets"), gadget).ok()


def test_evil_patterns_take_no_time(cluster: Cluster) -> None:
    """Patterns that a backtracking matcher would try for ages."""
    crd = definition(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "pattern": "^(a+)+$"},
                "b": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
            },
        }
    )
    crd["metadata"]["name"], crd["spec"]["names"] = "gadgets.example.com", {"kind": "Gadget", "plural": "gadgets"}
    cluster.post(DEFINITIONS, crd).ok()
    for field in ("a", "b"):
        gadget = {
            "apiVersion": "example.com/v1",
            "kind": "Gadget",
            "metadata": {"name": "a"},
            field: "a" * 50_000 + "!",
        }
        answer = cluster.post(WIDGETS.replace("widgets", "gadgets"), gadget)
        refused(answer, 422, "Invalid", f'Gadget.example.com "a" is invalid: {field}: Invalid value: "aaa')
