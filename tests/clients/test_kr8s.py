"""kr8s: object API, discovery by kind, watch and wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import APIObject, ConfigMap, Namespace, new_class

from tests.serving import HANG, config_map, widget

pytestmark = [
    pytest.mark.anyio,
    # It warns about every release that is newer than its own.
    pytest.mark.filterwarnings(
        r"ignore:Kubernetes version \S+ is not supported\. Supported versions for kr8s:UserWarning"
    ),
]


@pytest.fixture
async def api(kubeconfig: str) -> AsyncIterator[Any]:
    api: Any = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    yield api
    await api._session.aclose()


async def test_objects(api: Any) -> None:
    made = await ConfigMap(config_map("a", {"k": "v"}, namespace="default"), api=api)
    await made.create()
    assert await made.exists()
    await made.patch({"data": {"l": "w"}})
    await made.label(team="blue")
    await made.annotate(note="x")
    assert (made.data, made.labels) == ({"k": "v", "l": "w"}, {"team": "blue"})
    assert [found.name async for found in api.get("configmaps", label_selector={"team": "blue"})] == ["a"]
    await made.delete()
    await made.wait("delete", timeout=int(HANG))
    assert not await made.exists()
    with pytest.raises(kr8s.NotFoundError):
        await ConfigMap.get("a", namespace="default", api=api)


async def test_custom(api: Any) -> None:
    widgets = new_class("Widget", "example.com/v1", namespaced=True, scalable=True, asyncio=True)
    one: APIObject = await widgets(widget("one", 1, namespace="default"), api=api)
    await one.create()
    await one.scale(3)
    await one.patch({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status")
    await one.wait("condition=Ready", timeout=int(HANG))
    assert (one.spec.replicas, one.raw["metadata"]["generation"]) == (3, 2)
    found = [item async for item in api.get("widgets.example.com", "one", namespace="default")]
    assert [item.raw["kind"] for item in found] == ["Widget"]
    seen = []
    async for kind, item in api.watch("widgets.example.com", namespace="default"):
        seen.append((kind, item.name))
        if kind == "DELETED":
            break
        await one.delete()
    assert seen[0] == ("ADDED", "one")
    assert seen[-1] == ("DELETED", "one")


async def test_cluster(api: Any) -> None:
    assert (await api.version())["major"] == "1"
    assert (await api.whoami()) == "shoal-admin"
    kinds = {resource["kind"] for resource in await api.api_resources()}
    assert {"ConfigMap", "Widget", "ClusterRole"} <= kinds
    room = await Namespace({"metadata": {"name": "room"}}, api=api)
    await room.create()
    await room.delete()
    await room.wait("delete", timeout=int(HANG))
    assert "room" not in [found.name async for found in api.get("namespaces")]
