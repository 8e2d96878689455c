"""PATCH: JSON, merge and strategic merge, their rejections, and concurrent patches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def a(widgets: Cluster) -> dict[str, Any]:
    made: dict[str, Any] = widgets.post(WIDGETS, widget("a", 1)).ok()
    return made


def test_a_merge_patch_sets_and_removes(widgets: Cluster, a: dict[str, Any]) -> None:
    widgets.patch(f"{WIDGETS}/a", {"spec": {"color": "red", "size": 2}}).ok()
    new = widgets.patch(f"{WIDGETS}/a", {"spec": {"color": None}, "metadata": {"labels": {"x": "y"}}}).ok()
    assert new["spec"] == {"size": 2, "replicas": 1}
    assert new["metadata"]["labels"] == {"x": "y"}
    assert new["metadata"]["generation"] == 3


def test_an_empty_patch_changes_nothing(widgets: Cluster, a: dict[str, Any]) -> None:
    assert widgets.patch(f"{WIDGETS}/a", {}).ok() == a
    assert widgets.patch(f"{WIDGETS}/a", {"spec": {"size": 1}}).ok() == a
    assert widgets.patch(f"{WIDGETS}/a", [], "json").ok() == a


def test_a_removed_default_comes_back(widgets: Cluster, a: dict[str, Any]) -> None:
    widgets.patch(f"{WIDGETS}/a", {"spec": {"replicas": 5}}).ok()
    assert widgets.patch(f"{WIDGETS}/a", {"spec": {"replicas": None}}).ok()["spec"]["replicas"] == 1


def test_a_json_patch(widgets: Cluster, a: dict[str, Any]) -> None:
    operations = [
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec/size", "value": 4},
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}},
        {"op": "copy", "from": "/spec/size", "path": "/spec/replicas"},
    ]
    new = widgets.patch(f"{WIDGETS}/a", operations, "json").ok()
    assert new["spec"] == {"size": 4, "replicas": 4}
    assert new["metadata"]["annotations"] == {"a/b": "c"}
    new = widgets.patch(f"{WIDGETS}/a", [{"op": "remove", "path": "/metadata/annotations/a~1b"}], "json").ok()
    assert not new["metadata"].get("annotations")


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/spec/size", "value": 5}],
        [{"op": "remove", "path": "/spec/nothing"}],
        [{"op": "replace", "path": "/spec/a/b", "value": 1}],
    ],
)
def test_a_json_patch_that_does_not_fit(widgets: Cluster, a: dict[str, Any], operations: list[Any]) -> None:
    answer = widgets.patch(f"{WIDGETS}/a", operations, "json")
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"] == "the server rejected our request due to an error in our request"
    assert widgets.get(f"{WIDGETS}/a").ok() == a


def test_too_many_operations(widgets: Cluster, a: dict[str, Any]) -> None:
    operations = [{"op": "test", "path": "/spec/size", "value": 1}] * 10_001
    answer = widgets.patch(f"{WIDGETS}/a", operations, "json")
    assert (answer.status, answer["reason"]) == (413, "RequestEntityTooLarge")
    said = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert answer["message"] == said


@pytest.mark.parametrize(
    ("body", "form"), [(b"{", "merge"), (b"", "merge"), (b"[]", "merge"), (b"{}", "json"), (b"[1]", "json")]
)
def test_a_body_that_is_no_patch(widgets: Cluster, a: dict[str, Any], body: bytes, form: str) -> None:
    answer = widgets.request("PATCH", f"{WIDGETS}/a", body, Content_Type=f"application/{form}-patch+json")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


def test_a_strategic_patch_merges_lists_by_key(cluster: Cluster) -> None:
    cluster.post(ACCOUNTS, {"metadata": {"name": "a"}, "secrets": [{"name": "x"}, {"name": "y"}]}).ok()
    new = cluster.patch(
        f"{ACCOUNTS}/a", {"secrets": [{"name": "y", "namespace": "n"}, {"name": "z"}]}, "strategic-merge"
    ).ok()
    assert sorted(secret["name"] for secret in new["secrets"]) == ["x", "y", "z"]
    patch = {"secrets": [{"$patch": "delete", "name": "x"}]}
    new = cluster.patch(f"{ACCOUNTS}/a", patch, "strategic-merge").ok()
    assert sorted(secret["name"] for secret in new["secrets"]) == ["y", "z"]
    new = cluster.patch(f"{ACCOUNTS}/a", {"secrets": [{"name": "only"}]}, "merge").ok()
    assert new["secrets"] == [{"name": "only"}]


def test_finalizers_are_merged_as_a_set(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a", finalizers=["example.com/a"])).ok()
    new = cluster.patch(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/b"]}}, "strategic-merge").ok()
    assert sorted(new["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"]}}
    assert not cluster.patch(f"{MAPS}/a", patch, "strategic-merge").ok()["metadata"].get("finalizers")


def test_custom_objects_have_no_strategic_merge(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.patch(f"{WIDGETS}/a", {}, "strategic-merge")
    assert (answer.status, answer["reason"]) == (415, "UnsupportedMediaType")
    assert answer["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_a_patch_says_of_which_type_it_is(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.request("PATCH", f"{MAPS}/a", b"{}", Content_Type="application/json")
    assert (answer.status, answer["reason"]) == (415, "UnsupportedMediaType")
    assert (answer["message"], answer["details"]) == ("415: Unsupported Media Type", {})


def test_what_does_not_exist_is_not_patched(widgets: Cluster) -> None:
    for body, form in (({}, "merge"), ([], "json")):
        answer = widgets.patch(f"{WIDGETS}/nothing", body, form)
        assert (answer.status, answer["message"]) == (404, 'widgets.example.com "nothing" not found')


def test_a_patched_revision_is_a_precondition(widgets: Cluster, a: dict[str, Any]) -> None:
    revision = a["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": revision}, "spec": {"size": 2}}
    widgets.patch(f"{WIDGETS}/a", patch).ok()
    answer = widgets.patch(f"{WIDGETS}/a", patch)
    assert (answer.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"].startswith('Operation cannot be fulfilled on widgets.example.com "a": the object has been')


@pytest.mark.parametrize(
    ("metadata", "status", "message"),
    [
        ({"name": "b"}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        (
            {"namespace": "b"},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"uid": "b"},
            422,
            'Widget.example.com "a" is invalid: metadata.uid: Invalid value: "b": field is immutable',
        ),
    ],
)
def test_what_no_patch_changes(
    widgets: Cluster, a: dict[str, Any], metadata: dict[str, str], status: int, message: str
) -> None:
    answer = widgets.patch(f"{WIDGETS}/a", {"metadata": metadata})
    assert (answer.status, answer["message"]) == (status, message)
    assert widgets.get(f"{WIDGETS}/a").ok() == a


def test_server_set_metadata_is_put_back(widgets: Cluster, a: dict[str, Any]) -> None:
    patch = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}}
    assert widgets.patch(f"{WIDGETS}/a", patch).ok()["metadata"] == a["metadata"]


def test_a_patch_must_leave_a_valid_object(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.patch(f"{WIDGETS}/a", {"spec": {"size": None}})
    assert (answer.status, answer["message"]) == (422, 'Widget.example.com "a" is invalid: spec.size: Required value')
    assert "spec" not in widgets.patch(f"{WIDGETS}/a", {"spec": None}).ok(), "nothing requires it"


def test_only_apply_has_force(widgets: Cluster, a: dict[str, Any]) -> None:
    answer = widgets.patch(f"{WIDGETS}/a?force=true", {})
    assert (answer.status, answer["message"]) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )


def test_managed_fields_can_be_patched_away(widgets: Cluster, a: dict[str, Any]) -> None:
    """As Flux does when it takes over from another manager."""
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    assert "managedFields" not in widgets.patch(f"{WIDGETS}/a", operations, "json").ok()["metadata"]


def test_who_patched_what(widgets: Cluster, a: dict[str, Any]) -> None:
    new = widgets.patch(f"{WIDGETS}/a?fieldManager=painter", {"spec": {"color": "red"}}).ok()
    (entry,) = [e for e in new["metadata"]["managedFields"] if e["manager"] == "painter"]
    assert (entry["operation"], entry["fieldsV1"]) == ("Update", {"f:spec": {"f:color": {}}})


def test_a_manager_has_a_short_printable_name(widgets: Cluster, a: dict[str, Any]) -> None:
    for manager, field in (("x" * 129, "fieldManager"), ("a%07b", "fieldManager")):
        answer = widgets.patch(f"{WIDGETS}/a?fieldManager={manager}", {})
        assert (answer.status, answer["details"]["causes"][0]["field"]) == (422, field)


def test_fifty_racing_patches_all_land(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    clients = [Cluster(cluster.server, cluster.name) for _ in range(50)]
    codes: list[int] = []

    def write(client: Cluster, number: int) -> None:
        codes.append(client.patch(f"{MAPS}/a", {"data": {f"k{number}": str(number)}}).status)

    threads = [threading.Thread(target=write, args=(c, n)) for n, c in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    assert codes == [200] * 50
    assert cluster.get(f"{MAPS}/a").ok()["data"] == {f"k{number}": str(number) for number in range(50)}


def test_plain_text_is_patched_into_a_secret(cluster: Cluster) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    cluster.post(secrets, {"metadata": {"name": "s"}, "stringData": {"a": "b", "c": "d"}}).ok()
    cluster.patch(f"{secrets}/s", {"stringData": {"a": "x"}}).ok()
    assert cluster.get(f"{secrets}/s").ok()["data"] == {"a": "eA==", "c": "ZA=="}
