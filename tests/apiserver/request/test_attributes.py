"""Cached request attributes equal those computed anew for each request."""

from __future__ import annotations

import pytest

from shoal.apiserver import request_attributes
from shoal.apiserver.authz import Attributes
from shoal.apiserver.metrics.requests import request_labels_of
from shoal.apiserver.request import info
from shoal.apiserver.request.info import MAX_CACHED_PATH, parse_path, verb_of
from shoal.objects.wire import Request

PATHS = [
    "/version",
    "/api/v1/nodes",
    "/api/v1/namespaces/a",
    "/api/v1/namespaces/a/pods/b",
    "/api/v1/watch/namespaces/a/pods",
    "/clusters/team/apis/apps/v1/namespaces/a/deployments/b/scale",
    "/api/v1/namespaces/a/pods/" + "b" * MAX_CACHED_PATH,
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_it_is_the_same_the_second_time(method: str, path: str) -> None:
    target = parse_path(path)
    verb = verb_of(method, target, watching=False)
    expected = (
        target,
        verb,
        request_labels_of(Request(method, path), target),
        request_attributes.authorizer_attributes(target, verb, {}),
    )
    assert (
        request_attributes.cached_request_attributes(method, path)
        == request_attributes.cached_request_attributes(method, path)
        == expected
    )


def test_a_namespace_is_in_itself() -> None:
    wanted = request_attributes.cached_request_attributes("GET", "/api/v1/namespaces/a").attributes
    assert wanted == Attributes("root", "get", "", "v1", "namespaces", "", "a", "a")


def test_who_selects_by_name_wants_that_object() -> None:
    target = parse_path("/api/v1/namespaces/a/pods")
    query = {"fieldSelector": "metadata.name=b", "labelSelector": "c=d"}
    wanted = request_attributes.authorizer_attributes(target, "list", query)
    assert (wanted.name, wanted.fields, wanted.labels) == ("b", "metadata.name=b", "c=d")
    assert (
        request_attributes.authorizer_attributes(
            target, "list", {"fieldSelector": "metadata.name=b,spec.nodeName=c"}
        ).name
        == ""
    )


def test_long_paths_are_not_remembered() -> None:
    kept = request_attributes._parse_request_cached.cache_info().currsize, info._parse_path_cached.cache_info().currsize
    request_attributes.cached_request_attributes("GET", "/made/up/" + "x" * MAX_CACHED_PATH)
    assert (
        request_attributes._parse_request_cached.cache_info().currsize,
        info._parse_path_cached.cache_info().currsize,
    ) == kept
