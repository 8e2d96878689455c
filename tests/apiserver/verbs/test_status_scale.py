"""The status and scale subresources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, widget, widget_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def a(widgets: Cluster) -> dict[str, Any]:
    made: dict[str, Any] = widgets.post(f"{WIDGETS}?fieldManager=maker", widget("a", 1)).ok()
    return made


def test_status_is_written_by_its_own_path_only(widgets: Cluster, a: dict[str, Any]) -> None:
    new = widgets.put(f"{WIDGETS}/a/status", a | {"status": {"phase": "x"}, "spec": {"size": 50}}).ok()
    assert new["status"] == {"phase": "x"}
    assert new["spec"] == a["spec"]
    assert new["metadata"]["generation"] == 1
    new = widgets.put(f"{WIDGETS}/a", new | {"status": {"phase": "y"}, "spec": {"size": 2}}).ok()
    assert new["status"] == {"phase": "x"}
    assert new["spec"]["size"] == 2
    assert new["metadata"]["generation"] == 2
    del new["status"]
    assert widgets.put(f"{WIDGETS}/a", new).ok()["status"] == {"phase": "x"}


def test_a_write_to_status_leaves_metadata(widgets: Cluster, a: dict[str, Any]) -> None:
    patch = {"metadata": {"labels": {"x": "y"}, "finalizers": ["example.com/f"]}, "status": {"n": 1}}
    new = widgets.patch(f"{WIDGETS}/a/status", patch).ok()
    assert "labels" not in new["metadata"]
    assert "finalizers" not in new["metadata"]
    assert new["status"] == {"n": 1}


def test_status_is_read_by_its_path_too(widgets: Cluster, a: dict[str, Any]) -> None:
    assert widgets.get(f"{WIDGETS}/a/status").ok() == a


def test_json_and_merge_patches_of_status(widgets: Cluster, a: dict[str, Any]) -> None:
    new = widgets.patch(f"{WIDGETS}/a/status", [{"op": "add", "path": "/status", "value": {"n": 1}}], "json").ok()
    assert new["status"] == {"n": 1}
    new = widgets.patch(f"{WIDGETS}/a/status", {"status": {"n": None, "m": 2}}).ok()
    assert new["status"] == {"m": 2}


def test_a_status_is_owned_by_subresource(widgets: Cluster, a: dict[str, Any]) -> None:
    new = widgets.patch(f"{WIDGETS}/a/status?fieldManager=maker", {"status": {"n": 1}}).ok()
    entries = [(e["manager"], e.get("subresource"), e["fieldsV1"]) for e in new["metadata"]["managedFields"]]
    assert ("maker", None, {"f:spec": {".": {}, "f:replicas": {}, "f:size": {}}}) in entries
    assert ("maker", "status", {"f:status": {".": {}, "f:n": {}}}) in entries


def test_a_stale_status_is_a_conflict(widgets: Cluster, a: dict[str, Any]) -> None:
    widgets.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}).ok()
    answer = widgets.put(f"{WIDGETS}/a/status", a | {"status": {"n": 1}})
    assert (answer.status, answer["reason"]) == (409, "Conflict")


def test_a_status_is_not_created_or_deleted(widgets: Cluster, a: dict[str, Any]) -> None:
    assert widgets.put(f"{WIDGETS}/b/status", widget("b", resourceVersion="1")).status == 404
    for method in ("POST", "DELETE"):
        answer = widgets.request(method, f"{WIDGETS}/a/status", widget("a") if method == "POST" else None)
        assert (answer.status, answer["reason"]) == (405, "MethodNotAllowed")


def test_without_the_subresource_status_is_a_field(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, widget_definition(subresources={})).ok()
    made = cluster.post(WIDGETS, widget("a") | {"status": {"n": 1}}).ok()
    assert made["status"] == {"n": 1}
    new = cluster.put(f"{WIDGETS}/a", made | {"status": {"n": 2}}).ok()
    assert new["metadata"]["generation"] == 2
    assert cluster.get(f"{WIDGETS}/a/status").status == 404
    assert cluster.get(f"{WIDGETS}/a/scale").status == 404


def test_a_namespace_status_is_written_by_its_path(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).ok()
    condition = {"type": "Fine", "status": "True", "reason": "r", "message": "m"}
    new = cluster.patch("/api/v1/namespaces/n/status", {"status": {"conditions": [condition]}}).ok()
    assert new["status"]["phase"] == "Active"
    assert new["status"]["conditions"][0]["type"] == "Fine"
    new = cluster.patch("/api/v1/namespaces/n", {"status": {"conditions": None}}).ok()
    assert new["status"]["conditions"][0]["type"] == "Fine"


# --- scale ---


def scale(replicas: int, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "namespace": "default", **metadata},
        "spec": {"replicas": replicas},
    }


def test_a_scale_is_read_from_its_paths(widgets: Cluster, a: dict[str, Any]) -> None:
    widgets.patch(f"{WIDGETS}/a/status", {"status": {"replicas": 7}}).ok()
    found = widgets.get(f"{WIDGETS}/a/scale").ok()
    metadata = widgets.get(f"{WIDGETS}/a").ok()["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert found == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept},
        "spec": {"replicas": 1},
        "status": {"replicas": 7},
    }


def test_a_scale_is_written_to_the_object(widgets: Cluster, a: dict[str, Any]) -> None:
    found = widgets.put(f"{WIDGETS}/a/scale", scale(5)).ok()
    assert (found["kind"], found["spec"]) == ("Scale", {"replicas": 5})
    new = widgets.get(f"{WIDGETS}/a").ok()
    assert new["spec"] == {"size": 1, "replicas": 5}
    assert new["metadata"]["generation"] == 2
    assert found["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]
    found = widgets.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 6}}).ok()
    assert found["spec"] == {"replicas": 6}
    found = widgets.patch(f"{WIDGETS}/a/scale", [{"op": "replace", "path": "/spec/replicas", "value": 8}], "json").ok()
    assert found["spec"] == {"replicas": 8}


def test_a_scale_to_zero(widgets: Cluster, a: dict[str, Any]) -> None:
    found = widgets.put(f"{WIDGETS}/a/scale", scale(0)).ok()
    assert found["spec"].get("replicas", 0) == 0
    assert widgets.get(f"{WIDGETS}/a").ok()["spec"]["replicas"] == 0


def test_a_scale_has_preconditions(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.put(f"{WIDGETS}/a/scale", scale(5, resourceVersion="1"))
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    widgets.put(f"{WIDGETS}/a/scale", scale(5, resourceVersion=a["metadata"]["resourceVersion"])).ok()


def test_a_scale_is_checked(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.put(f"{WIDGETS}/a/scale", scale(-1))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"] == "spec.replicas"
    answer = widgets.put(f"{WIDGETS}/a/scale", scale(1) | {"metadata": {"name": "b"}})
    assert (answer.status, answer["message"]) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    answer = widgets.put(f"{WIDGETS}/a/scale", {**widget("a")})
    assert answer.status == 400
    assert widgets.get(f"{WIDGETS}/b/scale").status == 404
    assert widgets.get(f"{WIDGETS}/a").ok() == a


def test_a_scale_is_no_table(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.get(f"{WIDGETS}/a/scale", Accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    assert (answer.status, answer["reason"]) == (406, "NotAcceptable")


def test_a_scale_is_owned_by_subresource(widgets: Cluster, a: dict[str, Any]) -> None:
    widgets.put(f"{WIDGETS}/a/scale?fieldManager=scaler", scale(5)).ok()
    entries = widgets.get(f"{WIDGETS}/a").ok()["metadata"]["managedFields"]
    (entry,) = [e for e in entries if e["manager"] == "scaler"]
    assert (entry["subresource"], entry["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})


def test_a_selector_is_shown(cluster: Cluster) -> None:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    cluster.post(DEFINITIONS, widget_definition(subresources={"status": {}, "scale": paths})).ok()
    cluster.post(WIDGETS, widget("a")).ok()
    cluster.patch(f"{WIDGETS}/a/status", {"status": {"selector": "app=x"}}).ok()
    assert cluster.get(f"{WIDGETS}/a/scale").ok()["status"] == {"replicas": 0, "selector": "app=x"}
