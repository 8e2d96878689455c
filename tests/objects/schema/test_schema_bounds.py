"""Limits: no input makes schemas or validation explode. Built-in schemas with references work."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects.errors import BadRequest
from shoal.objects.schema import MAX_DEPTH, SchemaDefinitions, SchemaTooDeepError
from shoal.objects.schema import compile_schema as compiled
from shoal.objects.schema.patterns import is_valid_pattern, matches
from shoal.objects.schema.validate import MAX_CAUSES
from tests.objects.schema.samples import object_with, resource


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_a_deep_schema_is_refused_and_a_less_deep_one_works() -> None:
    with pytest.raises(SchemaTooDeepError, match="nested deeper than 100 levels"):
        compiled(nested(MAX_DEPTH + 1))
    with pytest.raises(SchemaTooDeepError):
        compiled(nested(100_000))
    schema = compiled(nested(MAX_DEPTH))
    obj: Any = 1
    for _ in range(MAX_DEPTH - 1):
        obj = {"a": obj}
    schema.prune(obj)
    schema.default(obj)
    assert len(schema.validate(obj)) == 1


def test_nested_alternatives_cost_no_more_than_their_size() -> None:
    field: dict[str, Any] = {"maxLength": 1}
    for _ in range(10):
        field = {"anyOf": [field, field]}
    assert compiled(resource({"type": "string"} | field)).validate(object_with("ab"))


def test_a_pattern_cannot_be_made_slow() -> None:
    assert not matches("^(a+)+$", "a" * 5000 + "b")
    assert not is_valid_pattern("(a{1000}){1000}")
    assert not is_valid_pattern("(?=a)b")
    assert not matches("(", "(")


def test_a_large_bad_object_gets_a_bounded_answer() -> None:
    schema = compiled(resource({"type": "array", "items": {"type": "string"}}))
    assert len(schema.validate(object_with(list(range(100_000))))) == MAX_CAUSES


def test_equal_schemas_are_compiled_once() -> None:
    first = compiled({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})
    assert compiled({"properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "type": "object"}) is first
    assert compiled({"type": "object"}) is not first


META = {"type": "object", "properties": {"name": {"type": "string"}}}
TREE = {
    "type": "object",
    "properties": {
        "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}, "description": "d"},
        "children": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/Tree"}], "default": {}}},
        "count": {"type": "integer", "format": "int32"},
        "name": {"type": "string", "default": ""},
        "port": {"type": "string", "default": "TCP"},
        "raw": {"type": "object"},
        "data": {"type": "string", "format": "byte"},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["p"],
            "items": {"type": "object", "properties": {"p": {"type": "integer"}}},
        },
    },
}


def test_builtin_schemas_resolve_lazily_and_may_be_recursive() -> None:
    asked: list[str] = []

    def resolve(name: str) -> dict[str, Any]:
        asked.append(name)
        return {"Tree": TREE, "Meta": META}[name]

    definitions = SchemaDefinitions(resolve)
    assert asked == []
    schema = compiled({"$ref": "#/components/schemas/Tree"}, definitions)
    obj: dict[str, Any] = {
        "children": [{"children": [{"bogus": 1, "metadata": {"name": "n", "x": 1}}]}],
        "raw": {"k": 1},
    }
    assert schema.prune_unknown(obj) == [
        'unknown field "children[0].children[0].bogus"',
        'unknown field "children[0].children[0].metadata.x"',
    ]
    schema.default(obj)
    assert obj == {
        "port": "TCP",
        "raw": {"k": 1},
        "children": [{"port": "TCP", "children": [{"port": "TCP", "metadata": {"name": "n"}}]}],
    }
    assert schema.validate(obj) == []
    obj["children"][0]["count"] = 2**31
    assert [cause.message for cause in schema.validate(obj)] == [
        '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in children[0].count'
    ]
    assert sorted(set(asked)) == sorted(asked) == ["Meta", "Tree"]


def test_builtins_accept_empty_bytes_and_equal_list_items() -> None:
    schema = compiled(
        {"$ref": "#/components/schemas/Tree"}, SchemaDefinitions({"Tree": TREE, "Meta": META}.__getitem__)
    )
    assert schema.validate({"data": "", "ports": [{"p": 1}, {"p": 1}]}) == []
    assert len(schema.validate({"data": "!"})) == 1


def test_a_bottomless_object_is_refused() -> None:
    schema = compiled(
        {"$ref": "#/components/schemas/Tree"}, SchemaDefinitions({"Tree": TREE, "Meta": META}.__getitem__)
    )
    obj: dict[str, Any] = {}
    for _ in range(5000):
        obj = {"children": [obj]}
    for step in (schema.prune, schema.default):
        with pytest.raises(BadRequest, match="nested too deeply"):
            step(obj)
