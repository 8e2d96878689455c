"""Strategic merge patch: lists by key, directives, order, errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects.errors import BadRequest, Invalid
from shoal.objects.strategicpatch import apply


def merge_list_schema(key: str, items: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": key,
    }


TEXTS = {"type": "array", "items": {"type": "string"}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "Pod": {
        "properties": {
            "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
            "spec": {"$ref": "#/definitions/Spec"},
        }
    },
    "Meta": {
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": TEXTS | {"x-kubernetes-patch-strategy": "merge"},
        }
    },
    "Spec": {
        "properties": {
            "containers": merge_list_schema("name", {"$ref": "#/definitions/Container"}),
            "volumes": merge_list_schema("name", {"type": "object"})
            | {"x-kubernetes-patch-strategy": "merge,retainKeys"},
            "tolerations": {"type": "array", "items": {"type": "object"}},
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
            "keyless": {"type": "array", "x-kubernetes-patch-strategy": "merge"},
        }
    },
    "Container": {
        "properties": {
            "args": TEXTS,
            "env": merge_list_schema("name", {}),
            "ports": merge_list_schema("containerPort", {}),
        },
    },
}


def apply_patch(original: dict[str, Any], patch: Any) -> dict[str, Any]:
    before = copy.deepcopy((original, patch))
    result = apply(original, patch, {"$ref": "#/definitions/Pod"}, SCHEMAS.__getitem__)
    assert (original, patch) == before
    return result


def spec(original: dict[str, Any], patch: dict[str, Any]) -> Any:
    return apply_patch({"spec": original}, {"spec": patch})["spec"]


def named_items(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def test_plain_members() -> None:
    original = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"x": 1, "o": {"p": 1}}}
    patch = {"metadata": {"labels": {"a": None, "c": "3", "d": None}}, "spec": {"x": [1], "o": 5, "n": {"q": None}}}
    assert apply_patch(original, patch) == {
        "metadata": {"labels": {"b": "2", "c": "3"}},
        "spec": {"x": [1], "o": 5, "n": {}},
    }


def test_lists_merge_by_key() -> None:
    original = {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]}
    patch = {"containers": [{"name": "c", "image": "2", "args": None}, {"name": "a", "image": "2", "args": ["y"]}]}
    assert spec(original, patch) == {
        "containers": [
            {"name": "c", "image": "2"},
            {"name": "a", "image": "2", "args": ["y"]},
            {"name": "b", "image": "1"},
        ]
    }


def test_nested_lists_merge_by_a_number() -> None:
    original = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]}
    patch = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]}]}
    assert spec(original, patch)["containers"][0]["ports"] == [
        {"containerPort": 80, "name": "x", "protocol": "TCP"},
        {"containerPort": 81},
    ]


@pytest.mark.parametrize(
    ("live", "changes", "expected"),
    [
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a", "b", "c"], ["d"], ["d", "a", "b", "c"]),
        (["a", "b", "c"], ["b"], ["a", "b", "c"]),
        ([], ["b", "a"], ["b", "a"]),
        (["a"], [], ["a"]),
    ],
)
def test_the_patch_sets_the_order(live: list[str], changes: list[str], expected: list[str]) -> None:
    assert spec({"containers": named_items(*live)}, {"containers": named_items(*changes)})["containers"] == named_items(
        *expected
    )
    metadata = apply_patch({"metadata": {"finalizers": live}}, {"metadata": {"finalizers": changes}})["metadata"]
    assert metadata["finalizers"] == expected


def test_set_element_order() -> None:
    patch = {"$setElementOrder/containers": named_items("c", "n", "a"), "containers": [{"name": "n", "image": "1"}]}
    assert spec({"containers": named_items("a", "b", "c")}, patch)["containers"] == [
        {"name": "b"},
        {"name": "c"},
        {"name": "n", "image": "1"},
        {"name": "a"},
    ]
    assert spec({"containers": named_items("a", "b")}, {"$setElementOrder/containers": named_items("b", "a")}) == {
        "containers": named_items("b", "a")
    }
    assert spec({}, {"$setElementOrder/containers": named_items("b", "a")}) == {}
    assert spec({}, {"$setElementOrder/containers": named_items("a"), "containers": named_items("a")}) == {
        "containers": named_items("a")
    }


def test_primitive_lists() -> None:
    def finalizers(live: list[str], patch: dict[str, Any]) -> list[str]:
        found: list[str] = apply_patch({"metadata": {"finalizers": live}}, {"metadata": patch})["metadata"][
            "finalizers"
        ]
        return found

    assert finalizers(["a", "b"], {"finalizers": ["b", "c"]}) == ["a", "b", "c"]
    assert finalizers(["a", "b", "a"], {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}) == ["b"]
    assert finalizers(
        ["a", "b", "c"],
        {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "d", "a"],
            "finalizers": ["d"],
        },
    ) == ["c", "d", "a"]
    assert apply_patch({}, {"$deleteFromPrimitiveList/finalizers": ["b"]}) == {}


def test_directives_on_items() -> None:
    original = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    assert spec(original, {"containers": [{"name": "a", "$patch": "delete"}]})["containers"] == [
        original["containers"][1]
    ]
    assert spec(original, {"containers": [{"$patch": "replace"}, {"name": "z"}]})["containers"] == named_items("z")
    assert spec({}, {"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]})["containers"] == named_items(
        "b"
    )


def test_directives_on_objects() -> None:
    labels = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    for directive, expected in (("replace", {"c": "3"}), ("delete", {})):
        patch = {"metadata": {"labels": {"$patch": directive, "c": "3", "d": None}}}
        assert apply_patch(labels, patch) == {"metadata": {"labels": expected}}
    assert apply_patch({}, {"metadata": {"$patch": "delete"}}) == {}


def test_retain_keys() -> None:
    original = {"volumes": [{"name": "v", "emptyDir": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "emptyDir": None, "configMap": {"n": 1}}]}
    assert spec(original, patch) == {"volumes": [{"name": "v", "configMap": {"n": 1}}]}


def test_what_does_not_merge_is_replaced() -> None:
    original = {"tolerations": [{"key": "a"}], "whole": {"a": 1}, "unknown": [1]}
    patch = {"tolerations": [{"key": "b", "x": None}], "whole": {"b": 2}, "unknown": [2]}
    assert spec(original, patch) == {"tolerations": [{"key": "b"}], "whole": {"b": 2}, "unknown": [2]}


def test_what_is_not_touched_is_shared() -> None:
    original: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {"containers": named_items("a", "b")}}
    result = apply_patch(original, {"spec": {"containers": [{"name": "a", "image": "1"}]}})
    assert result["metadata"] is original["metadata"]
    assert result["spec"]["containers"][1] is original["spec"]["containers"][1]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ([], "expected a map[string]interface {}, but received a []interface {}"),
        (
            {"spec": {"containers": [{"image": "1", "ok": True}]}},
            "map: map[image:1 ok:true] does not contain declared merge key: name",
        ),
        (
            {"spec": {"containers": [{"$patch": "delete"}]}},
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        ({"spec": {"containers": ["a"]}}, "list element types are not identical: [[map[name:a]] [a]]"),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}},
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "x"}]}},
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        ({"spec": {"$patch": "x", "n": None}}, "unknown patch type: x in map: map[$patch:x n:<nil>]"),
        ({"spec": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["x"], "y": 1}}, "invalid patch format of retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList": ["x"]}}, "invalid patch format of primitive list"),
        ({"metadata": {"$setElementOrder": ["x"]}}, "invalid patch format of setElementOrder list"),
        (
            {"metadata": {"$setElementOrder/finalizers": "x"}},
            "expected a []interface {}, but received a string",
        ),
        (
            {"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}},
            "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n",
        ),
        ({"spec": {"keyless": [{"a": 1}]}}, "cannot merge lists without merge key for keyless"),
        ({"spec": {"containers": [{"name": {}}]}}, "expected a string, but received a map[string]interface {}"),
    ],
)
def test_refused(patch: Any, said: str) -> None:
    live = {"metadata": {"finalizers": ["f"]}, "spec": {"containers": named_items("a"), "keyless": [{"b": 1}]}}
    with pytest.raises(BadRequest) as caught:
        apply_patch(live, patch)
    assert caught.value.message == said


def test_lists_of_lists() -> None:
    with pytest.raises(Invalid) as caught:
        apply_patch({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [["b"]]}})
    assert caught.value.message == "the server rejected our request due to an error in our request"


names = st.lists(st.sampled_from("abcde"), unique=True)


@given(names, names, names)
def test_items_are_kept_and_ordered(live: list[str], changes: list[str], deleted: list[str]) -> None:
    deleted = [name for name in deleted if name not in changes]
    patch = {"containers": [*named_items(*changes), *({"name": name, "$patch": "delete"} for name in deleted)]}
    result = [item["name"] for item in spec({"containers": named_items(*live)}, patch)["containers"]]
    assert sorted(result) == sorted({*live, *changes} - {*deleted})
    assert [name for name in result if name in changes] == changes
    untouched = [name for name in live if name not in changes and name not in deleted]
    assert [name for name in result if name not in changes] == untouched


@given(names, names)
def test_patching_twice_is_patching_once(live: list[str], changes: list[str]) -> None:
    patch = {"containers": [{"name": name, "image": "1", "env": named_items(*changes)} for name in changes]}
    once = spec({"containers": named_items(*live)}, patch)
    assert spec(once, patch) == once
