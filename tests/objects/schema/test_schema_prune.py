"""Pruning: kept fields, dropped fields, and the paths of unknown fields."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects.schema import compile_schema as compiled
from tests.objects.schema.samples import object_with, resource

NAMED = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
KEPT = "x-kubernetes-preserve-unknown-fields"


@pytest.mark.parametrize(
    ("field", "given", "left", "unknown"),
    [
        pytest.param(NAMED, {"a": "x", "c": 1}, {"a": "x"}, ["spec.x.c"], id="unknown field"),
        pytest.param(NAMED, {"c": {"d": 1}}, {}, ["spec.x.c"], id="whole branch, named once"),
        pytest.param({"type": "object"}, {"a": 1, "b": 2}, {}, ["spec.x.a", "spec.x.b"], id="object without fields"),
        pytest.param(
            {"type": "array", "items": NAMED}, [{"c": 1}, {"a": "x"}], [{}, {"a": "x"}], ["spec.x[0].c"], id="list"
        ),
        pytest.param(
            {"type": "array", "items": {"type": "array", "items": NAMED}},
            [[{"c": 1}]],
            [[{}]],
            ["spec.x[0][0].c"],
            id="list of lists",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": NAMED}, {"k": {"c": 1}}, {"k": {}}, ["spec.x.k.c"], id="map"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"k": {"c": 1}, "s": 1},
            {"k": {}, "s": 1},
            ["spec.x.k.c"],
            id="map of anything keeps scalars only",
        ),
        pytest.param({KEPT: True}, {"any": {"thing": [1]}}, {"any": {"thing": [1]}}, [], id="preserved"),
        pytest.param(
            {"type": "object", KEPT: True, "properties": {"n": NAMED}},
            {"z": 1, "n": {"c": 1}},
            {"z": 1, "n": {}},
            ["spec.x.n.c"],
            id="preserved, with a named field",
        ),
        pytest.param(
            {"type": "array", KEPT: True, "items": {"type": "object", "properties": {"n": NAMED}}},
            [{"z": 1, "n": {"c": 1}}],
            [{"z": 1, "n": {}}],
            ["spec.x[0].n.c"],
            id="preserving list keeps its items' fields",
        ),
    ],
)
def test_unknown_fields_go(field: dict[str, Any], given: Any, left: Any, unknown: list[str]) -> None:
    obj = object_with(given)
    assert compiled(resource(field)).prune_unknown(obj) == [f'unknown field "{path}"' for path in unknown]
    assert obj == object_with(left)


@pytest.mark.parametrize(
    ("field", "given", "left"),
    [
        pytest.param(NAMED, {"a": None, "b": 1}, {"b": 1}, id="null goes"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}},
            {"a": None},
            {"a": None},
            id="nullable",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string", "default": "d"}}},
            {"a": None},
            {"a": None},
            id="a default comes",
        ),
        pytest.param({"type": "object", "additionalProperties": {"type": "string"}}, {"k": None}, {}, id="in a map"),
        pytest.param({"type": "array", "items": {"type": "string"}}, [None], [None], id="in a list it stays"),
        pytest.param(
            {"type": "object", KEPT: True, "properties": {"a": {"type": "string"}}},
            {"a": None, "z": None},
            {"z": None},
            id="preserved",
        ),
    ],
)
def test_nulls(field: dict[str, Any], given: Any, left: Any) -> None:
    obj = object_with(given)
    compiled(resource(field)).prune(obj)
    assert obj == object_with(left)
    untouched = object_with(given)
    compiled(resource(field)).prune(untouched, may_have_nulls=False)
    assert untouched == object_with(given)


def test_the_root_keeps_its_type_and_known_metadata() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "W",
        "metadata": {
            "name": "w",
            "nome": "x",
            "labels": {"a": "b"},
            "creationTimestamp": None,
            "ownerReferences": [{"name": "o", "bogus": 1}],
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:x": {}}}}],
        },
        "spec": {},
    }
    assert compiled({"type": "object"}).prune_unknown(obj) == [
        'unknown field "metadata.nome"',
        'unknown field "metadata.ownerReferences[0].bogus"',
        'unknown field "spec"',
    ]
    assert obj == {
        "apiVersion": "v1",
        "kind": "W",
        "metadata": {
            "name": "w",
            "labels": {"a": "b"},
            "ownerReferences": [{"name": "o"}],
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:x": {}}}}],
        },
    }


def test_an_embedded_resource_is_pruned_as_a_root() -> None:
    field = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": NAMED}}
    obj = object_with({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "q": 1}, "spec": {"c": 1}, "z": 1})
    assert compiled(resource(field)).prune_unknown(obj) == [
        'unknown field "spec.x.metadata.q"',
        'unknown field "spec.x.spec.c"',
        'unknown field "spec.x.z"',
    ]
    assert obj == object_with({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}})
