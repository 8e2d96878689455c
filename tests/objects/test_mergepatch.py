"""JSON merge patch: the examples of RFC 7386, and that a created patch produces its target."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects.mergepatch import apply, create, json_equal

scalars = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0, "", "x"]))
json = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), json, max_size=3)
patches = st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), json), max_size=3)


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": "b"}, {"x": None}, {"a": "b"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c", "e": 1}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d", "e": 1}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {"a": {"b": 2, "c": None}}, {"a": {"b": 2}}),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ],
)
def test_rfc_7386(original: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((original, patch))
    assert apply(original, patch) == expected
    assert (original, patch) == before


def test_what_is_not_touched_is_shared() -> None:
    original = {"metadata": {"labels": {"a": "1"}}, "spec": {"x": []}}
    patched = apply(original, {"metadata": {"labels": {"b": "2"}}})
    assert patched["spec"] is original["spec"]
    assert original["metadata"] == {"labels": {"a": "1"}}


def test_create_says_only_what_differs() -> None:
    original = {"a": 1, "b": {"c": 2, "d": [1]}, "e": "x"}
    modified = {"a": 1, "b": {"c": 3, "d": [1]}, "f": {"g": 1}}
    assert create(original, modified) == {"e": None, "b": {"c": 3}, "f": {"g": 1}}
    assert create(original, original) == {}
    assert create({"a": [True]}, {"a": [1]}) == {"a": [1]}


def test_json_knows_three_ones() -> None:
    assert not json_equal(True, 1)
    assert not json_equal(1, 1.0)
    assert not json_equal([{"a": 1}], [{"a": True}])
    assert json_equal({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not json_equal({"a": 1}, {"a": 1, "b": 2})


@given(objects, objects)
def test_a_created_patch_leads_to_the_goal(original: dict[str, Any], modified: dict[str, Any]) -> None:
    before = copy.deepcopy((original, modified))
    assert json_equal(apply(original, create(original, modified)), modified)
    assert json_equal([*before], [original, modified])


@given(objects, patches)
def test_applying_twice_is_applying_once(original: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply(original, patch)
    assert json_equal(apply(once, patch), once)
