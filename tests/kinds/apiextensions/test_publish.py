"""The published OpenAPI v3 schema of a custom resource."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apiextensions.publish import definition_name, published_list_schema, published_schema

OBJECT_META = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}


def crd(schema: dict[str, Any] | None) -> dict[str, Any]:
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}, "selectableFields": [{"jsonPath": ".spec.size"}]}
    names = {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"}
    return {"spec": {"group": "example.com", "names": names, "versions": [version]}}


def test_a_schema_gets_what_every_resource_has() -> None:
    size = {"x-kubernetes-int-or-string": True, "default": 1, "x-kubernetes-validations": [{"rule": "self > 0"}]}
    given = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}
    out = published_schema(crd(given), "v1")
    assert out["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert out["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.size"}]
    assert out["properties"]["metadata"]["allOf"] == [OBJECT_META]
    assert out["properties"]["apiVersion"]["type"] == out["properties"]["kind"]["type"] == "string"
    assert out["properties"]["apiVersion"]["description"].startswith("APIVersion defines the versioned schema")
    published = out["properties"]["spec"]["properties"]["size"]
    assert published == size | {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert given == {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}


def test_int_or_string_with_other_alternatives() -> None:
    both = [{"type": "integer"}, {"type": "string"}]
    schema = {"type": "object", "properties": {"x": {"x-kubernetes-int-or-string": True, "anyOf": [{"maxLength": 3}]}}}
    out = published_schema(crd(schema), "v1")["properties"]["x"]
    assert out["allOf"] == [{"anyOf": both}]
    assert out["anyOf"] == [{"maxLength": 3}]


def test_embedded_resources_are_resources() -> None:
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": inner}}}
    out = published_schema(crd(schema), "v1")["properties"]["list"]["items"]
    assert out["required"] == ["kind", "apiVersion"]
    assert out["properties"].keys() == {"apiVersion", "kind", "metadata"}
    assert out["x-kubernetes-preserve-unknown-fields"] is True


def test_without_a_schema_anything_goes() -> None:
    out = published_schema(crd(None), "v1")
    assert out["type"] == "object"
    assert "properties" not in out


def test_lists() -> None:
    out = published_list_schema(crd({"type": "object"}), "v1")
    assert out["properties"]["items"]["items"] == {"$ref": "#/components/schemas/com.example.v1.Widget"}
    assert out["x-kubernetes-group-version-kind"][0]["kind"] == "WidgetList"
    assert definition_name("a.b.io", "v1", "K") == "io.b.a.v1.K"
