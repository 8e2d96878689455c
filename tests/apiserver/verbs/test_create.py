"""POST: fields the server sets, rejections and their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"


def refused(answer: Any, status: int, reason: str, message: str) -> dict[str, Any]:
    """The refusal's details, once its status, reason and words are as expected."""
    found = answer.json
    assert (answer.status, found["reason"], found["message"]) == (status, reason, message)
    assert (found["kind"], found["apiVersion"], found["status"], found["code"]) == ("Status", "v1", "Failure", status)
    details: dict[str, Any] = found.get("details", {})
    return details


def test_a_created_object_has_what_the_server_sets(widgets: Cluster) -> None:
    answer = widgets.post(WIDGETS, widget("a", 2))
    made = answer.ok()
    assert answer.status == 201
    assert made["spec"] == {"size": 2, "replicas": 1}
    metadata = made["metadata"]
    assert metadata["generation"] == 1
    assert metadata["namespace"] == "default"
    assert metadata["resourceVersion"].isdigit()
    assert not metadata["resourceVersion"].startswith("0")
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert widgets.get(f"{WIDGETS}/a").ok() == made


def test_what_a_client_cannot_set_is_dropped(widgets: Cluster) -> None:
    body = widget(
        "a", uid="mine", generation=7, creationTimestamp="2001-01-01T00:00:00Z", selfLink="/x",
        deletionTimestamp="2001-01-01T00:00:00Z", deletionGracePeriodSeconds=5,
    )  # fmt: skip
    made = widgets.post(WIDGETS, body | {"status": {"replicas": 3}}).ok()
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] > "2020"
    assert not {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} & metadata.keys()
    assert "status" not in made


def test_revisions_of_creations_rise(cluster: Cluster) -> None:
    revisions = [int(cluster.post(MAPS, config_map(f"m{n}")).ok()["metadata"]["resourceVersion"]) for n in range(5)]
    assert revisions == sorted(set(revisions))


def test_a_name_is_taken_once(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    details = refused(
        widgets.post(WIDGETS, widget("a")), 409, "AlreadyExists", 'widgets.example.com "a" already exists'
    )
    assert details == {"name": "a", "group": "example.com", "kind": "widgets"}


def test_a_generated_name_keeps_its_prefix(widgets: Cluster) -> None:
    body = widget("") | {"metadata": {"generateName": "big-"}}
    names = {widgets.post(WIDGETS, body).ok()["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("big-") and len(name) == len("big-") + 5 for name in names)
    assert all(set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789") for name in names)


def test_a_long_prefix_leaves_room_for_the_rest(cluster: Cluster) -> None:
    body = config_map("") | {"metadata": {"generateName": "x" * 80}}
    assert len(cluster.post(MAPS, body).ok()["metadata"]["name"]) == 63


def test_a_given_name_wins_over_a_prefix(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("given", generateName="other-")).ok()
    assert made["metadata"]["name"] == "given"
    assert made["metadata"]["generateName"] == "other-"


def test_a_nameless_object_is_invalid(cluster: Cluster) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    message = 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    details = refused(cluster.post(MAPS, body), 422, "Invalid", message)
    assert details == {
        "kind": "ConfigMap",
        "causes": [
            {
                "reason": "FieldValueRequired",
                "message": "Required value: name or generateName is required",
                "field": "metadata.name",
            }
        ],
    }


def test_a_name_must_be_a_subdomain(cluster: Cluster) -> None:
    answer = cluster.post(MAPS, config_map("Not_A_Name"))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].startswith(
        'ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": '
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
    )


def test_labels_and_owners_are_checked(cluster: Cluster) -> None:
    answer = cluster.post(MAPS, config_map("a", labels={"-bad": "v"}, ownerReferences=[{"kind": "X"}]))
    assert answer.status == 422
    fields = [cause["field"] for cause in answer["details"]["causes"]]
    assert "metadata.labels" in fields
    assert "metadata.ownerReferences.apiVersion" in fields


def test_the_namespace_must_be_that_of_the_path(cluster: Cluster) -> None:
    refused(
        cluster.post(MAPS, config_map("a", namespace="other")),
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_the_namespace_must_exist(cluster: Cluster) -> None:
    answer = cluster.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    assert refused(answer, 404, "NotFound", 'namespaces "nowhere" not found') == {
        "name": "nowhere",
        "kind": "namespaces",
    }


def test_a_namespace_on_a_cluster_scoped_object_is_dropped(cluster: Cluster) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}}
    assert "namespace" not in cluster.post("/api/v1/namespaces", body).ok()["metadata"]


def test_a_resource_version_is_refused(widgets: Cluster) -> None:
    answer = widgets.post(WIDGETS, widget("a", resourceVersion="5"))
    refused(answer, 400, "BadRequest", "resourceVersion should not be set on objects to be created")
    widgets.post(WIDGETS, widget("a", resourceVersion="0")).ok()


def test_the_kind_must_be_that_of_the_path(widgets: Cluster) -> None:
    message = 'Gadget.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget'
    refused(widgets.post(WIDGETS, widget("a") | {"kind": "Gadget"}), 422, "Invalid", message)
    message = (
        'Secret in version "v1" cannot be handled as a ConfigMap: '
        "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
    )
    refused(widgets.post(MAPS, config_map("a") | {"kind": "Secret"}), 400, "BadRequest", message)


def test_the_version_must_be_that_of_the_path(widgets: Cluster) -> None:
    said = "the API version in the data ({}) does not match the expected API version ({})"
    answer = widgets.post(WIDGETS, widget("a") | {"apiVersion": "example.com/v2"})
    refused(answer, 400, "BadRequest", said.format("example.com/v2", "example.com/v1"))
    answer = widgets.post(MAPS, config_map("a") | {"apiVersion": "apps/v1"})
    message = (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'no kind "ConfigMap" is registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:111"'
    )
    refused(answer, 400, "BadRequest", message)


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_a_custom_object_says_what_it_is(widgets: Cluster, field: str) -> None:
    body = widget("a")
    del body[field]
    answer = widgets.post(WIDGETS, body)
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    said = {
        "kind": "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{",
        "apiVersion": "the API version in the data () does not match the expected API version (example.com/v1)",
    }
    assert answer["message"].startswith(said[field])


def test_a_builtin_need_not_say_what_it_is(cluster: Cluster) -> None:
    made = cluster.post(MAPS, {"metadata": {"name": "a"}}).ok()
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"{} {}", b"\xff"])
def test_a_body_that_is_no_object_is_a_bad_request(cluster: Cluster, body: bytes) -> None:
    answer = cluster.request("POST", MAPS, body, Content_Type="application/json")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


