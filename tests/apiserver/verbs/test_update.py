"""PUT: revisions, generations, kept and immutable fields."""

from __future__ import annotations

import threading
from typing import Any

from tests.serving import WIDGETS, Cluster, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def made(cluster: Cluster, name: str = "a", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = cluster.post(WIDGETS, widget(name, 1, **more)).ok()
    return found


def test_an_update_moves_revision_and_generation(widgets: Cluster) -> None:
    old = made(widgets)
    new = widgets.put(f"{WIDGETS}/a", old | {"spec": {"size": 2}}).ok()
    assert new["spec"] == {"size": 2, "replicas": 1}
    assert new["metadata"]["generation"] == 2
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
    for field in ("uid", "creationTimestamp", "name", "namespace"):
        assert new["metadata"][field] == old["metadata"][field]
    assert widgets.get(f"{WIDGETS}/a").ok() == new


def test_an_update_that_changes_nothing_keeps_the_revision(widgets: Cluster) -> None:
    old = made(widgets)
    assert widgets.put(f"{WIDGETS}/a", old).ok() == old
    before = widgets.get(WIDGETS).ok()["metadata"]["resourceVersion"]
    assert before == old["metadata"]["resourceVersion"], "nothing was written"


def test_metadata_does_not_count_as_a_generation(widgets: Cluster) -> None:
    old = made(widgets)
    old["metadata"]["labels"] = {"a": "b"}
    new = widgets.put(f"{WIDGETS}/a", old).ok()
    assert new["metadata"]["generation"] == 1
    assert new["metadata"]["labels"] == {"a": "b"}


def test_kinds_without_generations_have_none(cluster: Cluster) -> None:
    old = cluster.post(MAPS, config_map("a")).ok()
    new = cluster.put(f"{MAPS}/a", old | {"data": {"k": "v"}}).ok()
    assert "generation" not in new["metadata"]


def test_a_stale_revision_is_a_conflict(widgets: Cluster) -> None:
    old = made(widgets)
    widgets.put(f"{WIDGETS}/a", old | {"spec": {"size": 2}}).ok()
    answer = widgets.put(f"{WIDGETS}/a", old | {"spec": {"size": 3}})
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == f'Operation cannot be fulfilled on widgets.example.com "a": {MODIFIED}'
    assert answer["details"] == {"name": "a", "group": "example.com", "kind": "widgets"}
    assert widgets.get(f"{WIDGETS}/a").ok()["spec"]["size"] == 2


def test_a_custom_object_is_updated_only_at_a_revision(widgets: Cluster) -> None:
    made(widgets)
    answer = widgets.put(f"{WIDGETS}/a", widget("a", 2))
    said = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"] == f'widgets.example.com "a" is invalid: {said}'
    assert answer["details"]["kind"] == "widgets"
    other = widget("a", 2)
    other["metadata"]["uid"] = "other"
    assert "UID in precondition: other" in widgets.put(f"{WIDGETS}/a", other)["message"]


def test_a_builtin_may_be_replaced_whatever_its_revision(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a", {"k": "1"})).ok()
    assert cluster.put(f"{MAPS}/a", config_map("a", {"k": "2"})).ok()["data"] == {"k": "2"}


def test_what_does_not_exist_is_not_updated(widgets: Cluster) -> None:
    for body in (widget("a"), widget("a", resourceVersion="5")):
        answer = widgets.put(f"{WIDGETS}/a", body)
        assert (answer.status, answer["message"]) == (404, 'widgets.example.com "a" not found')


def test_some_builtins_are_created_by_an_update(cluster: Cluster) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    answer = cluster.put(path, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    assert answer.status == 201
    assert answer.ok()["spec"] == {"holderIdentity": "me"}


def test_name_and_namespace_are_those_of_the_path(widgets: Cluster) -> None:
    old = made(widgets)
    answer = widgets.put(f"{WIDGETS}/a", widget("b", resourceVersion=old["metadata"]["resourceVersion"]))
    assert (answer.status, answer["message"]) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    old["metadata"]["namespace"] = "other"
    answer = widgets.put(f"{WIDGETS}/a", old)
    assert (answer.status, answer["message"]) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_kind_and_version_are_those_of_the_path(widgets: Cluster) -> None:
    old = made(widgets)
    answer = widgets.put(f"{WIDGETS}/a", old | {"apiVersion": "example.com/v2"})
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    answer = widgets.put(f"{WIDGETS}/a", old | {"kind": "Gadget"})
    assert (answer.status, answer["reason"]) == (422, "Invalid")


def test_a_uid_is_a_precondition(widgets: Cluster) -> None:
    old = made(widgets)
    uid = old["metadata"]["uid"]
    old["metadata"]["uid"] = "other"
    answer = widgets.put(f"{WIDGETS}/a", old)
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"].endswith(f"Precondition failed: UID in precondition: other, UID in object meta: {uid}")
    del old["metadata"]["uid"]
    assert widgets.put(f"{WIDGETS}/a", old).ok()["metadata"]["uid"] == uid


def test_what_the_server_set_stays(widgets: Cluster) -> None:
    old = made(widgets)
    body = widget("a", 2, resourceVersion=old["metadata"]["resourceVersion"], generation=9,
                  creationTimestamp="2001-01-01T00:00:00Z")  # fmt: skip
    new = widgets.put(f"{WIDGETS}/a", body).ok()
    assert new["metadata"]["creationTimestamp"] == old["metadata"]["creationTimestamp"]
    assert new["metadata"]["generation"] == 2


def test_nobody_marks_for_deletion_by_update(widgets: Cluster) -> None:
    old = made(widgets)
    old["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z"
    answer = widgets.put(f"{WIDGETS}/a", old)
    assert "deletionTimestamp" not in widgets.get(f"{WIDGETS}/a").ok()["metadata"]
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"] == "metadata.deletionTimestamp"


def test_immutable_maps_and_secrets(cluster: Cluster) -> None:
    said = "Forbidden: field is immutable when `immutable` is set"
    cluster.post(MAPS, config_map("a", {"k": "1"}) | {"immutable": True}).ok()
    for patch, field in (({"data": {"k": "2"}}, "data"), ({"immutable": False}, "immutable")):
        answer = cluster.patch(f"{MAPS}/a", patch)
        assert (answer.status, answer["message"]) == (422, f'ConfigMap "a" is invalid: {field}: {said}')
    cluster.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": "y"}}}).ok()
    secrets = "/api/v1/namespaces/default/secrets"
    cluster.post(secrets, {"metadata": {"name": "s"}}).ok()
    answer = cluster.patch(f"{secrets}/s", {"type": "other"})
    assert answer["message"] == 'Secret "s" is invalid: type: Invalid value: "other": field is immutable'


def test_the_role_of_a_binding_is_immutable(cluster: Cluster) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    cluster.post(path, {"metadata": {"name": "b"}, "roleRef": role}).ok()
    answer = cluster.patch(f"{path}/b", {"roleRef": {"name": "edit"}})
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].endswith("cannot change roleRef")


def test_one_of_many_racing_updates_wins(widgets: Cluster) -> None:
    old = made(widgets)
    clients = [Cluster(widgets.server, widgets.name) for _ in range(8)]
    codes: list[int] = []

    def write(client: Cluster, size: int) -> None:
        codes.append(client.put(f"{WIDGETS}/a", old | {"spec": {"size": size}}).status)

    threads = [threading.Thread(target=write, args=(c, n + 2)) for n, c in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    assert sorted(codes) == [200] + [409] * 7


def test_who_changed_what(widgets: Cluster) -> None:
    old = widgets.post(f"{WIDGETS}?fieldManager=first", widget("a", 1)).ok()
    new = widgets.put(
        f"{WIDGETS}/a?fieldManager=second", old | {"spec": {"size": 2, "color": "red", "replicas": 1}}
    ).ok()
    entries = {entry["manager"]: entry for entry in new["metadata"]["managedFields"]}
    assert entries["first"]["fieldsV1"] == {"f:spec": {".": {}, "f:replicas": {}}}
    assert entries["second"]["fieldsV1"] == {"f:spec": {"f:color": {}, "f:size": {}}}
    for entry in entries.values():
        assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == (
            "Update",
            "example.com/v1",
            "FieldsV1",
        )
        assert entry["time"].endswith("Z")


def test_the_manager_is_the_agent_when_nobody_says(widgets: Cluster) -> None:
    made_by = widgets.post(WIDGETS, widget("a"), User_Agent="kubectl/v1.36 (linux)").ok()
    assert [entry["manager"] for entry in made_by["metadata"]["managedFields"]] == ["kubectl"]


def test_ownership_can_be_given_up(widgets: Cluster) -> None:
    old = made(widgets)
    assert old["metadata"]["managedFields"]
    old["metadata"]["managedFields"] = [{}]
    new = widgets.put(f"{WIDGETS}/a", old).ok()
    assert "managedFields" not in new["metadata"]
