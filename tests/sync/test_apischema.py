"""From OpenAPI documents and CRDs to one schema without references."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.apiextensions.openapi_import import (
    SchemaError,
    schema_digest,
    schema_of,
    schemas_of,
    strip_descriptions,
)
from shoal.kinds.builtin_schemas import schema_closure, schema_name
from shoal.objects.schema import compile_schema as compiled

Object = dict[str, Any]

_V3, _V2 = "#/components/schemas/", "#/definitions/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
KEEPING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def read(prefix: str = _V3, **schemas: Object) -> Object:
    kind = {"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]}
    schemas["Widget"] = {**schemas["Widget"], **kind}
    document = {"components": {"schemas": schemas}} if prefix == _V3 else {"definitions": schemas}
    return schema_of(schemas_of(document), "example.com", "v1", "Widget")


@pytest.mark.parametrize("ref", [_V3, _V2])
def test_references_are_followed_and_descriptions_dropped(ref: str) -> None:
    widget = {
        "type": "object",
        "description": "gone",
        "properties": {
            "metadata": {"allOf": [{"$ref": f"{ref}{_META}ObjectMeta"}], "default": {}},
            "description": {"type": "string", "description": "a property of that name stays"},
            "spec": {"allOf": [{"$ref": ref + "Spec"}], "description": "gone", "default": {}},
            "template": {"$ref": f"{ref}{_META}ObjectMeta"},
        },
    }
    spec = {
        "type": "object",
        "properties": {
            "size": {"$ref": ref + "io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "port": {"type": "string", "format": "int-or-string"},
            "parts": {
                "type": "array",
                "items": {"$ref": ref + "Part"},
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
            },
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "free": {"type": "object"},
            "any": {"description": "whatever"},
        },
    }
    part = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert read(ref, Widget=widget, Spec=spec, Part=part) == {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "description": {"type": "string"},
            "spec": {
                "type": "object",
                "properties": {
                    "size": EITHER,
                    "port": EITHER,
                    "parts": {
                        "type": "array",
                        "items": {**part, "required": ["name"]},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "free": KEEPING,
                    "any": {"x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "template": KEEPING,
        },
    }


def test_a_schema_that_refers_to_itself_ends_where_it_begins_again() -> None:
    tree = {"type": "object", "properties": {"name": {"type": "string"}, "left": {"$ref": _V3 + "Tree"}}}
    tree["properties"]["others"] = {"type": "array", "items": {"$ref": _V3 + "Tree"}}  # type: ignore[index]
    widget = {"type": "object", "properties": {"tree": {"$ref": _V3 + "Tree"}, "next": {"$ref": _V3 + "Widget"}}}
    found = read(Widget=widget, Tree=tree)
    assert found["properties"]["next"] == KEEPING
    assert found["properties"]["tree"]["properties"] == {
        "name": {"type": "string"},
        "left": KEEPING,
        "others": {"type": "array", "items": KEEPING},
    }
    loop = {"type": "array", "items": {"$ref": _V3 + "Loop"}}
    found = read(Widget={"type": "object", "properties": {"loop": {"$ref": _V3 + "Loop"}}}, Loop=loop)
    assert found["properties"]["loop"]["items"] == {"x-kubernetes-preserve-unknown-fields": True}


def test_two_that_refer_to_each_other() -> None:
    one = {"type": "object", "properties": {"two": {"$ref": _V3 + "Two"}}}
    two = {"type": "object", "properties": {"one": {"$ref": _V3 + "One"}}}
    found = read(Widget={"type": "object", "properties": {"one": {"$ref": _V3 + "One"}}}, One=one, Two=two)
    assert found["properties"]["one"]["properties"]["two"]["properties"]["one"] == KEEPING


def test_the_most_recursive_kind_of_kubernetes() -> None:
    group, kind = "apiextensions.k8s.io", "CustomResourceDefinition"
    found = schema_of(schema_closure([schema_name(group, "v1", kind)]), group, "v1", kind)
    crd: Object = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"type": "string"}}}}}]}}
    before = str(crd)
    compiled(found).prune(crd)
    assert str(crd) == before


def test_schemas_that_cannot_be_told() -> None:
    with pytest.raises(SchemaError, match="has no Gadget"):
        schema_of({}, "example.com", "v1", "Gadget")
    lost = {"type": "object", "properties": {"next": {"$ref": _V3 + "Lost"}}}
    with pytest.raises(SchemaError, match="lacks the referenced schema Lost"):
        read(Widget=lost)


def test_schemas_that_a_hostile_server_would_send() -> None:
    """References that double at every step, and a depth that no stack takes."""
    doubling: dict[str, Any] = {
        f"S{n}": {"type": "object", "properties": {"a": {"$ref": f"{_V3}S{n + 1}"}, "b": {"$ref": f"{_V3}S{n + 1}"}}}
        for n in range(40)
    }
    with pytest.raises(SchemaError, match="more than 100,000 nodes"):
        read(Widget={"type": "object", "properties": {"a": {"$ref": _V3 + "S0"}}}, S40={"type": "string"}, **doubling)
    deep: Object = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(SchemaError, match="nested too deeply"):
        read(Widget=deep)
    with pytest.raises(SchemaError, match="nested too deeply"):
        strip_descriptions(deep)
    with pytest.raises(SchemaError, match="cannot be read"):
        strip_descriptions({"properties": []})
    with pytest.raises(SchemaError, match="cannot be read"):
        strip_descriptions({"properties": {"a": {"allOf": 5}}})


def test_a_crds_own_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "description": "gone",
        "properties": {"free": {"type": "object", "description": "gone"}, "spec": {"type": "object", "default": {}}},
    }
    assert strip_descriptions(schema) == {
        "type": "object",
        "properties": {"free": {"type": "object"}, "spec": {"type": "object", "default": {}}},
    }
    assert schema_digest({"a": 1, "b": 2}) == schema_digest({"b": 2, "a": 1})
