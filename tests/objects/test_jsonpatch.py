"""JSON patch: every operation, every error, and a model that edits in place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects.errors import BadRequest, Invalid, TooLarge
from shoal.objects.jsonpatch import MAX_OPERATIONS, apply
from shoal.objects.mergepatch import json_equal


def op(kind: str, path: str, value: Any = None) -> dict[str, Any]:
    return {"op": kind, "path": path, "value": value}


def transfer(kind: str, path: str, source: str) -> dict[str, Any]:
    return {"op": kind, "path": path, "from": source}


NO_INDEX = (
    "error in add for path: '/l/x': value was not a proper array index: 'x': "
    'strconv.Atoi: parsing "x": invalid syntax'
)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": 1}, [op("add", "/b", 2)], {"a": 1, "b": 2}),
        ({"a": 1}, [op("add", "/a", {"b": None})], {"a": {"b": None}}),
        ({"a": [1, 3]}, [op("add", "/a/1", 2)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [op("add", "/a/1", 2)], {"a": [1, 2]}),
        ({"a": [1]}, [op("add", "/a/-", 2)], {"a": [1, 2]}),
        ({"a": [1, 2]}, [op("add", "/a/-1", 3)], {"a": [1, 2, 3]}),
        ({"a": 1, "b": 2}, [op("remove", "/a")], {"b": 2}),
        ({"a": [1, 2]}, [op("remove", "/a/0")], {"a": [2]}),
        ({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}),
        ({"a": {"b": 1}}, [op("replace", "/a/b", 2)], {"a": {"b": 2}}),
        ({"a": {}}, [op("replace", "/a/b", 2)], {"a": {"b": 2}}),
        ({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
        ({"a": {"b": 1}}, [transfer("move", "/c", "/a/b")], {"a": {}, "c": 1}),
        ({"a": [1, 2, 3]}, [transfer("move", "/a/0", "/a/2")], {"a": [3, 1, 2]}),
        ({"a": {"b": 1}}, [transfer("copy", "/c", "/a")], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": {"x/y": 1, "m~n": 2}}, [op("remove", "/a/x~1y"), op("replace", "/a/m~0n", 3)], {"a": {"m~n": 3}}),
        ({"~1": 1}, [op("remove", "/~01")], {}),
        ({"": 1}, [op("replace", "/", 2)], {"": 2}),
        ({"a": {"b": [1, None]}}, [op("test", "/a", {"b": [1, None]}), op("test", "/a/c")], {"a": {"b": [1, None]}}),
        ({"a": 1}, [op("test", "", {"a": 1})], {"a": 1}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_operations(document: Any, patch: list[dict[str, Any]], expected: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert json_equal(apply(document, patch), expected)
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (op("add", "/x/y", 1), 'add operation does not apply: doc is missing path: "/x/y": missing value'),
        (op("add", "/s/y", 1), 'add operation does not apply: doc is missing path: "/s/y": missing value'),
        (op("add", "/n/y", 1), 'add operation does not apply: doc is missing path: "/n/y": missing value'),
        (op("add", "", 1), 'add operation does not apply: doc is missing path: "": missing value'),
        (op("add", "l", 1), 'add operation does not apply: doc is missing path: "l": missing value'),
        (op("add", "l/0", 1), 'add operation does not apply: doc is missing path: "l/0": missing value'),
        (
            op("add", "/l/3", 1),
            "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
        ),
        (
            op("add", "/l/x", 1),
            NO_INDEX,
        ),
        (op("remove", "/x"), "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"),
        (
            op("remove", "/l/2"),
            "error in remove for path: '/l/2': Unable to access invalid index: 2: invalid index referenced",
        ),
        (op("remove", "/l/-"), "error in remove for path: '/l/-': strconv.Atoi: parsing \"-\": invalid syntax"),
        (op("replace", "/l/2", 1), "replace operation does not apply: doc is missing key: /l/2: missing value"),
        (op("replace", "", 1), "replace operation value must be object or array"),
        (op("test", "/s", "y"), "testing value /s failed: test failed"),
        (op("test", "/l/0", True), "testing value /l/0 failed: test failed"),
        (op("test", "/l/0", 1.0), "testing value /l/0 failed: test failed"),
        (op("test", "/x", 1), "testing value /x failed: test failed"),
        (
            transfer("move", "/y", "/x"),
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            transfer("move", "/o/p/q", "/o"),
            "move operation does not apply: doc is missing destination path: /o/p/q: missing value",
        ),
        (op("copy", "/y"), "copy operation failed to decode from: missing value"),
        (op("frob", "/s"), "Unexpected kind: frob"),
        ({"path": "/s"}, "Unexpected kind: unknown"),
        ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
    ],
)
def test_what_does_not_apply(operation: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid) as caught:
        apply({"s": "x", "l": [1, 2], "n": None, "o": {"p": {}}}, [operation])
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert str(caught.value.__cause__) == why


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({}, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ([1], "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        (["a"], "json: cannot unmarshal string into Go value of type jsonpatch.Operation"),
    ],
)
def test_what_is_no_patch(patch: Any, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        apply({}, patch)
    assert caught.value.message == said


def test_too_many_operations() -> None:
    assert apply({"a": 1}, [op("test", "/a", 1)] * MAX_OPERATIONS) == {"a": 1}
    with pytest.raises(TooLarge) as caught:
        apply({"a": 1}, [op("test", "/a", 1)] * (MAX_OPERATIONS + 1))
    assert (
        caught.value.message
        == "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_copies_of_copies_end() -> None:
    bomb = [transfer("copy", "/a/-", "/a") for _ in range(30)]
    with pytest.raises(Invalid) as caught:
        apply({"a": ["0123456789"]}, bomb)
    assert "exceeding the limit 3145728" in str(caught.value.__cause__)


def test_nesting_ends() -> None:
    deeper = [op("add", "/a" * (i + 1), {}) for i in range(300)]
    with pytest.raises(Invalid) as caught:
        apply({}, deeper)
    assert str(caught.value.__cause__) == "the result is nested too deeply"
    assert apply({}, deeper[:200])["a"]


def test_copies_are_apart() -> None:
    patch = [op("add", "/a/x", {}), transfer("copy", "/b", "/a"), op("add", "/a/x/y", 1), op("add", "/b/x/z", 2)]
    assert apply({"a": {}}, patch) == {"a": {"x": {"y": 1}}, "b": {"x": {"z": 2}}}
    assert patch[0]["value"] == {}


def test_what_is_not_touched_is_shared() -> None:
    document = {"a": {"b": 1}, "c": {"d": [1]}}
    patched = apply(document, [op("replace", "/a/b", 2)])
    assert patched["c"] is document["c"]


# --- against a model that copies everything and edits in place ---

pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-"]), min_size=1, max_size=3).map(lambda t: "/" + "/".join(t))
values = st.recursive(
    st.sampled_from([1, "x", True]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=4,
)
operations = st.one_of(
    st.builds(op, st.sampled_from(["add", "remove", "test", "replace"]), pointers, values),
    st.builds(transfer, st.sampled_from(["move", "copy"]), pointers, pointers),
)


class ModelError(Exception):
    pass


def model(document: Any, patch: list[dict[str, Any]]) -> Any:
    document = copy.deepcopy(document)

    def parent(pointer: str) -> tuple[Any, Any]:
        here = document
        *way, last = pointer.split("/")[1:]
        for token in way:
            here = get(here, token)
        return here, last

    def get(here: Any, token: str) -> Any:
        try:
            return here[int(token)] if isinstance(here, list) else here[token]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ModelError from None

    def put(pointer: str, value: Any) -> None:
        here, last = parent(pointer)
        if isinstance(here, list):
            if last != "-" and not (last.isdigit() and int(last) <= len(here)):
                raise ModelError
            here.insert(len(here) if last == "-" else int(last), copy.deepcopy(value))
        elif isinstance(here, dict):
            here[last] = copy.deepcopy(value)
        else:
            raise ModelError

    def take(pointer: str) -> Any:
        here, last = parent(pointer)
        found = get(here, last)
        del here[int(last) if isinstance(here, list) else last]
        return found

    for step in patch:
        match step["op"]:
            case "add":
                put(step["path"], step["value"])
            case "remove":
                take(step["path"])
            case "replace":
                here, last = parent(step["path"])
                if isinstance(here, list):
                    get(here, last)
                    here[int(last)] = copy.deepcopy(step["value"])
                else:
                    put(step["path"], step["value"])
            case "test":
                here, last = parent(step["path"])
                if not json_equal(get(here, last), step["value"]):
                    raise ModelError
            case "move":
                put(step["path"], take(step["from"]))
            case "copy":
                here, last = parent(step["from"])
                put(step["path"], here.get(last) if isinstance(here, dict) else get(here, last))
    return document


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from("ab"), values, max_size=2), st.lists(operations, max_size=4))
def test_as_the_model_does(document: dict[str, Any], patch: list[dict[str, Any]]) -> None:
    before = copy.deepcopy((document, patch))
    try:
        expected = model(document, patch)
    except ModelError:
        with pytest.raises(Invalid):
            apply(document, patch)
    else:
        assert json_equal(apply(document, patch), expected)
    assert (document, patch) == before
