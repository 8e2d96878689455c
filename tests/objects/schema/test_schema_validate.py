"""Validation: message and reason of every rule, as in kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects.errors import Cause
from shoal.objects.schema import compile_schema as compiled
from tests.objects.schema.samples import object_with, resource

AB = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
INVALID, TYPE, REQUIRED, NOT_SUPPORTED, DUPLICATE, LONG, MANY = (
    f"FieldValue{name}"
    for name in ("Invalid", "TypeInvalid", "Required", "NotSupported", "Duplicate", "TooLong", "TooMany")
)


def error_messages(field: dict[str, Any], value: Any, old: Any = None) -> list[tuple[str, str]]:
    causes = compiled(resource(field)).validate(object_with(value), old and object_with(old["was"]))
    return [(cause.reason, cause.message) for cause in causes]


def is_of_type(expected: str, actual: str) -> tuple[str, str]:
    return TYPE, f'spec.x: Invalid value: "{actual}": spec.x in body must be of type {expected}: "{actual}"'


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ({"type": "integer"}, "s", is_of_type("integer", "string")),
        ({"type": "integer"}, True, is_of_type("integer", "boolean")),
        ({"type": "integer"}, None, is_of_type("integer", "null")),
        ({"type": "integer", "format": "int32"}, True, is_of_type("int32", "")),
        ({"type": "string"}, 1, is_of_type("string", "integer")),
        ({"type": "string"}, 1.5, is_of_type("string", "number")),
        ({"type": "string", "format": "date"}, 1, is_of_type("date", "int64")),
        ({"type": "boolean"}, [], is_of_type("boolean", "array")),
        ({"type": "array", "items": {"type": "string"}}, {}, is_of_type("array", "object")),
        ({"type": "object"}, "s", is_of_type("object", "string")),
        ({"x-kubernetes-int-or-string": True}, {}, is_of_type("integer,string", "object")),
        ({"x-kubernetes-int-or-string": True}, 2**63, is_of_type("integer,string", "number")),
        ({"type": "string", "format": "date-time"}, "yesterday", is_of_type("date-time", "yesterday")),
        ({"type": "string", "format": "ipv4"}, "1.2.3", is_of_type("ipv4", "1.2.3")),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            (NOT_SUPPORTED, 'spec.x: Unsupported value: "c": supported values: "a", "b"'),
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            (NOT_SUPPORTED, 'spec.x: Unsupported value: 3: supported values: "1", "2"'),
        ),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            None,
            (NOT_SUPPORTED, 'spec.x: Unsupported value: null: supported values: "a"'),
        ),
        ({"type": "string", "maxLength": 5}, "abcdef", (LONG, "spec.x: Too long: may not be more than 5 bytes")),
        ({"type": "string", "maxLength": 1}, "éé", (LONG, "spec.x: Too long: may not be more than 1 byte")),
        (
            {"type": "string", "minLength": 2},
            "a",
            (INVALID, 'spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long'),
        ),
        (
            {"type": "string", "pattern": "^x$"},
            "y",
            (INVALID, "spec.x: Invalid value: \"y\": spec.x in body should match '^x$'"),
        ),
        (
            {"type": "integer", "maximum": 10},
            11,
            (INVALID, "spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10"),
        ),
        (
            {"type": "integer", "maximum": 10, "exclusiveMaximum": True},
            10,
            (INVALID, "spec.x: Invalid value: 10: spec.x in body should be less than 10"),
        ),
        (
            {"type": "number", "minimum": 0.5},
            0.25,
            (INVALID, "spec.x: Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5"),
        ),
        (
            {"type": "integer", "minimum": 2, "exclusiveMinimum": True},
            2,
            (INVALID, "spec.x: Invalid value: 2: spec.x in body should be greater than 2"),
        ),
        (
            {"type": "integer", "multipleOf": 5},
            7,
            (INVALID, "spec.x: Invalid value: 7: spec.x in body should be a multiple of 5"),
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
            [1, 2],
            (MANY, "spec.x: Too many: 2: must have at most 1 item"),
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            [1],
            (INVALID, "spec.x: Invalid value: 1: spec.x in body should have at least 2 items"),
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            [1, 1],
            (INVALID, 'spec.x: Invalid value: "": spec.x in body shouldn\'t contain duplicates'),
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            {},
            (INVALID, "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"),
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
            {"a": "", "b": ""},
            (MANY, "spec.x: Too many: 2: must have at most 1 item"),
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"k": 1},
            (TYPE, 'spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer"'),
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"k": 1},
            (INVALID, 'spec.x: Invalid value: "k": spec.x.k in body is a forbidden property'),
        ),
        (AB | {"required": ["a"]}, {}, (REQUIRED, "spec.x.a: Required value")),
        (
            {"type": "array", "items": AB},
            [{}, {"b": "s"}],
            (TYPE, 'spec.x[1].b: Invalid value: "string": spec.x[1].b in body must be of type integer: "string"'),
        ),
        (
            AB | {"not": {"required": ["a"]}},
            {"a": ""},
            (INVALID, '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'),
        ),
        (
            AB | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "", "b": 1},
            (
                INVALID,
                (
                    '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf).'
                    " Found 2 valid alternatives"
                ),
            ),
        ),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            (INVALID, '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'),
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            ["a", "b", "a", "a"],
            (DUPLICATE, 'spec.x[2]: Duplicate value: "a"'),
        ),
    ],
)
def test_one_problem(field: dict[str, Any], value: Any, problem: tuple[str, str]) -> None:
    assert error_messages(field, value) == [problem]


@pytest.mark.parametrize(
    ("field", "value", "problems"),
    [
        pytest.param(
            AB | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                (INVALID, '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)'),
                (REQUIRED, "spec.x.a: Required value"),
            ],
            id="anyOf names the closest",
        ),
        pytest.param(
            AB | {"oneOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 5}}, "required": ["b"]}]},
            {"b": 1},
            [
                (
                    INVALID,
                    (
                        '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf).'
                        " Found none valid"
                    ),
                ),
                (INVALID, "spec.x.b: Invalid value: 1: spec.x.b in body should be greater than or equal to 5"),
            ],
            id="oneOf names the closest",
        ),
        pytest.param(
            AB | {"allOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": ""},
            [
                (REQUIRED, "spec.x.b: Required value"),
                (INVALID, '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)'),
            ],
            id="allOf",
        ),
        pytest.param(
            {"type": "string", "allOf": [{"maxLength": 1}, {"pattern": "^z"}]},
            "abc",
            [
                (LONG, "spec.x: Too long: may not be more than 1 byte"),
                (INVALID, "spec.x: Invalid value: \"abc\": spec.x in body should match '^z'"),
                (INVALID, '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated'),
            ],
            id="allOf, none",
        ),
        pytest.param(
            {"type": "integer", "enum": [1]},
            "s",
            [is_of_type("integer", "string"), (NOT_SUPPORTED, 'spec.x: Unsupported value: "s": supported values: "1"')],
            id="a wrong type is no reason to stop",
        ),
    ],
)
def test_several_problems(field: dict[str, Any], value: Any, problems: list[tuple[str, str]]) -> None:
    assert error_messages(field, value) == problems


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "integer"}, 2**53 + 1),
        ({"type": "integer", "multipleOf": 5}, -10),
        ({"type": "number", "multipleOf": 0.1}, 0.3),
        ({"type": "number"}, 3),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "nullable": True, "allOf": [{"minLength": 3}], "not": {"enum": ["q"]}}, None),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "10%"),
        ({"x-kubernetes-int-or-string": True}, 5),
        ({"type": "string", "format": "no-such-format"}, "anything"),
        ({"type": "string", "format": "date-time"}, "2024-02-29t00:00:00z"),
        ({"type": "string", "pattern": "(?i)^ABC$"}, "abc"),
        ({"type": "string", "pattern": "^[[:alpha:]]+$"}, "abc"),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}, [1, 2]),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"a": [1, None]}),
    ],
)
def test_valid(field: dict[str, Any], value: Any) -> None:
    assert error_messages(field, value) == []


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
    },
}


def test_keyed_lists() -> None:
    assert error_messages(KEYED, [{"name": "a"}, {"name": "b"}]) == []
    assert error_messages(KEYED, [{"name": "a"}, {"name": "a", "v": 1}]) == [
        (DUPLICATE, 'spec.x[1]: Duplicate value: {"name":"a"}')
    ]
    two = KEYED | {"x-kubernetes-list-map-keys": ["v", "name"]}
    item = {"v": 1, "name": "a"}
    assert error_messages(two, [item, item]) == [(DUPLICATE, 'spec.x[1]: Duplicate value: {"name":"a","v":1}')]
    assert error_messages({"type": "object", "additionalProperties": KEYED}, {"k": [{"name": "a"}, {"name": "a"}]}) == [
        (DUPLICATE, 'spec.x[k][1]: Duplicate value: {"name":"a"}')
    ]


def test_an_embedded_resource_names_its_type() -> None:
    field = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert error_messages(field, {"kind": ""}) == [
        (REQUIRED, "spec.x.apiVersion: Required value"),
        (INVALID, 'spec.x.kind: Invalid value: "": must not be empty'),
    ]
    assert error_messages(field, {"apiVersion": "v1", "kind": "Pod"}) == []


@pytest.mark.parametrize(
    ("field", "new", "old", "allowed"),
    [
        pytest.param({"type": "string", "maxLength": 1}, "abc", "abc", True, id="unchanged"),
        pytest.param({"type": "string", "maxLength": 1}, "abcd", "abc", False, id="changed"),
        pytest.param({"type": "integer"}, True, 1, False, id="true is not 1"),
        pytest.param(AB | {"required": ["q"]}, {"a": "x"}, {"a": "y"}, False, id="beside a change"),
        pytest.param(
            KEYED,
            [{"name": "a", "v": "bad"}],
            [{"name": "b"}, {"name": "a", "v": "bad"}],
            True,
            id="moved in a keyed list",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "integer"}}, ["a", 1], ["a"], False, id="in a changed atomic list"
        ),
        pytest.param(
            KEYED, [{"name": "a"}, {"name": "a"}], [{"name": "z"}, {"name": "z"}], True, id="had duplicates before"
        ),
    ],
)
def test_ratcheting(field: dict[str, Any], new: Any, old: Any, allowed: bool) -> None:
    assert (error_messages(field, new, {"was": old}) == []) is allowed


def test_status_alone_is_validated_below_status() -> None:
    schema = compiled({"type": "object", "required": ["spec"], "properties": {"status": AB}})
    assert schema.validate_status({"status": {"b": "s"}}) == [
        Cause(TYPE, 'status.b: Invalid value: "string": b in body must be of type integer: "string"', "status.b")
    ]
    assert schema.validate_status({}) == []


def test_rules_are_announced() -> None:
    assert compiled(resource({"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]})).has_rules
    assert not compiled(resource({"type": "string"})).has_rules
