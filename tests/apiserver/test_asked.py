"""Cached request attributes equal those computed anew for each request."""

from __future__ import annotations

import pytest

from shoal.apiserver import asked, paths
from shoal.apiserver.authz import Attributes
from shoal.apiserver.metrics import labels_of
from shoal.apiserver.paths import LONGEST, parse, verb_of
from shoal.objects.wire import Request

PATHS = [
    "/version",
    "/api/v1/nodes",
    "/api/v1/namespaces/a",
    "/api/v1/namespaces/a/pods/b",
    "/api/v1/watch/namespaces/a/pods",
    "/clusters/team/apis/apps/v1/namespaces/a/deployments/b/scale",
    "/api/v1/namespaces/a/pods/" + "b" * LONGEST,
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_it_is_the_same_the_second_time(method: str, path: str) -> None:
    target = parse(path)
    verb = verb_of(method, target, watching=False)
    expected = (verb, labels_of(Request(method, path), target), asked.wanted(target, verb, {}))
    assert asked.plainly(method, path) == asked.plainly(method, path) == expected


def test_a_namespace_is_in_itself() -> None:
    wanted = asked.plainly("GET", "/api/v1/namespaces/a").wanted
    assert wanted == Attributes("root", "get", "", "v1", "namespaces", "", "a", "a")


def test_who_selects_by_name_wants_that_object() -> None:
    target = parse("/api/v1/namespaces/a/pods")
    query = {"fieldSelector": "metadata.name=b", "labelSelector": "c=d"}
    wanted = asked.wanted(target, "list", query)
    assert (wanted.name, wanted.fields, wanted.labels) == ("b", "metadata.name=b", "c=d")
    assert asked.wanted(target, "list", {"fieldSelector": "metadata.name=b,spec.nodeName=c"}).name == ""


def test_long_paths_are_not_remembered() -> None:
    kept = asked._known.cache_info().currsize, paths._known.cache_info().currsize
    asked.plainly("GET", "/made/up/" + "x" * LONGEST)
    assert (asked._known.cache_info().currsize, paths._known.cache_info().currsize) == kept