def test_an_unknown_form_of_body_is_unsupported(cluster: Cluster) -> None:
    answer = cluster.request("POST", MAPS, b"{}", Content_Type="text/plain")
    refused(
        answer,
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )


def test_yaml_is_read_as_kubernetes_reads_it(widgets: Cluster) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  day: 2001-01-01\n  time: '12:30:00'\n"
    made = widgets.request("POST", MAPS, text, Content_Type="application/yaml").ok()
    assert made["data"] == {"day": "2001-01-01", "time": "12:30:00"}


def test_a_name_in_the_path_is_for_custom_kinds_and_says_nothing(widgets: Cluster) -> None:
    message = "the server does not allow this method on the requested resource"
    refused(widgets.post(f"{MAPS}/a", config_map("a")), 405, "MethodNotAllowed", message)
    assert widgets.post(f"{WIDGETS}/other", widget("a")).ok()["metadata"]["name"] == "a"
    assert widgets.get(f"{WIDGETS}/other").status == 404


def test_an_unknown_kind_is_not_found(widgets: Cluster) -> None:
    """A group of the server's own says so; other paths are no paths."""
    for path in ("/api/v1/gadgets", "/apis/coordination.k8s.io/v9/leases"):
        refused(widgets.post(path, {}), 404, "NotFound", "the server could not find the requested resource")
    for path in ("/apis/example.com/v1/gadgets", "/apis/example.com/v9/widgets", "/apis/other.com/v1/widgets"):
        answer = widgets.post(path, {})
        assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_schema_violations_are_listed_field_by_field(widgets: Cluster) -> None:
    body = widget("a") | {"spec": {"size": 0, "color": "green", "parts": [{"name": "a"}, {"name": "a"}, {}]}}
    answer = widgets.post(WIDGETS, body)
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].startswith('Widget.example.com "a" is invalid: [')
    causes = {cause["field"]: (cause["reason"], cause["message"]) for cause in answer["details"]["causes"]}
    assert causes == {
        "spec.size": ("FieldValueInvalid", "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        "spec.color": ("FieldValueNotSupported", 'Unsupported value: "green": supported values: "red", "blue"'),
        "spec.parts[1]": ("FieldValueDuplicate", 'Duplicate value: {"name":"a"}'),
        "spec.parts[2].name": ("FieldValueRequired", "Required value"),
    }


def test_a_wrong_type_is_told_as_upstream_tells_it(widgets: Cluster) -> None:
    message = (
        'Widget.example.com "a" is invalid: spec.size: Invalid value: "string": '
        'spec.size in body must be of type integer: "string"'
    )
    details = refused(widgets.post(WIDGETS, widget("a") | {"spec": {"size": "x"}}), 422, "Invalid", message)
    assert details["causes"][0]["reason"] == "FieldValueTypeInvalid"


def test_a_missing_field_is_required(widgets: Cluster) -> None:
    message = 'Widget.example.com "a" is invalid: spec.size: Required value'
    refused(widgets.post(WIDGETS, widget("a") | {"spec": {}}), 422, "Invalid", message)


def test_secrets_take_plain_text_and_give_it_encoded(cluster: Cluster) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    made = cluster.post("/api/v1/namespaces/default/secrets", body).ok()
    assert made["type"] == "Opaque"
    assert made["data"] == {"a": "Yg==", "c": "ZA=="}
    assert "stringData" not in made


def test_a_config_map_key_must_be_one(cluster: Cluster) -> None:
    answer = cluster.post(MAPS, config_map("a", {"": "x"}))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"] == "data[]"


def test_deep_and_large_numbers_survive(widgets: Cluster) -> None:
    status = {"big": 9007199254740993, "small": -9223372036854775808, "text": "ünï \u2603 \U0001f600", "none": None}
    made = widgets.post(WIDGETS, widget("a")).ok()
    widgets.put(f"{WIDGETS}/a/status", made | {"status": status}).ok()
    assert json.loads(widgets.get(f"{WIDGETS}/a").body)["status"] == status
