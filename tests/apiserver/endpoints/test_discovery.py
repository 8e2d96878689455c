from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.apiserver.endpoints.discovery import DiscoveryHandler
from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.kinds.strategy import ScalePaths
from shoal.objects.errors import NotFound
from shoal.objects.wire import Request, Response

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
KUBECTL = ",".join([AGGREGATED.format("v2"), AGGREGATED.format("v2beta1"), "application/json"])

CRONTAB = Resource(
    "stable.example.com",
    "v1",
    "crontabs",
    "CronTab",
    "crontab",
    True,
    ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
    ("ct",),
    ("all",),
    storage_version="v1",
    custom=True,
    status=True,
    scale=ScalePaths(".spec.replicas", ".status.replicas"),
    schema_hash="0123456789abcdef",
)
OLDER = Resource(
    "stable.example.com", "v1beta1", "crontabs", "CronTab", "crontab", True, custom=True, storage_version="v1"
)
REGISTRY = Registry([*builtins.profile_resources("hub"), CRONTAB, OLDER])


def ask(path: str, accept: str = "", discovery: DiscoveryHandler | None = None, **headers: str) -> Response:
    request = Request("GET", path, headers={"accept": accept, **headers})
    return (discovery or DiscoveryHandler()).handle(REGISTRY, path, request)


def read(path: str, accept: str = "") -> Any:
    answer = ask(path, accept)
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


# --- plain ---


def test_core_versions() -> None:
    found = read("/api")
    assert found["kind"] == "APIVersions"
    assert found["versions"] == ["v1"]


def test_groups() -> None:
    found = read("/apis")
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    assert [group["name"] for group in found["groups"]] == [
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "rbac.authorization.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
        "stable.example.com",
    ]


def test_a_group() -> None:
    newer = {"groupVersion": "stable.example.com/v1", "version": "v1"}
    older = {"groupVersion": "stable.example.com/v1beta1", "version": "v1beta1"}
    group = {"name": "stable.example.com", "versions": [newer, older], "preferredVersion": newer}
    assert read("/apis/stable.example.com") == {"kind": "APIGroup", "apiVersion": "v1", **group}
    assert read("/apis")["groups"][-1] == group


def test_resources_of_the_core_group() -> None:
    found = read("/api/v1")
    assert {key: value for key, value in found.items() if key != "resources"} == {
        "kind": "APIResourceList",
        "groupVersion": "v1",
    }
    listed = {line["name"]: line for line in found["resources"]}
    assert list(listed) == [
        "configmaps",
        "events",
        "namespaces",
        "namespaces/finalize",
        "namespaces/status",
        "secrets",
        "serviceaccounts",
        "serviceaccounts/token",
    ]
    assert listed["namespaces"] == {
        "name": "namespaces",
        "singularName": "namespace",
        "namespaced": False,
        "kind": "Namespace",
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        "shortNames": ["ns"],
        "storageVersionHash": "Q3oi5N2YM8M=",
    }
    assert listed["serviceaccounts/token"] == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }


def test_resources_of_a_definition() -> None:
    found = read("/apis/stable.example.com/v1")
    assert (found["kind"], found["apiVersion"], found["groupVersion"]) == (
        "APIResourceList",
        "v1",
        "stable.example.com/v1",
    )
    verbs = ["get", "patch", "update"]
    below = {"singularName": "", "namespaced": True, "verbs": verbs}
    assert found["resources"] == [
        {
            "name": "crontabs",
            "singularName": "crontab",
            "namespaced": True,
            "kind": "CronTab",
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["ct"],
            "categories": ["all"],
            "storageVersionHash": "EdX2FP+L0js=",
        },
        {"name": "crontabs/status", "kind": "CronTab", **below},
        {"name": "crontabs/scale", "group": "autoscaling", "version": "v1", "kind": "Scale", **below},
    ]


def test_all_versions_of_a_definition_are_stored_alike() -> None:
    hashes = {read(f"/apis/stable.example.com/{v}")["resources"][0]["storageVersionHash"] for v in ("v1", "v1beta1")}
    assert len(hashes) == 1


