"""All provisioner controllers with the simulated cloud: a Deployment gets its nodes, and they are removed when
necessary.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.embedded_controllers import new_controllers
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import SystemClock
from shoal.kinds.fleet.logicalcluster import GROUP, VERSION
from shoal.provision.controllers import new_provision_controllers
from shoal.provision.settings import ProvisionerSettings
from shoal.provision.simulator.catalogues import kwok_linux_amd64_types
from shoal.provision.simulator.factory import new_simulator_factory
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, NODES, PODS
from shoal.store.sqlite import SqliteStore
from tests.controlplane.world import CLUSTERS
from tests.provision.hosted import deployment, node_class, node_pool

Object = dict[str, Any]

LOOKS = 9000
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
CLUSTER = "default.east"


@asynccontextmanager
async def provisioned(directory: Path) -> AsyncIterator[Client]:
    store = await SqliteStore.open(directory)
    tokens = {"admin": admin_user(), "loops": admin_user("system:shoal:loops")}
    server = await ApiServer.start(ApiServerSettings(directory=directory / "pki", tokens=tokens), store)
    client, clock = Client(server.transport(), "loops", cluster="root"), SystemClock()
    bought = new_provision_controllers(
        client,
        clock,
        settings=ProvisionerSettings(planner="karpenter"),
        new_provider=new_simulator_factory(kwok_linux_amd64_types()),
    )
    names = {each.name for each in new_provision_controllers(client, clock)}
    others = [each for each in new_controllers(client, clock, server.core.keys, "https://x") if each.name not in names]
    tasks = [asyncio.create_task(each.run()) for each in (*others, *bought)]
    try:
        yield Client(server.transport(), "admin", cluster="root")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()
        await store.close()


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(LOOKS):
        if await look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come to that")


@pytest.mark.anyio
async def test_a_deployment_gets_its_nodes_and_they_go(tmp_path: Path) -> None:
    async with provisioned(tmp_path) as root:
        body = {"metadata": {"name": CLUSTER}, "spec": {"profile": "cluster"}}
        await root.create(CLUSTERS, {"apiVersion": f"{GROUP}/{VERSION}", "kind": "LogicalCluster", **body})
        hosted = root.in_cluster(CLUSTER)
        await hosted.create(NODE_CLASSES, node_class())
        await hosted.create(NODE_POOLS, node_pool())

        async def namespace() -> bool:
            found, _ = await hosted.list_all(GroupVersionResource("", "v1", "namespaces", namespaced=False))
            return any(each["metadata"]["name"] == "default" for each in found)

        await eventually(namespace)
        await hosted.create(DEPLOYMENTS, deployment("web", 20, "1"), "default")

        async def running() -> bool:
            pods, _ = await hosted.list_all(PODS, "default")
            return len([each for each in pods if (each.get("status") or {}).get("phase") == "Running"]) == 20

        await eventually(running)
        nodes, _ = await hosted.list_all(NODES)
        labels = [each["metadata"]["labels"] for each in nodes]
        assert {each["karpenter.sh/capacity-type"] for each in labels} == {"spot"}, "it is the cheaper one"
        assert all(each["karpenter.sh/nodepool"] == "default" for each in labels)
        await hosted.delete(DEPLOYMENTS, "web", "default")
        await hosted.delete_all(NODE_CLAIMS)

        async def gone() -> bool:
            return not (await hosted.list_all(NODES))[0] and not (await hosted.list_all(NODE_CLAIMS))[0]

        await eventually(gone)
