"""The official client: its typed APIs, custom objects, dynamic client and watch."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from tests.serving import Cluster, config_map, widget, widget_definition

# One half of it has no types, the other says None where the server always answers.
official: Any = kubernetes
client, config, watch = official.client, official.config, official.watch
WIDGETS = ("example.com", "v1", "default", "widgets")


@pytest.fixture
def api(kubeconfig: str) -> Iterator[Any]:
    with config.new_client_from_config(kubeconfig) as api:
        yield api


def test_core(api: Any) -> None:
    core = client.CoreV1Api(api)
    made = core.create_namespaced_config_map("default", client.V1ConfigMap(metadata={"name": "a"}, data={"k": "v"}))
    assert (made.metadata.namespace, made.metadata.creation_timestamp.tzinfo is not None) == ("default", True)
    assert core.read_namespaced_config_map("a", "default").data == {"k": "v"}
    core.patch_namespaced_config_map("a", "default", {"data": {"k": None, "l": "w"}})
    found = core.list_config_map_for_all_namespaces(field_selector="metadata.name=a").items
    assert [item.data for item in found] == [{"l": "w"}]
    made.data = {"late": "x"}
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("a", "default", made)
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert core.delete_namespaced_config_map("a", "default")["status"] == "Success"
    with pytest.raises(ApiException, match="404"):
        core.read_namespaced_config_map("a", "default")

    secret = client.V1Secret(metadata={"name": "s"}, string_data={"user": "ada"})
    assert base64.b64decode(core.create_namespaced_secret("default", secret).data["user"]) == b"ada"
    assert {ns.metadata.name: ns.status.phase for ns in core.list_namespace().items}["default"] == "Active"


def test_pages(api: Any) -> None:
    core = client.CoreV1Api(api)
    for number in range(5):
        core.create_namespaced_config_map("default", client.V1ConfigMap(metadata={"name": f"c{number}"}))
    first = core.list_namespaced_config_map("default", limit=2)
    names, page = [item.metadata.name for item in first.items], first
    while page.metadata._continue:
        page = core.list_namespaced_config_map("default", limit=2, _continue=page.metadata._continue)
        assert page.metadata.resource_version == first.metadata.resource_version
        names += [item.metadata.name for item in page.items]
    assert names == [f"c{number}" for number in range(5)]
    core.delete_collection_namespaced_config_map("default", label_selector="!kept")
    assert core.list_namespaced_config_map("default").items == []


def test_access(api: Any, widgets: Cluster, tmp_path: Path) -> None:
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account("default", client.V1ServiceAccount(metadata={"name": "robot"}))
    rule = client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])
    rbac.create_namespaced_role("default", client.V1Role(metadata={"name": "r"}, rules=[rule]))
    subject = client.RbacV1Subject(kind="ServiceAccount", name="robot", namespace="default")
    reference = client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="r")
    binding = client.V1RoleBinding(metadata={"name": "b"}, role_ref=reference, subjects=[subject])
    rbac.create_namespaced_role_binding("default", binding)
    spec = client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600)
    request = client.AuthenticationV1TokenRequest(spec=spec)
    token = core.create_namespaced_service_account_token("robot", "default", request).status.token

    with config.new_client_from_config(str(widgets.kubeconfig(tmp_path / "robot", token))) as robot:
        who = client.AuthenticationV1Api(robot).create_self_subject_review(client.V1SelfSubjectReview())
        assert who.status.user_info.username == "system:serviceaccount:default:robot"
        assert client.CoreV1Api(robot).list_namespaced_config_map("default").items == []
        with pytest.raises(ApiException) as caught:
            client.CoreV1Api(robot).list_namespaced_secret("default")
        assert caught.value.status == 403
        attributes = client.V1ResourceAttributes(verb="list", resource="configmaps", namespace="default")
        review = client.V1SelfSubjectAccessReview(
            spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        )
        assert client.AuthorizationV1Api(robot).create_self_subject_access_review(review).status.allowed


def test_custom_objects(api: Any) -> None:
    custom = client.CustomObjectsApi(api)
    custom.create_namespaced_custom_object(*WIDGETS, widget("one", 1))
    custom.patch_namespaced_custom_object(*WIDGETS, "one", {"spec": {"color": "red"}})
    custom.patch_namespaced_custom_object_status(*WIDGETS, "one", {"status": {"phase": "Ready"}})
    custom.patch_namespaced_custom_object_scale(*WIDGETS, "one", {"spec": {"replicas": 3}})
    found = custom.get_namespaced_custom_object(*WIDGETS, "one")
    assert found["spec"] == {"size": 1, "color": "red", "replicas": 3}
    assert found["status"] == {"phase": "Ready"}
    assert len(custom.list_cluster_custom_object("example.com", "v1", "widgets")["items"]) == 1
    with pytest.raises(ApiException, match=r"spec\.size in body should be greater than or equal to 1"):
        custom.create_namespaced_custom_object(*WIDGETS, widget("small", 0))
    custom.delete_namespaced_custom_object(*WIDGETS, "one")
    assert custom.list_namespaced_custom_object(*WIDGETS)["items"] == []


def test_watch(api: Any, widgets: Cluster) -> None:
    custom, watching = client.CustomObjectsApi(api), watch.Watch()
    start = custom.list_namespaced_custom_object(*WIDGETS)["metadata"]["resourceVersion"]
    custom.create_namespaced_custom_object(*WIDGETS, widget("one", 1))
    seen: list[tuple[str, int]] = []
    stream = watching.stream(custom.list_namespaced_custom_object, *WIDGETS, resource_version=start, timeout_seconds=50)
    for event in stream:
        seen.append((event["type"], event["object"]["spec"]["size"]))
        if event["type"] == "ADDED":
            custom.patch_namespaced_custom_object(*WIDGETS, "one", {"spec": {"size": 2}})
        elif event["type"] == "MODIFIED":
            custom.delete_namespaced_custom_object(*WIDGETS, "one")
        else:
            watching.stop()
    assert seen == [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)]
    core = client.CoreV1Api(api)
    names = {event["object"].metadata.name for event in watch.Watch().stream(core.list_namespace, timeout_seconds=1)}
    assert "default" in names


def test_dynamic(api: Any, tmp_path: Path) -> None:
    found = official.dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    resource = found.resources.get(api_version="example.com/v1", kind="Widget")
    resource.create(body=widget("one", 1), namespace="default")
    merge = "application/merge-patch+json"
    resource.patch(name="one", namespace="default", body={"spec": {"size": 2}}, content_type=merge)
    applied = resource.server_side_apply(
        name="one", namespace="default", body=widget("one", 3), field_manager="tests", force_conflicts=True
    )
    assert (applied.spec.size, applied.metadata.generation) == (3, 3)
    resource.status.patch(name="one", namespace="default", body={"status": {"ok": True}}, content_type=merge)
    assert resource.get(name="one", namespace="default").status.ok is True
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body=config_map("a", {"k": "v"}), namespace="default")
    assert [item.data.k for item in maps.get(namespace="default").items] == ["v"]
    events = resource.watch(namespace="default", timeout=1)
    assert [(event["type"], event["object"].metadata.name) for event in events] == [("ADDED", "one")]
    resource.delete(name="one", namespace="default")
    with pytest.raises(official.dynamic.exceptions.NotFoundError):
        resource.get(name="one", namespace="default")


def test_create_from_dict(api: Any) -> None:
    definition = widget_definition()
    definition["metadata"]["name"] = "gadgets.other.example.com"
    definition["spec"] |= {"group": "other.example.com", "names": {"kind": "Gadget", "plural": "gadgets"}}
    official.utils.create_from_dict(api, definition)
    names = client.ApiextensionsV1Api(api).read_custom_resource_definition("gadgets.other.example.com").status
    assert names.accepted_names.kind == "Gadget"
    assert {group.name for group in client.ApisApi(api).get_api_versions().groups} >= {"other.example.com"}
    assert client.VersionApi(api).get_code().major == "1"
