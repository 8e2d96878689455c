"""dryRun=All: the response of a real request, and nothing stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"
DRY = "dryRun=All"


@pytest.fixture
def a(widgets: Cluster) -> dict[str, Any]:
    made: dict[str, Any] = widgets.post(WIDGETS, widget("a", 1)).ok()
    return made


def unchanged(cluster: Cluster, a: dict[str, Any]) -> None:
    found = cluster.get(WIDGETS).ok()
    assert found["items"] == [a]
    assert found["metadata"]["resourceVersion"] == a["metadata"]["resourceVersion"]


def test_create(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.post(f"{WIDGETS}?{DRY}", widget("b", 3))
    assert answer.status == 201
    made = answer.ok()
    assert made["spec"] == {"size": 3, "replicas": 1}
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    unchanged(widgets, a)


def test_create_generates_a_name(widgets: Cluster, a: dict[str, Any]) -> None:
    made = widgets.post(f"{WIDGETS}?{DRY}", widget("") | {"metadata": {"generateName": "g-"}}).ok()
    assert made["metadata"]["name"].startswith("g-")
    unchanged(widgets, a)


def test_create_of_what_exists(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.post(f"{WIDGETS}?{DRY}", widget("a"))
    assert (answer.status, answer["reason"]) == (409, "AlreadyExists")


def test_create_is_validated(widgets: Cluster, a: dict[str, Any]) -> None:
    assert widgets.post(f"{WIDGETS}?{DRY}", widget("b", 0)).status == 422
    assert widgets.post(f"/api/v1/namespaces/nowhere/configmaps?{DRY}", config_map("b")).status == 404


def test_update(widgets: Cluster, a: dict[str, Any]) -> None:
    new = widgets.put(f"{WIDGETS}/a?{DRY}", a | {"spec": {"size": 2}}).ok()
    assert new["spec"] == {"size": 2, "replicas": 1}
    assert new["metadata"]["generation"] == 2
    assert new["metadata"]["resourceVersion"] == a["metadata"]["resourceVersion"]
    unchanged(widgets, a)


def test_patches(widgets: Cluster, a: dict[str, Any]) -> None:
    assert widgets.patch(f"{WIDGETS}/a?{DRY}", {"spec": {"size": 2}}).ok()["spec"]["size"] == 2
    operations = [{"op": "replace", "path": "/spec/size", "value": 3}]
    assert widgets.patch(f"{WIDGETS}/a?{DRY}", operations, "json").ok()["spec"]["size"] == 3
    unchanged(widgets, a)


def test_apply(widgets: Cluster, a: dict[str, Any]) -> None:
    new = widgets.patch(f"{WIDGETS}/a?{DRY}&fieldManager=x&force=true", widget("a", 2), "apply").ok()
    assert new["spec"]["size"] == 2
    answer = widgets.patch(f"{WIDGETS}/b?{DRY}&fieldManager=x", widget("b", 2), "apply")
    assert answer.status == 201
    unchanged(widgets, a)


def test_status_and_scale(widgets: Cluster, a: dict[str, Any]) -> None:
    assert widgets.patch(f"{WIDGETS}/a/status?{DRY}", {"status": {"n": 1}}).ok()["status"] == {"n": 1}
    assert widgets.patch(f"{WIDGETS}/a/scale?{DRY}", {"spec": {"replicas": 9}}).ok()["spec"] == {"replicas": 9}
    unchanged(widgets, a)


def test_delete(widgets: Cluster, a: dict[str, Any]) -> None:
    for answer in (widgets.delete(f"{WIDGETS}/a?{DRY}"), widgets.delete(f"{WIDGETS}/a", {"dryRun": ["All"]})):
        assert answer.ok()["status"] == "Success"
    unchanged(widgets, a)


def test_delete_of_what_is_held(widgets: Cluster) -> None:
    a = widgets.post(WIDGETS, widget("a", finalizers=["example.com/f"])).ok()
    marked = widgets.delete(f"{WIDGETS}/a?{DRY}").ok()
    assert "deletionTimestamp" in marked["metadata"]
    unchanged(widgets, a)


def test_the_last_finalizer(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", finalizers=["example.com/f"])).ok()
    widgets.delete(f"{WIDGETS}/a").ok()
    marked = widgets.get(f"{WIDGETS}/a").ok()
    widgets.patch(f"{WIDGETS}/a?{DRY}", {"metadata": {"finalizers": None}}).ok()
    unchanged(widgets, marked)


def test_delete_of_a_collection(widgets: Cluster, a: dict[str, Any]) -> None:
    assert len(widgets.delete(f"{WIDGETS}?{DRY}").ok()["items"]) == 1
    unchanged(widgets, a)


def test_a_namespace(cluster: Cluster) -> None:
    cluster.post(f"/api/v1/namespaces?{DRY}", {"metadata": {"name": "n"}}).ok()
    assert cluster.get("/api/v1/namespaces/n").status == 404
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).ok()
    cluster.delete(f"/api/v1/namespaces/n?{DRY}").ok()
    assert cluster.get("/api/v1/namespaces/n").ok()["status"] == {"phase": "Active"}


def test_a_bootstrap_object(cluster: Cluster) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    before = cluster.get(f"{roles}/view").ok()
    cluster.patch(f"{roles}/view?{DRY}", {"metadata": {"labels": {"x": "y"}}}).ok()
    cluster.delete(f"{roles}/view?{DRY}").ok()
    assert cluster.get(f"{roles}/view").ok() == before


def test_a_definition(cluster: Cluster) -> None:
    from_the_widgets = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    }
    cluster.post(f"{from_the_widgets}?{DRY}", {"metadata": {"name": "widgets.example.com"}, "spec": spec}).ok()
    assert cluster.get(WIDGETS).status == 404


@pytest.mark.parametrize("kind", ["CreateOptions", "UpdateOptions", "PatchOptions", "DeleteOptions"])
def test_anything_else_is_refused(widgets: Cluster, a: dict[str, Any], kind: str) -> None:
    answer = {
        "CreateOptions": lambda: widgets.post(f"{WIDGETS}?dryRun=Some", widget("b")),
        "UpdateOptions": lambda: widgets.put(f"{WIDGETS}/a?dryRun=Some", a),
        "PatchOptions": lambda: widgets.patch(f"{WIDGETS}/a?dryRun=Some", {}),
        "DeleteOptions": lambda: widgets.delete(f"{WIDGETS}/a?dryRun=Some"),
    }[kind]()
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"] == (
        f'{kind}.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )
    unchanged(widgets, a)


def test_reviews_are_answered(cluster: Cluster) -> None:
    body: dict[str, Any] = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert cluster.post(f"{path}?{DRY}", body).ok()["status"]["allowed"] is True


def test_no_token_is_made(cluster: Cluster) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.post(accounts, {"metadata": {"name": "a"}}).ok()
    answer = cluster.post(f"{accounts}/a/token?{DRY}", {"spec": {}}).ok()
    assert not answer["status"]["token"]


def test_all_that_is_asked_for_has_to_be_known(cluster: Cluster) -> None:
    answer = cluster.post(f"{MAPS}?{DRY}&dryRun=Other", config_map("a"))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert 'dryRun: Unsupported value: ["All","Other"]: supported values: "All"' in answer["message"]
    assert cluster.post(f"{MAPS}?{DRY}&{DRY}", config_map("a")).status == 201
    assert cluster.get(f"{MAPS}/a").status == 404
