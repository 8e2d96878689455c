"""Policy rules: matching, covering, and the text of missing rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.apiserver.authz.covering import covers, missing_rules
from shoal.apiserver.authz.rules import describe, matches_path, matches_resource
from tests.apiserver.authz.role_table import rule, url_rule


@pytest.mark.parametrize(
    ("held", "verb", "group", "resource", "subresource", "expected"),
    [
        (rule("", "pods", "get"), "get", "", "pods", "", True),
        (rule("", "pods", "get"), "list", "", "pods", "", False),
        (rule("", "pods", "get"), "get", "apps", "pods", "", False),
        (rule("", "pods", "get"), "get", "", "secrets", "", False),
        (rule("", "pods", "*"), "deletecollection", "", "pods", "", True),
        (rule("*", "pods", "get"), "get", "anything.example.com", "pods", "", True),
        (rule("", "*", "get"), "get", "", "pods", "", True),
        (rule("", "*", "get"), "get", "", "pods", "log", True),
        (rule("", "pods", "get"), "get", "", "pods", "log", False),
        (rule("", "pods/log", "get"), "get", "", "pods", "log", True),
        (rule("", "pods/log", "get"), "get", "", "pods", "", False),
        (rule("", "pods/*", "get"), "get", "", "pods", "log", False),
        (rule("apps", "*/scale", "update"), "update", "apps", "deployments", "scale", True),
        (rule("apps", "*/scale", "update"), "update", "apps", "deployments", "status", False),
        (rule("apps", "*/scale", "update"), "update", "apps", "deployments", "", False),
        (rule("", "*/log", "get"), "get", "", "pods", "xlog", False),
        (rule(",apps", "pods,deployments", "get,list"), "list", "apps", "deployments", "", True),
        ({"verbs": ["get"]}, "get", "", "pods", "", False),
        ({"apiGroups": None, "resources": None, "verbs": None}, "get", "", "pods", "", False),
        (url_rule("*", "*"), "get", "", "pods", "", False),
    ],
)
def test_resource_rules(
    held: dict[str, Any], verb: str, group: str, resource: str, subresource: str, expected: bool
) -> None:
    assert matches_resource(held, verb, group, resource, subresource) is expected


@pytest.mark.parametrize(
    ("urls", "path", "expected"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/etcd", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz", False),
        ("/api*", "/apis/apps", True),
        ("*", "/anything", True),
        ("/a,/b*", "/bcd", True),
        ("/a*b", "/axb", False),
        ("/version", "/versio", False),
    ],
)
def test_path_rules(urls: str, path: str, expected: bool) -> None:
    assert matches_path(url_rule(urls, "get"), "get", path) is expected
    assert not matches_path(url_rule(urls, "head"), "get", path)


@pytest.mark.parametrize(
    ("owned", "wanted", "expected"),
    [
        ([rule("", "pods", "*")], [rule("", "pods", "get,list")], True),
        ([rule("", "pods", "get"), rule("", "pods", "list")], [rule("", "pods", "get,list")], True),
        ([rule("", "pods", "get")], [rule("", "pods", "*")], False),
        ([rule("*", "*", "*")], [rule("apps", "deployments", "get"), rule("", "secrets", "*")], True),
        ([rule("*", "*", "*")], [url_rule("/metrics", "get")], False),
        ([url_rule("*", "*")], [rule("", "pods", "get")], False),
        ([url_rule("/api/*", "get")], [url_rule("/api/v1", "get")], True),
        ([url_rule("/api/*", "get")], [url_rule("/api/*", "get")], True),
        ([url_rule("/api/*", "get")], [url_rule("*", "get")], False),
        ([rule("", "pods", "get", "a,b")], [rule("", "pods", "get", "a")], True),
        ([rule("", "pods", "get", "a")], [rule("", "pods", "get")], False),
        ([rule("", "pods", "get")], [rule("", "pods", "get", "a")], True),
        ([rule("", "pods", "get", "a")], [rule("", "pods", "get", "a,b")], False),
        ([rule("", "*/scale", "get")], [rule("", "pods/scale", "get")], True),
        ([rule("", "*/scale", "get")], [rule("", "*/scale", "get")], True),
        ([rule("", "pods/scale", "get")], [rule("", "*/scale", "get")], False),
        ([rule("", "pods", "get")], [rule("", "*", "get")], False),
        ([rule("", "pods", "get")], [rule("*", "pods", "get")], False),
        ([], [rule("", "pods", "get")], False),
        ([], [], True),
        ([], [{"verbs": ["get"]}], True),
    ],
)
def test_covering(owned: list[dict[str, Any]], wanted: list[dict[str, Any]], expected: bool) -> None:
    assert covers(owned, wanted) is expected


def test_missing_rules_are_told_once_sorted_and_with_their_verbs_together() -> None:
    wanted = [
        rule("", "secrets,pods", "get,list"),
        rule("", "pods", "watch"),
        rule("", "pods", "delete", "a"),
        url_rule("/metrics", "get"),
    ]
    assert describe(missing_rules([rule("", "pods", "list")], wanted)) == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["delete"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "watch"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
    ]


_some = st.lists
_resource_rules = st.fixed_dictionaries(
    {
        "apiGroups": _some(st.sampled_from(["", "apps", "*"]), max_size=2),
        "resources": _some(st.sampled_from(["pods", "pods/log", "*/log", "*", "secrets"]), max_size=3),
        "verbs": _some(st.sampled_from(["get", "list", "*"]), max_size=2),
    },
    optional={"resourceNames": _some(st.sampled_from(["a", "b", ""]), max_size=2)},
)
_url_rules = st.fixed_dictionaries(
    {
        "nonResourceURLs": _some(st.sampled_from(["/a", "/a/*", "*", "/b"]), max_size=3),
        "verbs": _some(st.sampled_from(["get", "*"]), max_size=2),
    }
)
_rules = st.lists(st.one_of(_resource_rules, _url_rules), max_size=4)


@given(_rules)
def test_rules_cover_themselves(rules: list[dict[str, Any]]) -> None:
    assert list(missing_rules(rules, rules)) == []


@given(_rules, _rules, _rules)
def test_covering_is_transitive_and_grows(a: list[Any], b: list[Any], c: list[Any]) -> None:
    assert covers([*a, *b], b)
    if covers(a, b) and covers(b, c):
        assert covers(a, c)


@given(
    _rules,
    _rules,
    st.sampled_from(["get", "list"]),
    st.sampled_from(["", "apps"]),
    st.sampled_from(["pods", "secrets"]),
    st.sampled_from(["", "log"]),
)
def test_what_is_covered_allows_no_more(
    owned: list[Any], wanted: list[Any], verb: str, group: str, resource: str, subresource: str
) -> None:
    def allowed(rules: list[Any], name: str) -> bool:
        return any(
            matches_resource(r, verb, group, resource, subresource)
            and (not r.get("resourceNames") or name in r["resourceNames"])
            for r in rules
        )

    if covers(owned, wanted):
        for name in ("a", "b", ""):
            assert allowed(owned, name) or not allowed(wanted, name)
