"""lightkube: typed and generic resources, apply, watch, wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource, load_in_cluster_generic_resources
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import CascadeType, PatchType

from tests.serving import widget

Widget = create_namespaced_resource("example.com", "v1", "Widget", "widgets")


@pytest.fixture
def lightkube(kubeconfig: str) -> Iterator[Client]:
    client = Client(config=KubeConfig.from_file(kubeconfig), field_manager="lightkube")
    yield client
    client._client._client.close()


def test_typed(lightkube: Any) -> None:
    lightkube.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"k": "v"}))
    lightkube.patch(ConfigMap, "a", {"data": {"l": "w"}})
    assert lightkube.get(ConfigMap, "a").data == {"k": "v", "l": "w"}
    lightkube.patch(ConfigMap, "a", [{"op": "remove", "path": "/data/k"}], patch_type=PatchType.JSON)
    assert [found.data for found in lightkube.list(ConfigMap, namespace="*", fields={"metadata.name": "a"})] == [
        {"l": "w"}
    ]
    stale = lightkube.get(ConfigMap, "a")
    lightkube.replace(stale)
    stale.metadata.labels = {"changed": "yes"}
    stale.metadata.resourceVersion = "1"
    with pytest.raises(ApiError) as caught:
        lightkube.replace(stale)
    assert caught.value.status.reason == "Conflict"
    for number in range(5):
        lightkube.create(ConfigMap(metadata=ObjectMeta(name=f"c{number}", labels={"l": "x"})), namespace="default")
    assert [found.metadata.name for found in lightkube.list(ConfigMap, labels={"l": "x"}, chunk_size=2)] == [
        f"c{number}" for number in range(5)
    ]
    lightkube.deletecollection(ConfigMap)
    assert list(lightkube.list(ConfigMap)) == []


def test_namespace_goes(lightkube: Any) -> None:
    version = lightkube.create(Namespace(metadata=ObjectMeta(name="room"))).metadata.resourceVersion
    lightkube.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="room")))
    lightkube.delete(Namespace, "room", cascade=CascadeType.FOREGROUND)
    for kind, found in lightkube.watch(Namespace, fields={"metadata.name": "room"}, resource_version=version):
        if kind == "DELETED":
            assert found.metadata.deletionTimestamp is not None
            break
    assert list(lightkube.list(ConfigMap, namespace="room")) == []


def test_generic(lightkube: Any) -> None:
    load_in_cluster_generic_resources(lightkube)
    one = Widget.from_dict(widget("one", 1, namespace="default"))
    lightkube.apply(one)
    one.spec["size"] = 2
    lightkube.apply(one)
    one.spec["size"] = 5
    with pytest.raises(ApiError, match=r'conflict with "lightkube": \.spec\.size'):
        lightkube.apply(one, field_manager="other")
    assert lightkube.apply(one, field_manager="other", force=True).spec["size"] == 5
    lightkube.patch(Widget.Status, "one", {"status": {"ok": True}}, patch_type=PatchType.MERGE)
    lightkube.patch(Widget.Scale, "one", {"spec": {"replicas": 4}}, patch_type=PatchType.MERGE)
    found = lightkube.get(Widget, "one")
    assert (found.status, found.spec["replicas"], found.metadata.generation) == ({"ok": True}, 4, 4)


def test_watch_and_wait(lightkube: Any) -> None:
    lightkube.create(Widget.from_dict(widget("one", 1, namespace="default")))
    version = lightkube.get(Widget, "one").metadata.resourceVersion
    for size in (2, 3):
        lightkube.patch(Widget, "one", {"spec": {"size": size}}, patch_type=PatchType.MERGE)
    seen = []
    for kind, found in lightkube.watch(Widget, resource_version=version):
        seen.append((kind, found.spec["size"]))
        if found.spec["size"] == 3:
            break
    assert seen == [("MODIFIED", 2), ("MODIFIED", 3)]
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    lightkube.patch(Widget.Status, "one", conditions, patch_type=PatchType.MERGE)
    assert lightkube.wait(Widget, "one", for_conditions=["Ready"]).metadata.name == "one"
