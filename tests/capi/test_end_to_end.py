"""One manifest creates a Cluster; it scales to fifty Machines and back, and its deletion leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.capi.informers import CLUSTERS, MACHINE_DEPLOYMENTS, MACHINES
from shoal.capi.providers.embedded.informers import EMBEDDED_MACHINES, NODES
from shoal.client.rest import Client, GroupVersionResource
from tests.capi.crashable_server import Place, place


async def names(client: Client, kind: GroupVersionResource) -> set[str]:
    return {obj["metadata"]["name"] for obj in (await client.list_all(kind))[0]}


async def scale(here: Place, replicas: int) -> None:
    wanted = {"spec": {"replicas": replicas}}
    await here.client.merge_patch(MACHINE_DEPLOYMENTS, "east-default", wanted, "default", "scale")
    await here.eventually(lambda: here.is_running(replicas))


@pytest.mark.anyio
async def test_to_fifty_machines_and_back_without_a_trace(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.start()
        await here.eventually(here.has_accounts)
        before = await here.counted()
        await here.apply()
        await here.eventually(here.is_running)
        hosted, kept = here.client.in_cluster("default.east"), await names(here.client, MACHINES)
        three = await here.counted()
        assert (three["root", "machines"], three["root", "embeddedmachines"]) == (3, 3)
        assert three["default.east", "nodes"] == 3
        await scale(here, 50)
        machines = await names(here.client, MACHINES)
        assert kept < machines
        assert await names(hosted, NODES) == machines
        await scale(here, 3)
        await here.comes_to(three)
        left = await names(here.client, MACHINES)
        assert left < machines
        assert await names(hosted, NODES) == left == await names(here.client, EMBEDDED_MACHINES)
        await here.client.delete(CLUSTERS, "east", "default")
        await here.eventually(here.is_gone)
        await here.comes_to(before)
