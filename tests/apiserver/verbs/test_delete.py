"""DELETE of one object and of a collection: finalizers, preconditions, responses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"
HOLD = "example.com/hold"


def names(found: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


def test_a_deletion_says_what_it_deleted(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    answer = widgets.delete(f"{WIDGETS}/a")
    assert answer.status == 200
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "group": "example.com", "kind": "widgets", "uid": made["metadata"]["uid"]},
    }
    assert widgets.get(f"{WIDGETS}/a").status == 404
    assert widgets.delete(f"{WIDGETS}/a")["message"] == 'widgets.example.com "a" not found'


def test_some_kinds_give_the_object_back(cluster: Cluster) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    made = cluster.post(accounts, {"metadata": {"name": "a"}}).ok()
    assert cluster.delete(f"{accounts}/a").ok() == made


def test_a_new_object_of_the_name_is_another(widgets: Cluster) -> None:
    first = widgets.post(WIDGETS, widget("a")).ok()
    widgets.delete(f"{WIDGETS}/a").ok()
    second = widgets.post(WIDGETS, widget("a")).ok()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_finalizers_come_first(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", finalizers=[HOLD])).ok()
    marked = widgets.delete(f"{WIDGETS}/a").ok()
    assert marked["kind"] == "Widget"
    metadata = marked["metadata"]
    assert metadata["deletionTimestamp"].endswith("Z")
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == made["metadata"]["generation"] + 1
    assert int(metadata["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert widgets.delete(f"{WIDGETS}/a").ok() == marked, "again changes nothing"
    gone = widgets.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}}).ok()
    assert gone["metadata"]["uid"] == made["metadata"]["uid"]
    assert widgets.get(f"{WIDGETS}/a").status == 404


def test_each_finalizer_is_waited_for(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", finalizers=[HOLD, "example.com/other"])).ok()
    widgets.delete(f"{WIDGETS}/a").ok()
    widgets.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": [HOLD]}}).ok()
    assert widgets.get(f"{WIDGETS}/a").ok()["metadata"]["finalizers"] == [HOLD]
    held = widgets.get(f"{WIDGETS}/a").ok()
    del held["metadata"]["finalizers"]
    widgets.put(f"{WIDGETS}/a", held).ok()
    assert widgets.get(f"{WIDGETS}/a").status == 404


def test_no_finalizer_is_added_to_what_is_going(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", finalizers=[HOLD])).ok()
    widgets.delete(f"{WIDGETS}/a").ok()
    answer = widgets.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": [HOLD, "example.com/new"]}})
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"] == (
        'Widget.example.com "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the '
        'object is being deleted, found new finalizers []string{"example.com/new"}'
    )


def test_what_is_going_can_still_be_changed(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", finalizers=[HOLD])).ok()
    marked = widgets.delete(f"{WIDGETS}/a").ok()
    new = widgets.patch(f"{WIDGETS}/a", {"spec": {"size": 8}, "metadata": {"deletionTimestamp": None}}).ok()
    assert new["spec"]["size"] == 8
    assert new["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]


def test_the_watch_sees_the_mark_and_the_end(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", finalizers=[HOLD])).ok()
    with widgets.watch(f"{WIDGETS}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        widgets.delete(f"{WIDGETS}/a").ok()
        widgets.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": []}}).ok()
        marked, gone = watch.take(2)
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(marked["object"]["metadata"]["resourceVersion"])


def test_preconditions(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()["metadata"]
    answer = widgets.delete(f"{WIDGETS}/a", {"preconditions": {"uid": "other"}})
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == (
        'Operation cannot be fulfilled on Widget.example.com "a": the UID in the precondition (other) does not match '
        f"the UID in record ({made['uid']}). The object might have been deleted and then recreated"
    )
    assert answer["details"] == {"name": "a", "group": "example.com", "kind": "Widget"}
    answer = widgets.delete(f"{WIDGETS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert answer["message"] == (
        'Operation cannot be fulfilled on Widget.example.com "a": the ResourceVersion in the precondition (1) does '
        f"not match the ResourceVersion in record ({made['resourceVersion']}). The object might have been modified"
    )
    good = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": good}
    assert widgets.delete(f"{WIDGETS}/a", options).ok()["status"] == "Success"


@pytest.mark.parametrize(("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")])
def test_a_policy_leaves_its_finalizer(cluster: Cluster, policy: str, finalizer: str) -> None:
    for name, options in (("a", None), ("b", {"propagationPolicy": policy})):
        cluster.post(MAPS, config_map(name)).ok()
        query = "" if options else f"?propagationPolicy={policy}"
        marked = cluster.delete(f"{MAPS}/{name}{query}", options).ok()
        assert marked["kind"] == "ConfigMap"
        assert marked["metadata"]["finalizers"] == [finalizer]
        assert "deletionTimestamp" in marked["metadata"]


def test_the_usual_policy_is_background(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    assert cluster.delete(f"{MAPS}/a?propagationPolicy=Background").ok()["status"] == "Success"


@pytest.mark.parametrize(
    ("query", "body", "message"),
    [
        (
            "?propagationPolicy=Some",
            None,
            (
                'propagationPolicy: Unsupported value: "Some": supported values: '
                '"Foreground", "Background", "Orphan", "nil"'
            ),
        ),
        ("?dryRun=Some", None, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        (
            "",
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
    ],
)
def test_options_that_are_none(cluster: Cluster, query: str, body: object, message: str) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.delete(f"{MAPS}/a{query}", body)
    assert (answer.status, answer["message"]) == (422, f'DeleteOptions.meta.k8s.io "" is invalid: {message}')
    cluster.get(f"{MAPS}/a").ok()


def test_a_body_of_another_kind(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.delete(f"{MAPS}/a", {"kind": "ConfigMap", "apiVersion": "v1"})
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    cluster.get(f"{MAPS}/a").ok()


# --- collections ---


def test_a_collection_goes_and_is_listed(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.post(MAPS, config_map(name)).ok()
    found = cluster.delete(MAPS).ok()
    assert (found["kind"], names(found)) == ("ConfigMapList", ["a", "b"])
    assert names(cluster.get(MAPS).ok()) == []
    assert names(cluster.delete(MAPS).ok()) == []


def test_a_collection_by_selector(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.post(MAPS, config_map(name, labels={"app": "x" if name != "b" else "y"})).ok()
    assert names(cluster.delete(f"{MAPS}?labelSelector=app%3Dx").ok()) == ["a", "c"]
    assert names(cluster.get(MAPS).ok()) == ["b"]
    cluster.post(MAPS, config_map("d")).ok()
    cluster.delete(f"{MAPS}?fieldSelector=metadata.name%3Dd").ok()
    assert names(cluster.get(MAPS).ok()) == ["b"]


def test_a_collection_of_one_namespace(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "other"}}).ok()
    cluster.post("/api/v1/namespaces/other/configmaps", config_map("o")).ok()
    cluster.post(MAPS, config_map("a")).ok()
    cluster.delete(MAPS).ok()
    assert names(cluster.get("/api/v1/configmaps").ok()) == ["o"]


def test_a_collection_waits_for_finalizers(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", finalizers=[HOLD])).ok()
    widgets.post(WIDGETS, widget("b")).ok()
    widgets.delete(WIDGETS).ok()
    (left,) = widgets.get(WIDGETS).ok()["items"]
    assert left["metadata"]["name"] == "a"
    assert "deletionTimestamp" in left["metadata"]


def test_a_bad_selector_deletes_nothing(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    assert cluster.delete(f"{MAPS}?labelSelector=a%3D%3D%3Db").status == 400
    cluster.get(f"{MAPS}/a").ok()


def test_a_large_collection(cluster: Cluster) -> None:
    for number in range(300):
        cluster.post(MAPS, config_map(f"m{number}")).ok()
    assert len(cluster.delete(MAPS).ok()["items"]) == 300
    assert names(cluster.get(MAPS).ok()) == []
