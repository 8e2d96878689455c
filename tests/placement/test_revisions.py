"""Revisions of workloads on a hub: decisions, and the objects on a real server as kubectl reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shoal.client.rest import GroupVersionResource
from shoal.kinds.apps.deployment import REVISION, revision_of
from shoal.kinds.apps.revision import apply_revision
from shoal.objects.errors import Forbidden, NotFound
from shoal.placement.revisions.controller import CONTROLLER_REVISIONS, REPLICA_SETS, new_revision_controllers
from shoal.placement.revisions.decide import RevisionChanges, deployment_changes, set_changes
from shoal.placement.splitter.placeable import KindNotPlaceable, discover_placeable
from tests.placement.hub import DEPLOYMENTS, Hub

Object = dict[str, Any]
STATEFUL_SETS = GroupVersionResource("apps", "v1", "statefulsets")


def workload(kind: str, image: str, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    metadata = {"name": "web", "namespace": "default", "uid": "u", "annotations": {"kubernetes.io/change-cause": image}}
    spec = {
        "replicas": 3,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
        **spec,
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def applied(revisions: list[Object], changes: RevisionChanges) -> list[Object]:
    updated = {one["metadata"]["name"]: one for one in changes.update}
    gone = {one["metadata"]["name"] for one in changes.delete}
    kept = [updated.get(one["metadata"]["name"], one) for one in revisions if one["metadata"]["name"] not in gone]
    return [*kept, changes.create] if changes.create is not None else kept


def test_replica_sets_of_a_deployment_are_its_history() -> None:
    sets: list[Object] = []
    for image in ("a", "b", "c", "a"):
        changes = deployment_changes(workload("Deployment", image, revisionHistoryLimit=1), sets, 0)
        sets = applied(sets, changes)
        [new] = [one for one in sets if one["spec"]["template"]["spec"]["containers"][0]["image"] == image]
        assert (revision_of(new), new["spec"]["replicas"]) == (int(changes.annotation), 0)
        assert new["metadata"]["annotations"]["kubernetes.io/change-cause"] == image
        assert len(sets) <= 2
    assert changes.annotation == "4"
    now = workload("Deployment", "a", revisionHistoryLimit=1)
    now["metadata"]["annotations"][REVISION] = "4"
    assert deployment_changes(now, sets, 0) == RevisionChanges()
    assert deployment_changes(workload("Deployment", "d", paused=True), sets, 0).create is None
    taken, other = (deployment_changes(workload("Deployment", "d"), sets, count).create for count in (0, 1))
    assert taken is not None
    assert other is not None
    assert taken["metadata"]["name"] != other["metadata"]["name"]


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_controller_revisions_are_the_history_of_sets(kind: str) -> None:
    revisions: list[Object] = []
    for number, image in enumerate(("a", "b", "c", "b"), start=1):
        owner = workload(kind, image, revisionHistoryLimit=1)
        revisions = applied(revisions, set_changes(owner, revisions, 0))
        [current] = [one for one in revisions if one["revision"] == number]
        assert apply_revision(workload(kind, "x"), current)["spec"]["template"] == owner["spec"]["template"]
        assert len(revisions) <= 2
        assert set_changes(owner, revisions, 0) == RevisionChanges()


@pytest.fixture
async def hub(hub: Hub) -> AsyncIterator[Hub]:
    [controller] = new_revision_controllers(hub.client, hub.world.clock)
    task = asyncio.create_task(controller.run())
    yield hub
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.anyio
async def test_a_deployment_of_a_hub_can_be_undone(hub: Hub) -> None:
    await hub.learn()
    await hub.cluster("east")
    await hub.deploy(replicas=2)

    async def history() -> dict[str, int]:
        found, _ = await hub.client.list_all(REPLICA_SETS, "default", labels="app=web")
        return {one["spec"]["template"]["spec"]["containers"][0]["image"]: revision_of(one) for one in found}

    async def becomes(wanted: dict[str, int]) -> None:
        async def look() -> bool:
            return await history() == wanted and revision_of(await hub.get()) == max(wanted.values())

        await hub.eventually(look)

    def images(image: str) -> Object:
        return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}

    await becomes({"web:1": 1})
    assert (await hub.get())["metadata"]["generation"] == 1
    await hub.patch("web", images("web:2"))
    await becomes({"web:1": 1, "web:2": 2})
    await hub.patch("web", images("web:1"))
    await becomes({"web:1": 3, "web:2": 2})
    await hub.becomes(east=2)
    assert REVISION not in ((await hub.get("web--east"))["metadata"].get("annotations") or {})

    [one, *_] = (await hub.client.list_all(REPLICA_SETS, "default"))[0]
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "mine"}, "spec": one["spec"]}
    with pytest.raises(Forbidden, match="keeps ReplicaSets only as revisions of Deployments and runs none"):
        await hub.client.create(REPLICA_SETS, body, "default")
    with pytest.raises(Forbidden, match="runs none"):
        await hub.client.merge_patch(REPLICA_SETS, one["metadata"]["name"], {"spec": {"replicas": 1}}, "default")
    with pytest.raises(NotFound):
        await hub.client.merge_patch(REPLICA_SETS, one["metadata"]["name"], {}, "default", "scale")
    with pytest.raises(KindNotPlaceable, match="The hub does not serve ReplicaSet"):
        await discover_placeable(hub.client, "ReplicaSet", "apps/v1")

    await hub.client.delete(DEPLOYMENTS, "web", "default", cascade=True)

    async def gone() -> bool:
        return not await history()

    await hub.eventually(gone)


@pytest.mark.anyio
async def test_a_stateful_set_of_a_hub_has_revisions_too(hub: Hub) -> None:
    with pytest.raises(NotFound):
        await hub.client.list_all(CONTROLLER_REVISIONS, "default")
    await hub.learn("StatefulSet")
    body = workload("StatefulSet", "web:1", serviceName="web")
    del body["metadata"]["uid"]
    await hub.client.create(STATEFUL_SETS, body, "default")

    async def count() -> int:
        return len((await hub.client.list_all(CONTROLLER_REVISIONS, "default"))[0])

    async def has_one() -> bool:
        return await count() == 1

    await hub.eventually(has_one)
