"""/openapi/v2: the Swagger document of everything served, as JSON and as the protobuf kubectl reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.apiserver.endpoints.openapi.gnostic import MEDIA_TYPE, encode
from shoal.apiserver.endpoints.openapi.v2_document import build_v2_document
from tests.serving import Cluster
from tests.steps import result

Object = dict[str, Any]
OLD = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
WIDGET = "com.example.v1.Widget"


@pytest.fixture
def swagger(widgets: Cluster) -> Object:
    made: Object = widgets.get("/openapi/v2").ok()
    return made


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for sub in value.values():
            yield from _references(sub)
    elif isinstance(value, list):
        for sub in value:
            yield from _references(sub)


def test_all_in_one(swagger: Object) -> None:
    assert (swagger["swagger"], swagger["info"]["title"]) == ("2.0", "Kubernetes")
    definitions = swagger["definitions"]
    assert {WIDGET, "io.k8s.api.core.v1.ConfigMap", "io.k8s.api.rbac.v1.Role"} <= set(definitions)
    assert {ref.removeprefix("#/definitions/") for ref in _references(swagger)} <= set(definitions)
    metadata = definitions[WIDGET]["properties"]["metadata"]
    assert metadata["$ref"] == "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    options = definitions["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"]
    assert {"group": "example.com", "version": "v1", "kind": "DeleteOptions"} in options
    assert {"group": "", "version": "v1", "kind": "DeleteOptions"} in options


def test_operations(swagger: Object) -> None:
    patch = swagger["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert patch["parameters"][0]["in"] == "body"
    assert {"fieldManager", "fieldValidation", "dryRun", "force"} <= {p["name"] for p in patch["parameters"]}
    assert patch["responses"]["200"]["schema"] == {"$ref": f"#/definitions/{WIDGET}"}
    assert patch["produces"] == ["application/json"]


def test_what_v2_cannot_say() -> None:
    schema = {
        "type": "object",
        "required": ["maybe", "sure"],
        "properties": {
            "maybe": {"type": "object", "nullable": True, "properties": {"x": {"type": "string"}}},
            "sure": {"type": "integer", "oneOf": [{"minimum": 1}], "default": 3},
            "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"y": {}}},
        },
    }
    document = {"info": {}, "paths": {}, "components": {"schemas": {"a.Thing": schema}}}
    assert result(build_v2_document([document]))["definitions"]["a.Thing"] == {
        "type": "object",
        "required": ["sure"],
        "properties": {
            "maybe": {},
            "sure": {"type": "integer", "default": 3},
            "either": {"x-kubernetes-int-or-string": True},
            "open": {"x-kubernetes-preserve-unknown-fields": True},
        },
    }


def test_known_already(widgets: Cluster) -> None:
    first = widgets.get("/openapi/v2")
    assert widgets.get("/openapi/v2", If_None_Match=first.headers["etag"]).status == 304
    widgets.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com").ok()
    widgets.eventually(lambda: WIDGET not in widgets.get("/openapi/v2").ok()["definitions"])
    assert widgets.get("/openapi/v2", If_None_Match=first.headers["etag"]).status == 200


@pytest.mark.parametrize("accept", [MEDIA_TYPE, OLD, f"{OLD}, application/json"])
def test_protobuf(widgets: Cluster, swagger: Object, accept: str) -> None:
    answer = widgets.get("/openapi/v2", Accept=accept)
    assert (answer.status, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    document = _read(answer.body)
    assert document[1] == [b"2.0"]
    named = [_read(entry) for entry in _read(document[9][0])[1]]
    schemas = {entry[1][0].decode(): _read(entry[2][0]) for entry in named}
    assert list(schemas) == list(swagger["definitions"])
    extensions = [_read(extension) for extension in schemas[WIDGET][31]]
    texts = {extension[1][0].decode(): json.loads(_read(extension[2][0])[2][0]) for extension in extensions}
    assert texts["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert _read(schemas[WIDGET][22][0]) == {1: [b"object"]}


def test_numbers_and_flags() -> None:
    schema = {"type": "array", "items": {"type": "number", "minimum": 1.5}, "maxItems": 300, "uniqueItems": True}
    document = _read(result(encode({"definitions": {"a": schema}})))
    made = _read(_read(_read(document[9][0])[1][0])[2][0])
    assert (made[14], made[16]) == ([300], [1])
    assert _read(_read(made[23][0])[1][0])[9] == [b"\0\0\0\0\0\0\xf8?"]


def test_not_acceptable(widgets: Cluster) -> None:
    assert widgets.get("/openapi/v2", Accept="text/html").status == 406


def _read(data: bytes) -> dict[int, list[Any]]:
    """A protobuf message: its fields by number."""
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            found.setdefault(tag >> 3, []).append(varint())
            continue
        size = 8 if tag & 7 == 1 else varint()
        found.setdefault(tag >> 3, []).append(data[at : at + size])
        at += size
    return found