def test_what_is_not_stored_has_no_storage_version() -> None:
    reviews = read("/apis/authorization.k8s.io/v1")["resources"]
    status = Registry([r for r in builtins.profile_resources("cluster") if r.plural == "componentstatuses"])
    answer = DiscoveryHandler().handle(status, "/api/v1", Request("GET", "/api/v1"))
    assert isinstance(answer.body, bytes)
    assert not any("storageVersionHash" in line for line in [*reviews, *json.loads(answer.body)["resources"]])


@pytest.mark.parametrize("path", ["/api/v2", "/apis/apps", "/apis/apps/v1", "/apis/stable.example.com/v2"])
def test_what_is_not_served(path: str) -> None:
    with pytest.raises(NotFound, match=r"^the server could not find the requested resource$"):
        ask(path)


# --- aggregated, as kubectl asks ---


def test_a_definition_aggregated() -> None:
    found = read("/apis", KUBECTL)
    assert {key: value for key, value in found.items() if key != "items"} == {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
    }
    group = found["items"][-1]
    assert group["metadata"] == {"name": "stable.example.com"}
    assert [(version["version"], version["freshness"]) for version in group["versions"]] == [
        ("v1", "Current"),
        ("v1beta1", "Current"),
    ]
    kind = {"group": "stable.example.com", "version": "v1", "kind": "CronTab"}
    verbs = ["get", "patch", "update"]
    assert group["versions"][0]["resources"] == [
        {
            "resource": "crontabs",
            "responseKind": kind,
            "scope": "Namespaced",
            "singularResource": "crontab",
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["ct"],
            "categories": ["all"],
            "subresources": [
                {"subresource": "status", "responseKind": kind, "verbs": verbs},
                {
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": verbs,
                },
            ],
        }
    ]


def test_the_core_group_aggregated() -> None:
    (group,) = read("/api", KUBECTL)["items"]
    assert group["metadata"] == {}
    (version,) = group["versions"]
    config_maps = version["resources"][0]
    assert config_maps == {
        "resource": "configmaps",
        "responseKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "scope": "Namespaced",
        "singularResource": "configmap",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["cm"],
    }
    assert version["resources"][2]["scope"] == "Cluster"


def test_the_core_group_is_not_among_the_others() -> None:
    names = [group["metadata"]["name"] for group in read("/apis", KUBECTL)["items"]]
    assert names == [group["name"] for group in read("/apis")["groups"]]


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (KUBECTL, "v2"),
        (AGGREGATED.format("v2beta1") + ",application/json", "v2beta1"),
        ("application/json;as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io", "v2"),
        (AGGREGATED.format("v2") + ";profile=nopeer", "v2"),
        (AGGREGATED.format("v3") + "," + AGGREGATED.format("v2"), "v2"),
        ("application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""),
        (AGGREGATED.format("v3"), ""),
        ("application/json," + AGGREGATED.format("v2"), ""),
        ("application/json", ""),
        ("*/*", ""),
        ("", ""),
    ],
)
def test_the_form_is_that_of_the_first_clause_that_can_be_had(accept: str, version: str) -> None:
    answer = ask("/apis", accept)
    assert answer.content_type == (AGGREGATED.format(version) if version else "application/json")
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["kind"] == ("APIGroupDiscoveryList" if version else "APIGroupList")
    assert ("Vary", "Accept") in answer.headers


def test_only_the_roots_are_aggregated() -> None:
    answer = ask("/apis/stable.example.com/v1", KUBECTL)
    assert answer.content_type == "application/json"


def test_discovery_is_not_sent_again() -> None:
    discovery = DiscoveryHandler()
    etag = dict(ask("/apis", KUBECTL, discovery).headers)["ETag"]
    assert ask("/apis", KUBECTL, discovery, **{"if-none-match": etag}).status == 304
    assert ask("/apis", "application/json", discovery, **{"if-none-match": etag}).status == 200
