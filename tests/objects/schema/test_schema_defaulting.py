"""Defaulting: absent keys and forbidden nulls, at every depth, never shared between objects."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects.schema import compile_schema as compiled
from tests.objects.schema.samples import object_with, resource

NUMBERED = {"type": "object", "properties": {"z": {"type": "integer", "default": 3}}}
FIELD = {
    "type": "object",
    "default": {},
    "properties": {
        "a": {"type": "string", "default": "A"},
        "list": {"type": "array", "items": NUMBERED},
        "map": {"type": "object", "additionalProperties": NUMBERED},
        "nullable": {"type": "string", "nullable": True, "default": "N"},
        "strings": {"type": "array", "items": {"type": "string", "default": "I"}},
        "words": {"type": "object", "additionalProperties": {"type": "string", "default": "W"}},
        "plain": {"type": "object", "properties": {"b": {"type": "string"}}},
    },
}
ALWAYS = {"a": "A", "nullable": "N"}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        pytest.param({}, ALWAYS, id="absent"),
        pytest.param(None, ALWAYS, id="null where null is not allowed"),
        pytest.param({"a": "x"}, ALWAYS | {"a": "x"}, id="given"),
        pytest.param({"a": None}, ALWAYS, id="inner null"),
        pytest.param({"nullable": None}, {"a": "A", "nullable": None}, id="null that is allowed"),
        pytest.param({"list": [{}, {"z": 1}, None]}, ALWAYS | {"list": [{"z": 3}, {"z": 1}, None]}, id="list"),
        pytest.param({"map": {"k": {}}}, ALWAYS | {"map": {"k": {"z": 3}}}, id="map"),
        pytest.param({"strings": [None, "s"]}, ALWAYS | {"strings": ["I", "s"]}, id="null item"),
        pytest.param({"words": {"k": None}}, ALWAYS | {"words": {"k": "W"}}, id="null map value"),
        pytest.param({"plain": {}}, ALWAYS | {"plain": {}}, id="nothing to fill"),
    ],
)
def test_defaults(given: Any, filled: Any) -> None:
    schema = compiled(resource(FIELD))
    obj = object_with(given)
    schema.prune(obj)
    schema.default(obj)
    assert obj == object_with(filled)


def test_a_default_is_copied_and_filled_itself() -> None:
    schema = compiled(
        resource(
            {"type": "object", "default": {"list": [{}]}, "properties": {"list": {"type": "array", "items": NUMBERED}}}
        )
    )
    first: dict[str, Any] = {"spec": {}}
    second: dict[str, Any] = {"spec": {}}
    schema.default(first)
    first["spec"]["x"]["list"].append("mine")
    schema.default(second)
    assert second == {"spec": {"x": {"list": [{"z": 3}]}}}


def test_an_absent_parent_without_default_stays_absent() -> None:
    obj: dict[str, Any] = {"kind": "W"}
    compiled(resource(FIELD)).default(obj)
    assert obj == {"kind": "W"}
