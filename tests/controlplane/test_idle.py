"""Tests of controllers in an idle server, and of what they catch up with after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.controlplane.world import World, world
from tests.serving import Cluster, Server, config_map, fresh_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
LOOKS = 30


@pytest.mark.anyio
async def test_an_idle_cluster_costs_no_write_no_task_and_no_table(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        await given.cluster("first")
        tasks, revision = await wait_idle(given)
        for number in range(20):
            await given.cluster(f"c{number}", "cluster" if number % 2 else "hub")
        await wait_idle(given)
        given.clock.step(86400)
        left, newest = await wait_idle(given)
        assert newest == revision + 20, "nothing but the LogicalClusters was written"
        assert left <= tasks, "a copy that nobody looks at any more may have been given up"
        touched = {name for kind in given.server.core.cache.resource_caches.values() for name in kind.tables}
        assert not touched & {f"c{number}" for number in range(20)}


async def wait_idle(given: World) -> tuple[int, int]:
    """Returns the number of tasks and the latest revision, once neither has changed for a while."""
    found, since = (-1, -1), 0
    while since < LOOKS:
        await asyncio.sleep(0.01)
        now = len(asyncio.all_tasks()), given.server.core.cache.revision
        found, since = now, since + 1 if now == found else 0
    return found


def test_what_lost_its_owner_while_nobody_looked_goes_after_a_restart(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    cluster = fresh_cluster(first)
    owner = cluster.post(MAPS, config_map("owner")).ok()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    cluster.post(MAPS, config_map("child", ownerReferences=[reference])).ok()
    first.call(first.shoal._controllers.stop())
    cluster.delete(f"{MAPS}/owner").ok()
    cluster.get(f"{MAPS}/child").ok()
    cluster.close()
    first.stop()
    second = Server(tmp_path / "data")
    again = Cluster(second, cluster.name)
    try:
        again.eventually(lambda: again.get(f"{MAPS}/child").status == 404)
    finally:
        again.close()
        second.stop()
