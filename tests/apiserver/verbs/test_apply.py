"""Server-side apply: field ownership, conflicts, force, and removal of fields an owner drops."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import WIDGETS, Answer, Cluster, Server, config_map, fresh_cluster, widget

MAPS = "/api/v1/namespaces/default/configmaps"


def body(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def apply(cluster: Cluster, manager: str, config: dict[str, Any], *, force: bool = False, path: str = "") -> Answer:
    query = f"?fieldManager={manager}" + ("&force=true" if force else "")
    return cluster.patch((path or f"{WIDGETS}/{config['metadata']['name']}") + query, config, "apply")


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{e['manager']}/{e['operation']}" + (f"/{e['subresource']}" if "subresource" in e else ""): e["fieldsV1"]
        for e in obj["metadata"].get("managedFields", ())
    }


def test_apply_creates_what_is_not_there(widgets: Cluster) -> None:
    answer = apply(widgets, "one", body(size=2))
    assert answer.status == 201
    made = answer.ok()
    assert made["spec"] == {"size": 2, "replicas": 1}
    assert made["metadata"]["generation"] == 1
    assert owners(made) == {"one/Apply": {"f:spec": {"f:size": {}}}}
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("example.com/v1", "FieldsV1")


def test_applying_the_same_again_changes_nothing(widgets: Cluster) -> None:
    made = apply(widgets, "one", body(size=2)).ok()
    answer = apply(widgets, "one", body(size=2))
    assert (answer.status, answer.json) == (200, made)


def test_the_name_is_not_left_to_the_path(widgets: Cluster) -> None:
    config = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1}}
    answer = widgets.patch(f"{WIDGETS}/b?fieldManager=one", config, "apply")
    said = "the name of the object (b based on URL) was undeterminable: name must be provided"
    assert (answer.status, answer["message"]) == (400, said)


@pytest.mark.parametrize("port", [[1], {}, True, 1.5])
def test_what_its_schema_lets_pass_is_read_as_go_would(still_server: Server, port: Any) -> None:
    cluster = fresh_cluster(still_server, profile="cluster")
    config = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    config["spec"] = {"ports": [{"port": 80, "targetPort": port}]}
    answer = apply(cluster, "one", config, path="/api/v1/namespaces/default/services/a")
    assert answer.status == 400
    assert "unable to convert unstructured object to /v1, Kind=Service" in answer["message"]
    assert "into Go value of type int32" in answer["message"]
    cluster.close()


def test_yaml_is_what_the_type_says(widgets: Cluster) -> None:
    text = b"apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 3\n"
    headers = {"Content_Type": "application/apply-patch+yaml"}
    made = widgets.request("PATCH", f"{WIDGETS}/a?fieldManager=one", text, **headers).ok()
    assert made["spec"]["size"] == 3


def test_json_with_what_only_yaml_takes_is_yaml(widgets: Cluster) -> None:
    body = b'{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w",},\n\t"spec": {"size": 3,}}'
    found = widgets.patch(f"{WIDGETS}/w?fieldManager=m", body, "apply").ok()
    assert found["spec"]["size"] == 3


def test_two_managers_share_an_object(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1)).ok()
    new = apply(widgets, "two", body(color="red")).ok()
    assert new["spec"] == {"size": 1, "replicas": 1, "color": "red"}
    assert owners(new) == {"one/Apply": {"f:spec": {"f:size": {}}}, "two/Apply": {"f:spec": {"f:color": {}}}}


def test_a_value_of_another_manager_is_a_conflict(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1, color="red")).ok()
    answer = apply(widgets, "two", body(size=2))
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.size'
    assert answer["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.size"}
    ]
    answer = apply(widgets, "two", body(size=2, color="blue"))
    assert answer["message"] == ('Apply failed with 2 conflicts: conflicts with "one":\n- .spec.color\n- .spec.size')
    assert widgets.get(f"{WIDGETS}/a").ok()["spec"]["size"] == 1


def test_a_conflict_with_an_update_says_how_it_was_written(widgets: Cluster) -> None:
    widgets.post(f"{WIDGETS}?fieldManager=editor", widget("a", 1)).ok()
    answer = apply(widgets, "one", body(size=2))
    assert answer.status == 409
    assert answer["message"].startswith('Apply failed with 1 conflict: conflict with "editor" using example.com/v1')


def test_agreeing_is_no_conflict(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1)).ok()
    new = apply(widgets, "two", body(size=1)).ok()
    assert owners(new) == {"one/Apply": {"f:spec": {"f:size": {}}}, "two/Apply": {"f:spec": {"f:size": {}}}}


def test_force_takes_the_field(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1, color="red")).ok()
    new = apply(widgets, "two", body(size=2), force=True).ok()
    assert new["spec"]["size"] == 2
    assert owners(new) == {"one/Apply": {"f:spec": {"f:color": {}}}, "two/Apply": {"f:spec": {"f:size": {}}}}


def test_what_is_no_longer_applied_goes(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1, color="red")).ok()
    new = apply(widgets, "one", body(size=1)).ok()
    assert "color" not in new["spec"]
    assert owners(new) == {"one/Apply": {"f:spec": {"f:size": {}}}}


def test_what_another_manager_owns_too_stays(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1, color="red")).ok()
    apply(widgets, "two", body(color="red")).ok()
    new = apply(widgets, "one", body(size=1)).ok()
    assert new["spec"]["color"] == "red"
    assert owners(new)["two/Apply"] == {"f:spec": {"f:color": {}}}


def test_lists_are_merged_by_their_keys(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1, parts=[{"name": "x", "count": 1}])).ok()
    new = apply(widgets, "two", body(parts=[{"name": "y", "count": 2}])).ok()
    assert new["spec"]["parts"] == [{"name": "x", "count": 1}, {"name": "y", "count": 2}]
    part: dict[str, Any] = {".": {}, "f:count": {}, "f:name": {}}
    assert owners(new)["two/Apply"] == {"f:spec": {"f:parts": {'k:{"name":"y"}': part}}}
    new = apply(widgets, "one", body(size=1)).ok()
    assert new["spec"]["parts"] == [{"name": "y", "count": 2}]


def test_an_update_takes_what_it_changes(widgets: Cluster) -> None:
    made = apply(widgets, "one", body(size=1, color="red")).ok()
    new = widgets.put(f"{WIDGETS}/a?fieldManager=hand", made | {"spec": {**made["spec"], "size": 9}}).ok()
    assert owners(new)["one/Apply"] == {"f:spec": {"f:color": {}}}
    assert owners(new)["hand/Update"] == {"f:spec": {"f:size": {}}}
    assert apply(widgets, "one", body(size=1, color="red")).status == 409


def test_a_manager_is_required(widgets: Cluster) -> None:
    answer = widgets.patch(f"{WIDGETS}/a", body(size=1), "apply")
    assert (answer.status, answer["message"]) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    )


def test_managed_fields_are_not_applied(widgets: Cluster) -> None:
    config = body(size=1)
    config["metadata"]["managedFields"] = [{"manager": "x"}]
    answer = apply(widgets, "one", config)
    assert (answer.status, answer["message"]) == (400, "metadata.managedFields must be nil")


def test_a_uid_does_not_create(widgets: Cluster) -> None:
    config = body(size=1)
    config["metadata"]["uid"] = "5"
    answer = apply(widgets, "one", config)
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == (
        'Operation cannot be fulfilled on widgets.example.com "a": uid mismatch: '
        "the provided object specified uid 5, and no existing object was found"
    )


def test_a_stale_revision_is_a_conflict(widgets: Cluster) -> None:
    made = apply(widgets, "one", body(size=1)).ok()
    config = body(size=2)
    config["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    apply(widgets, "one", config).ok()
    config["spec"]["size"] = 3
    answer = apply(widgets, "one", config)
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer["message"]


@pytest.mark.parametrize("text", [b"", b"[]", b"a: [", b"just text"])
def test_a_body_that_is_no_object(widgets: Cluster, text: bytes) -> None:
    headers = {"Content_Type": "application/apply-patch+yaml"}
    answer = widgets.request("PATCH", f"{WIDGETS}/a?fieldManager=one", text, **headers)
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


def test_the_name_must_be_that_of_the_path(widgets: Cluster) -> None:
    answer = apply(widgets, "one", body("b", size=1), path=f"{WIDGETS}/a")
    assert (answer.status, answer["message"]) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )


def test_a_field_nobody_declared_is_refused(widgets: Cluster) -> None:
    answer = apply(widgets, "one", body(size=1, weight=3))
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert answer["message"].startswith("failed to create typed patch object (")
    assert answer["message"].endswith("example.com/v1, Kind=Widget): .spec.weight: field not declared in schema")


def test_an_applied_object_is_validated(widgets: Cluster) -> None:
    answer = apply(widgets, "one", body(color="red"))
    assert (answer.status, answer["message"]) == (422, 'Widget.example.com "a" is invalid: spec.size: Required value')


def test_applying_a_status_touches_the_status_only(widgets: Cluster) -> None:
    apply(widgets, "one", body(size=1)).ok()
    config = body(size=9) | {"status": {"phase": "fine"}}
    new = apply(widgets, "two", config, path=f"{WIDGETS}/a/status", force=True).ok()
    assert new["spec"]["size"] == 1
    assert new["status"] == {"phase": "fine"}
    assert new["metadata"]["generation"] == 1
    assert owners(new) == {
        "one/Apply": {"f:spec": {"f:size": {}}},
        "two/Apply/status": {"f:status": {"f:phase": {}}},
    }


def test_applying_the_object_leaves_its_status(widgets: Cluster) -> None:
    made = apply(widgets, "one", body(size=1) | {"status": {"phase": "mine"}}).ok()
    assert "status" not in made
    assert owners(made) == {"one/Apply": {"f:spec": {"f:size": {}}}}


def test_a_status_of_nothing_is_not_created(widgets: Cluster) -> None:
    config = body() | {"status": {"phase": "fine"}}
    assert apply(widgets, "one", config, path=f"{WIDGETS}/a/status").status == 404


def test_builtins_are_applied_too(cluster: Cluster) -> None:
    made = apply(cluster, "one", config_map("a", {"x": "1"}), path=f"{MAPS}/a").ok()
    assert owners(made) == {"one/Apply": {"f:data": {"f:x": {}}}}
    new = apply(cluster, "two", config_map("a", {"y": "2"}), path=f"{MAPS}/a").ok()
    assert new["data"] == {"x": "1", "y": "2"}
    new = apply(cluster, "one", config_map("a"), path=f"{MAPS}/a").ok()
    assert new["data"] == {"y": "2"}


def test_client_side_ownership_moves_over(cluster: Cluster) -> None:
    """What `kubectl apply` wrote before belongs to `kubectl apply --server-side` after, if it is of one manager."""
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","y":"2"}}'
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    made = config_map("a", {"x": "1", "y": "2"}, annotations=annotations)
    cluster.post(f"{MAPS}?fieldManager=kubectl-client-side-apply", made).ok()
    new = apply(cluster, "kubectl", config_map("a", {"x": "5"}), path=f"{MAPS}/a")
    assert new.ok()["data"]["x"] == "5"


def test_labels_are_owned_one_by_one(widgets: Cluster) -> None:
    config = body(size=1)
    config["metadata"]["labels"] = {"app": "x"}
    made = apply(widgets, "one", config).ok()
    assert owners(made)["one/Apply"] == {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:size": {}}}
