"""The lifecycle of a ManagedCluster with all controllers: pools come and go, versions are upgraded, users read
inside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import GroupVersionResource
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.informers import EMBEDDED_TEMPLATES, MACHINE_DEPLOYMENTS
from shoal.objects.errors import Invalid
from tests.fleet.fleets import condition, eventually, managed, phase

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PRICE = "cluster.x-k8s.io/machine-current-price"
GPU: Object = {
    "name": "gpu",
    "nodes": 1,
    "size": "large",
    "zone": "b",
    "labels": {"team": "ml"},
    "taints": [{"key": "gpu", "effect": "NoSchedule"}],
}


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[HubWithWorkers]:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(1))
    yield up
    await up.stop()


class World:
    def __init__(self, up: HubWithWorkers) -> None:
        self.hub, self.own = up.hub.client("test"), up.workers[0].shoal.client("test")
        self.inside = self.own.in_cluster("default.east")
        self.phases: list[str] = []

    async def east(self) -> Object:
        found = await self.hub.get(MANAGED_CLUSTERS, "east", "default")
        if self.phases[-1:] != [phase(found)]:
            self.phases.append(phase(found))
        return found

    async def change(self, **spec: Any) -> None:
        await self.hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": spec}, "default")

    async def until(self, look: Callable[[Object, list[Object]], Any]) -> Object:
        """By the ManagedCluster and the Nodes inside."""

        async def so() -> Object | None:
            obj = await self.east()
            if phase(obj) in ("", "Pending", "Scheduled", "Provisioning"):
                return None
            nodes, _ = await self.inside.list_all(NODES)
            return obj if look(obj, nodes) else None

        return await eventually(so)


def follow(world: World) -> asyncio.Task[None]:
    """Every phase it passes through, as a watch tells them."""

    async def watch() -> None:
        query = {"fieldSelector": "metadata.name=east"}
        async for event in world.hub.watch(MANAGED_CLUSTERS, "default", query):
            if world.phases[-1:] != [phase(event["object"])]:
                world.phases.append(phase(event["object"]))

    return asyncio.create_task(watch())


def kubelets(nodes: list[Object]) -> list[str]:
    return sorted(node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes)


def settled(version: str, pools: dict[str, int]) -> Callable[[Object, list[Object]], bool]:
    def so(obj: Object, nodes: list[Object]) -> bool:
        status = obj["status"]
        counts = {each["name"]: each["readyNodes"] for each in status.get("nodePools") or ()}
        return (
            phase(obj) == "Running"
            and status.get("version") == version
            and counts == pools
            and status["observedGeneration"] == obj["metadata"]["generation"]
            and kubelets(nodes) == [version] * sum(pools.values())
        )

    return so


async def test_pools_and_an_upgrade(up: HubWithWorkers) -> None:
    world = World(up)
    await world.hub.create(MANAGED_CLUSTERS, managed("east", nodes=2, version="v1.34.1", nodePools=[GPU]), "default")
    await world.until(settled("v1.34.1", {"default": 2, "gpu": 1}))
    (node,) = (await world.inside.list_all(NODES, labels="team=ml"))[0]
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "large"
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    assert {"key": "gpu", "effect": "NoSchedule"} in node["spec"]["taints"]

    # What people write on a MachineDeployment stays theirs through all that follows.
    price = {"metadata": {"annotations": {PRICE: "9.99"}}}
    await world.own.merge_patch(MACHINE_DEPLOYMENTS, "east-gpu", price, "default")

    # Nobody goes back; the server says so at once.
    with pytest.raises(Invalid, match=r"a cluster cannot be downgraded from v1\.34\.1 to v1\.33\.0"):
        await world.change(version="v1.33.0")

    before = {obj["metadata"]["name"] for obj in (await world.inside.list_all(NODES))[0]}
    world.phases.clear()
    following = follow(world)
    await world.change(version="v1.36.4")
    await world.until(settled("v1.36.4", {"default": 2, "gpu": 1}))
    following.cancel()
    assert "Upgrading" in world.phases
    assert set(world.phases) <= {"Running", "Upgrading"}
    after = {obj["metadata"]["name"] for obj in (await world.inside.list_all(NODES))[0]}
    assert not before & after, "every node was replaced"

    # Other machines for a pool, then none.
    await world.change(nodePools=[{**GPU, "size": "small", "nodes": 2}])

    async def small() -> bool:
        nodes, _ = await world.inside.list_all(NODES, labels="node.kubernetes.io/instance-type=small")
        return len(nodes) == 2

    await eventually(small)
    await world.until(settled("v1.36.4", {"default": 2, "gpu": 2}))
    found = await world.own.get(MACHINE_DEPLOYMENTS, "east-gpu", "default")
    assert found["metadata"]["annotations"][PRICE] == "9.99"
    await world.change(nodePools=None)
    await world.until(settled("v1.36.4", {"default": 2}))

    async def tidy() -> bool:
        kinds, labels = (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES), "shoal.dev/node-pool=gpu"
        return not any([(await world.own.list_all(kind, labels=labels))[0] for kind in kinds])

    await eventually(tidy)


@pytest.mark.parametrize(
    ("pools", "wrong"),
    [
        ([{"name": "small"}], "spec.nodePools[0].name"),
        ([{"name": "a-b"}], "spec.nodePools[0].name"),
        ([{"name": "a"}, {"name": "a"}], "spec.nodePools[1]: Duplicate value"),
        ([{"name": "a", "size": "huge"}], "spec.nodePools[0].size: Unsupported value"),
        ([{"name": "a", "nodes": -1}], "spec.nodePools[0].nodes"),
    ],
)
async def test_pools_that_cannot_be(up: HubWithWorkers, pools: list[Object], wrong: str) -> None:
    with pytest.raises(Invalid) as refused:
        await up.hub.client("test").create(MANAGED_CLUSTERS, managed("east", nodePools=pools), "default")
    assert wrong in str(refused.value)


async def test_a_version_that_the_running_one_is_ahead_of_is_refused_in_status(up: HubWithWorkers) -> None:
    """It runs the worker's own version, which the hub was not told."""
    world = World(up)
    await world.hub.create(MANAGED_CLUSTERS, managed("east", nodes=1), "default")
    await world.until(settled("v1.36.4", {"default": 1}))
    await world.change(version="v1.30.0")
    found = await world.until(lambda obj, _: condition(obj, "Upgraded").get("reason") == "VersionRefused")
    assert (phase(found), found["status"]["version"]) == ("Running", "v1.36.4")
    assert [error["reason"] for error in found["status"]["errors"]] == ["VersionRefused"]
    assert "cannot be downgraded from v1.36.4 to v1.30.0" in found["status"]["errors"][0]["message"]
    assert kubelets((await world.inside.list_all(NODES))[0]) == ["v1.36.4"]
    await world.change(version="v1.36.4")
    found = await world.until(settled("v1.36.4", {"default": 1}))
    assert "errors" not in found["status"]
