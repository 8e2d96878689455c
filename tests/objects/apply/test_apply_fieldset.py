"""Field sets: algebra, wire form and path notation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects.apply import fieldset
from shoal.objects.apply.fieldset import (
    decode,
    difference,
    intersection,
    leaves,
    path_strings,
    recursive_difference,
    union,
    union_all,
)

A: dict[str, Any] = {"f:a": {".": {}, "f:b": {}, "f:c": {}}}


@pytest.mark.parametrize(
    ("one", "two", "both", "less", "common"),
    [
        ({}, {"f:a": {}}, {"f:a": {}}, {}, {}),
        ({"f:a": {}}, {"f:a": {}}, {"f:a": {}}, {}, {"f:a": {}}),
        # a parent and its child are different members
        ({"f:a": {}}, {"f:a": {"f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}, {"f:a": {}}, {}),
        ({"f:a": {"f:b": {}}}, {"f:a": {}}, {"f:a": {".": {}, "f:b": {}}}, {"f:a": {"f:b": {}}}, {}),
        (A, {"f:a": {}}, A, {"f:a": {"f:b": {}, "f:c": {}}}, {"f:a": {}}),
        (A, {"f:a": {"f:b": {}, "f:c": {}}}, A, {"f:a": {}}, {"f:a": {"f:b": {}, "f:c": {}}}),
        (A, A, A, {}, A),
    ],
)
def test_algebra(one: Any, two: Any, both: Any, less: Any, common: Any) -> None:
    assert union(one, two) == both
    assert difference(one, two) == less
    assert intersection(one, two) == common


def test_without_removes_what_is_below_too() -> None:
    fields = {"f:spec": {"f:x": {}}, "f:status": {".": {}, "f:phase": {}, "f:conditions": {'k:{"type":"A"}': {}}}}
    assert recursive_difference(fields, {"f:status": {}}) == {"f:spec": {"f:x": {}}}
    assert recursive_difference(fields, {"f:status": {"f:conditions": {}}}) == {
        "f:spec": {"f:x": {}},
        "f:status": {".": {}, "f:phase": {}},
    }


def test_leaves() -> None:
    assert leaves(A) == {"f:a": {"f:b": {}, "f:c": {}}}


def test_paths_are_spelt_and_ordered_as_upstream_does() -> None:
    fields = {
        "f:spec": {
            "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}},
            "f:finalizers": {'v:"x"': {}, "v:8": {}, "v:true": {}},
            "f:list": {"i:0": {}},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {}},
            "f:replicas": {},
        }
    }
    assert list(path_strings(fields)) == [
        ".spec.replicas",
        '.spec.containers[name="a"]',
        '.spec.containers[name="a"].image',
        '.spec.finalizers[="x"]',
        ".spec.finalizers[=8]",
        ".spec.finalizers[=true]",
        ".spec.list[0]",
        '.spec.ports[port=80,protocol="TCP"]',
    ]


def test_strings_are_quoted_as_go_does() -> None:
    assert fieldset.go_quote('a"b\\c\n\x01é\u200b') == '"a\\"b\\\\c\\n\\x01é\\u200b"'


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (None, {}),
        ({}, {}),
        ({".": {}}, {}),
        ({"f:a": None}, {"f:a": {}}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {"z:future": {}}}, {"f:a": {}}),
        ({"z:future": {}, "f:a": {}}, {"f:a": {}}),
        ({'k:{ "b": 1, "a": "x" }': {}}, {'k:{"a":"x","b":1}': {}}),
        ({"v: 1.0": {}, "i:007": {}}, {"v:1": {}, "i:7": {}}),
    ],
)
def test_decode_brings_to_one_form(raw: Any, fields: Any) -> None:
    assert decode(raw) == fields


@pytest.mark.parametrize(
    "raw",
    [[], "f:a", 1, {"f:a": 1}, {"f:a": []}, {"f:a": {"f:b": "x"}}, {"x": {}}, {"": {}}, {"fa": {}}, {"k:1": {}},
     {"k:{": {}}, {"v:": {}}, {"i:x": {}}],
)  # fmt: skip
def test_decode_refuses_what_is_no_field_set(raw: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(raw)


def test_wire_order_is_by_value_not_by_text() -> None:
    raw: dict[str, Any] = {
        "f:b": {},
        "f:a": {},
        ".": {},
        'k:{"port":443}': {},
        'k:{"port":80}': {},
        'v:"a"': {},
        "v:10": {},
        "v:9": {},
    }
    assert list(decode({"f:x": raw})["f:x"]) == [
        ".", "f:a", "f:b", 'k:{"port":80}', 'k:{"port":443}', "v:9", "v:10", 'v:"a"',
    ]  # fmt: skip


ELEMENTS = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"name":"y"}', "v:1", "v:10", 'v:"s"', "i:0"])
PATHS = st.lists(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=12).map(frozenset)


def field_set_of(members: frozenset[tuple[str, ...]]) -> fieldset.FieldSet:
    sets = []
    for path in members:
        node: fieldset.FieldSet = {}
        for element in reversed(path):
            node = {element: node}
        sets.append(node)
    return union_all(sets)


def members_of(fields: fieldset.FieldSet, prefix: tuple[str, ...] = ()) -> frozenset[tuple[str, ...]]:
    out: set[tuple[str, ...]] = set()
    for key, node in fields.items():
        if key != ".":
            if fieldset.is_member(node):
                out.add((*prefix, key))
            out |= members_of(node, (*prefix, key))
    return frozenset(out)


@given(PATHS, PATHS)
def test_sets_of_fields_are_sets_of_paths(one: frozenset[tuple[str, ...]], two: frozenset[tuple[str, ...]]) -> None:
    a, b = field_set_of(one), field_set_of(two)
    before = json.dumps([a, b])
    assert members_of(union(a, b)) == one | two
    assert members_of(difference(a, b)) == one - two
    assert members_of(intersection(a, b)) == one & two
    assert json.dumps([a, b]) == before
    for made in (union(a, b), difference(a, b), intersection(a, b)):
        assert json.dumps(decode(json.loads(json.dumps(made)))) == json.dumps(made)
