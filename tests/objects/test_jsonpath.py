"""JSONPath of printer columns, and simple paths read and written."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects import jsonpath
from shoal.objects.jsonpath import get_path, set_path, split_path

POD: dict[str, Any] = {
    "metadata": {"name": "web", "annotations": {"foo.bar": "x", "a/b": "y"}},
    "spec": {"containers": [{"name": "a", "image": "i1", "ports": [80]}, {"name": "b", "ports": [81, 82]}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "n": 3}, {"type": "Odd)", "status": "False", "n": 1}],
        "flags": {"x": True, "y": False},
        "nothing": None,
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["web"]),
        ("{.metadata.name}", ["web"]),
        ("$.metadata.name", ["web"]),
        (".metadata.none.deeper", []),
        (".metadata.name.deeper", []),
        (".status.nothing", [None]),
        (r".metadata.annotations.foo\.bar", ["x"]),
        (".metadata.annotations['foo.bar']", ["x"]),
        (r".metadata.annotations['foo\.bar']", ["x"]),
        ('.metadata.annotations["a/b"]', ["y"]),
        (".metadata.annotations.a/b", ["y"]),
        (".spec.containers[0].name", ["a"]),
        (".spec.containers[-1].name", ["b"]),
        (".spec.containers[7].name", []),
        (".metadata[0]", []),
        (".spec.containers[*].name", ["a", "b"]),
        (".spec.containers[*].image", ["i1"]),
        (".spec.containers[0:1].name", ["a"]),
        (".spec.containers[1:].name", ["b"]),
        (".spec.containers[:].name", ["a", "b"]),
        (".spec.containers[*].ports[0:2:2]", [80, 81]),
        (".status.flags.*", [True, False]),
        ("..name", ["web", "a", "b"]),
        ("..ports[*]", [80, 81, 82]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        ('.status.conditions[?(@.type=="Odd)")].status', ["False"]),
        (".status.conditions[?(@.n>1)].type", ["Ready"]),
        (".status.conditions[?(@.n<=1)].type", ["Odd)"]),
        (".status.conditions[?(@.n>'x')].type", []),
        (".spec.containers[?(@.image)].name", ["a"]),
        (".spec.containers[?(@.none==1)].name", []),
        (".metadata[?(@.name)]", []),
        ("", [POD]),
        ("$", [POD]),
    ],
)
def test_finding(path: str, found: list[Any]) -> None:
    assert jsonpath.compile_path(path)(POD) == found


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("metadata", "unrecognized character 'm' at 0 in 'metadata'"),
        (".a[", "unterminated array in '.a['"),
        (".a[x]", "invalid array index x in '.a[x]'"),
        (".a[]", "invalid array index  in '.a[]'"),
        (".a[0:2:0]", "step must be > 0"),
        ('.a[?(@.b=="c"', "unterminated filter in '.a[?(@.b==\"c\"'"),
        (".a[?(@.b==c)]", "unrecognized identifier c in '.a[?(@.b==c)]'"),
        (".a b", "unrecognized character ' ' at 2 in '.a b'"),
        (".a..", "unrecognized character '.' at 2 in '.a..'"),
    ],
)
def test_refused(path: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        jsonpath.compile_path(path)
    assert str(caught.value) == said


def test_simple_paths() -> None:
    assert get_path(POD, ".metadata.name") == "web"
    assert get_path(POD, "metadata.name") == "web"
    assert get_path(POD, r".metadata.annotations.foo\.bar") == "x"
    assert get_path(POD, ".spec.replicas") is None
    assert get_path(POD, ".metadata.name.more", 7) == 7
    assert get_path(POD, ".status.nothing", 7) is None


def test_setting_a_simple_path() -> None:
    obj: dict[str, Any] = {"spec": {"replicas": 1, "other": {}}, "status": {}}
    changed = set_path(obj, ".spec.replicas", 3)
    assert changed == {"spec": {"replicas": 3, "other": {}}, "status": {}}
    assert obj["spec"]["replicas"] == 1
    assert changed["status"] is obj["status"]
    assert set_path({}, ".a.b", 1) == {"a": {"b": 1}}
    assert set_path({"a": 1}, "a.b", 1) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        (".a[0]", ("a[0]",)),
        (".a..b", ("a", "", "b")),
        (".a.b c", ("a", "b c")),
        (".a.$b", ("a", "$b")),
        (".a.", ("a", "")),
        (r".a\.b.c[", ("a\\", "b", "c[")),
    ],
)
def test_all_between_two_dots_is_a_key(path: str, keys: tuple[str, ...]) -> None:
    """The API server accepts such paths of a scale, as upstream."""
    assert split_path(path) == keys
    assert get_path({"a": {"b": 1}}, path) is None
    assert get_path(set_path({}, path, 3), path) == 3


def test_a_search_visits_a_limited_number_of_values() -> None:
    tree: dict[str, Any] = {"leaf": 1}
    for _ in range(100):
        tree = {"a": tree, "b": [1, 2]}
    assert jsonpath.compile_path("..leaf")(tree) == [1]
    assert jsonpath.compile_path("..a..a..a..a..leaf")(tree) == []
    budget = jsonpath.PathBudget(10)
    assert jsonpath.compile_path("..b[0]")(tree, 2, budget) == [1, 1]
    assert jsonpath.compile_path(".b[1]")(tree, 1, budget) == []


def test_only_the_first_matches_are_looked_for() -> None:
    budget = jsonpath.PathBudget()
    assert jsonpath.compile_path("[*]")([1] * 1_000_000, 1, budget) == [1]
    assert jsonpath.VISITS - budget.visits < 10
