"""Crash recovery: the provisioner is killed after any number of writes while it launches or removes nodes; a new one
converges to the same state.

All other controllers keep running. Nothing is launched twice, nothing is left over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.embedded_controllers import new_controllers
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Transport, Unreachable
from shoal.clock import SystemClock
from shoal.kinds.clusterapi.capi import GROUP, VERSION
from shoal.objects.errors import StatusError
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS, MACHINES
from shoal.provision.controllers import new_provision_controllers
from shoal.provision.management import ManagementResolver, SingleCluster
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, NODES, PODS
from shoal.store.sqlite import SqliteStore
from tests.provision.hosted import cluster_objects, deployment, node_class, node_pool, pod, size_objects
from tests.transports import Passing

Object = dict[str, Any]

LOOKS = 9000
WORKLOADS = GroupVersionResource("apps", "v1", "deployments")
"""Whose pods come again: one may be on a node that was let go while it came."""
KINDS = {
    "Cluster": GroupVersionResource(GROUP, VERSION, "clusters"),
    "MachineDeployment": MACHINE_DEPLOYMENTS,
    "EmbeddedCluster": GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedclusters"),
    "EmbeddedMachineTemplate": GroupVersionResource(
        "infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachinetemplates"
    ),
}


class Cut(Passing):
    """A transport that ends after a number of writes: from then on nothing is answered."""

    def __init__(self, transport: Transport, writes: int) -> None:
        super().__init__(transport)
        self._left = writes
        self.ended = asyncio.Event()

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method != "GET" and not path.endswith("/events"):
            if self._left <= 0:
                self.ended.set()
                raise Unreachable("cut off")
            self._left -= 1
        return await self.inner.request(method, path, query, headers, body)


class World:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.root = Client(server.transport(), "admin", cluster="root")
        self.hosted = self.root.in_cluster("default.east")

    @asynccontextmanager
    async def provisioner(
        self, transport: Transport | None = None, homes: ManagementResolver | None = None
    ) -> AsyncIterator[None]:
        client = Client(transport or self._server.transport(), "loops", cluster="root")
        async with _running(new_provision_controllers(client, SystemClock(), homes)):
            yield

    async def cut_off_after(self, writes: int) -> None:
        cut = Cut(self._server.transport(), writes)
        async with self.provisioner(cut):
            with suppress(TimeoutError):  # all was done with fewer writes
                await asyncio.wait_for(cut.ended.wait(), 1)

    async def eventually(self, look: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(LOOKS):
            with suppress(StatusError):
                if await look():
                    return
            await asyncio.sleep(0.01)
        raise AssertionError(f"it does not converge: {await self.state()}")

    async def state(self) -> tuple[int, list[str], list[str], list[str]]:
        """Replicas, Machines by the NodeClaims they are of, NodeClaims, Nodes."""
        deployments, _ = await self.root.list_all(MACHINE_DEPLOYMENTS, "default")
        machines, _ = await self.root.list_all(MACHINES, "default")
        claims, _ = await self.hosted.list_all(NODE_CLAIMS)
        nodes, _ = await self.hosted.list_all(NODES)
        owners = [(each["metadata"].get("annotations") or {}).get("karpenter.sh/nodeclaim", "") for each in machines]
        return (
            sum(each["spec"]["replicas"] for each in deployments),
            sorted(owners),
            sorted(each["metadata"]["name"] for each in claims),
            sorted(each["metadata"]["name"] for each in nodes),
        )


@asynccontextmanager
async def _running(loops: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await SqliteStore.open(tmp_path)
    tokens = {"admin": admin_user(), "loops": admin_user("system:shoal:loops")}
    server = await ApiServer.start(ApiServerSettings(directory=tmp_path / "pki", tokens=tokens), store)
    client, clock = Client(server.transport(), "loops", cluster="root"), SystemClock()
    provision = {each.name for each in new_provision_controllers(client, clock)}
    others = [
        each for each in new_controllers(client, clock, server.core.keys, "https://x") if each.name not in provision
    ]
    async with _running(others):
        world = World(server)
        for obj in [*cluster_objects("east"), *size_objects("east", "small")]:
            await world.root.create(KINDS[obj["kind"]], obj, "default")
        await world.eventually(_answers(world.hosted))
        await world.hosted.create(NODE_CLASSES, node_class())
        pool = node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
        await world.hosted.create(NODE_POOLS, pool)
        yield world
    await server.stop()
    await store.close()


def _answers(client: Client) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool(await client.get(GroupVersionResource("", "v1", "namespaces", namespaced=False), "default"))

    return look


@pytest.mark.anyio
async def test_cut_off_anywhere_nothing_is_bought_twice_and_nothing_is_left(world: World) -> None:
    async def running() -> bool:
        found, _ = await world.hosted.list_all(PODS, "default")
        replicas, owners, claims, nodes = await world.state()
        up = [(each.get("status") or {}).get("phase") for each in found] == ["Running"] * 3
        return up and replicas == 3 and owners == claims and len(claims) == len(nodes) == 3

    async def gone() -> bool:
        return await world.state() == (0, [], [], [])

    for writes in (0, 3, 9, 16):
        await world.hosted.create(WORKLOADS, deployment("web", 3, "1500m"), "default")
        await world.cut_off_after(writes)
        async with world.provisioner():
            await world.eventually(running)
        await world.hosted.delete(WORKLOADS, "web", "default")
        await world.cut_off_after(writes)
        async with world.provisioner():
            await world.eventually(gone)


@pytest.mark.anyio
async def test_one_cluster_is_served_with_two_clients(world: World) -> None:
    async def running() -> bool:
        return ((await world.hosted.get(PODS, "one", "default")).get("status") or {}).get("phase") == "Running"

    async def gone() -> bool:
        return await world.state() == (0, [], [], [])

    other = [*cluster_objects("west"), *size_objects("west", "small")]
    for obj in other:
        await world.root.create(KINDS[obj["kind"]], obj, "default")
    await world.hosted.create(PODS, pod("one", "1500m"), "default")
    homes = SingleCluster(world.hosted, world.root, "default", "east")
    async with world.provisioner(homes=homes):
        await world.eventually(running)
        assert (await world.state())[0] == 1
        (claim,) = (await world.hosted.list_all(NODE_CLAIMS))[0]
        assert claim["metadata"]["annotations"]["cluster.x-k8s.io/machine"].startswith("default/east-small-")
        await world.hosted.delete(PODS, "one", "default")
        await world.eventually(gone)
