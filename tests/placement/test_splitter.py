"""The splitter against a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from shoal.assemble.commands.plan import explain_object
from shoal.client.rest import GroupVersionResource
from shoal.client.transport import Transport
from shoal.clock import SystemClock
from shoal.kinds.workload import placement, workloadcluster
from shoal.placement.splitter.controller import new_splitter_controllers
from shoal.placement.splitter.events import PLACEMENTS
from tests.controlplane.kubelet.test_kubelet import run_controllers
from tests.controlplane.world import world
from tests.placement.hub import CLUSTERS, DEPLOYMENTS, Hub
from tests.transports import Passing

pytestmark = pytest.mark.anyio
BUDGETS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")


@pytest.fixture
async def fleet(hub: Hub) -> Hub:
    """Two clusters, and the hub knows Deployments."""
    await hub.learn()
    await hub.cluster("east")
    await hub.cluster("west")
    return hub


async def test_a_deployment_is_split_and_read_as_one(fleet: Hub) -> None:
    made = await fleet.deploy(replicas=11)
    await fleet.becomes(east=6, west=5)
    leaf = await fleet.get("web--east")
    assert leaf["metadata"]["labels"] == {"workloads.kcp.dev/cluster": "east", "kcp.dev/owned-by": "web"}
    assert leaf["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert leaf["spec"] == {**made["spec"], "replicas": 6}

    await fleet.run("web--east")

    async def partly() -> bool:
        return (await fleet.status()).get("availableReplicas") == 6

    await fleet.eventually(partly)
    assert "observedGeneration" not in await fleet.status(), "west has not seen it"
    await fleet.run("web--west")
    await fleet.says("NewReplicaSetAvailable")
    status = await fleet.status()
    assert (status["observedGeneration"], status["replicas"], status["availableReplicas"]) == (1, 11, 11)
    assert await fleet.reason("Available") == "MinimumReplicasAvailable"
    assert (await fleet.get())["spec"] == made["spec"]

    revision = fleet.world.server.core.cache.revision
    await asyncio.sleep(0.1)
    assert fleet.world.server.core.cache.revision == revision, "nothing is written when nothing happens"


async def test_changes_of_the_root_reach_the_leaves_and_edits_of_leaves_do_not_last(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.patch("web", {"spec": {"replicas": 60}}, "scale")
    await fleet.becomes(east=30, west=30)
    await fleet.patch("web", {"spec": {"paused": True}, "metadata": {"labels": {"team": "a"}}})

    async def reached() -> bool:
        leaf = await fleet.get("web--west")
        return bool(leaf["spec"].get("paused") and leaf["metadata"]["labels"].get("team") == "a")

    await fleet.eventually(reached)
    await fleet.patch("web--east", {"spec": {"replicas": 1}, "metadata": {"labels": {"kcp.dev/owned-by": "me"}}})
    await fleet.becomes(east=30, west=30)

    async def put_right() -> bool:
        return bool((await fleet.get("web--east"))["metadata"]["labels"]["kcp.dev/owned-by"] == "web")

    await fleet.eventually(put_right)
    before = (await fleet.get("web--east"))["metadata"]["uid"]
    await fleet.client.delete(DEPLOYMENTS, "web--east", "default")

    async def again() -> bool:
        return "web--east" in await fleet.sizes() and (await fleet.get("web--east"))["metadata"]["uid"] != before

    await fleet.eventually(again)


async def test_clusters_that_come_and_go(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.cluster("north")
    await fleet.becomes(east=4, north=3, west=3)
    await fleet.client.delete(CLUSTERS, "east")
    await fleet.becomes(north=5, west=5)
    await fleet.client.merge_patch(CLUSTERS, "west", {"spec": {"evictAfter": "2023-01-01T00:00:00Z"}})
    await fleet.becomes(north=10)


async def test_a_cluster_that_is_not_heard_of_keeps_what_it_has(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.ready("west", "Unknown")
    await fleet.patch("web", {"spec": {"replicas": 20}})
    await fleet.becomes(east=15, west=5)
    await fleet.patch("web", {"spec": {"replicas": 3}})
    await fleet.becomes(east=2, west=1)
    await fleet.ready("west", "True")
    await fleet.becomes(east=2, west=1)


async def test_an_unschedulable_cluster_keeps_what_it_has(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.client.merge_patch(CLUSTERS, "west", {"spec": {"unschedulable": True}})
    await fleet.patch("web", {"spec": {"replicas": 12}})
    await fleet.becomes(east=7, west=5)


async def test_without_clusters_the_status_says_so(hub: Hub) -> None:
    await hub.learn()
    await hub.deploy()
    await hub.says("NoRegisteredClusters")
    assert (await hub.status())["observedGeneration"] == 1
    await hub.cluster("east", ready="False")
    await hub.says("NoReadyClusters")
    await hub.ready("east", "True")
    await hub.becomes(east=10)
    await hub.says("ReplicaSetUpdated")


async def test_a_foreign_deployment_of_a_leafs_name_is_left_alone(fleet: Hub) -> None:
    foreign = await fleet.deploy("web--east", 1, labels={"workloads.kcp.dev/cluster": "elsewhere"})
    await fleet.deploy()
    await fleet.says("LeafNameTaken")
    assert await fleet.sizes() == {"web--east": 1, "web--west": 10}
    assert (await fleet.get("web--east"))["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]
    await fleet.client.delete(DEPLOYMENTS, "web--east", "default")
    await fleet.becomes(east=5, west=5)


async def test_deleting_the_root_removes_the_leaves(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.client.delete(DEPLOYMENTS, "web", "default")
    await fleet.gone("web--east")
    await fleet.gone("web--west")


async def test_a_root_that_is_assigned_to_one_cluster_has_no_leaves(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.patch("web", {"metadata": {"labels": {"workloads.kcp.dev/cluster": "east"}}})

    async def alone() -> bool:
        return await fleet.sizes() == {"web": 10}

    await fleet.eventually(alone)


async def test_deployments_are_noticed_as_soon_as_they_are_served(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await hub.cluster("east")
    await asyncio.sleep(0.2)
    assert [record for record in caplog.records if "deployments" in record.getMessage()] == []
    await hub.learn()
    await hub.deploy()
    await hub.becomes(east=10)


async def test_where_workloads_run_by_themselves_nothing_is_split(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False, root_profile="cluster") as given:
        (loop,) = new_splitter_controllers(given.client, SystemClock())
        task = asyncio.create_task(loop.run())
        hub = Hub(given)
        await hub.learn()
        await hub.cluster("east")
        await hub.deploy()
        await asyncio.sleep(0.3)
        assert (await hub.sizes(), await hub.status()) == ({}, {})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_splitter_that_runs_again_goes_on_where_it_was(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        hub, controllers = Hub(given), new_splitter_controllers(given.client, given.clock)
        await hub.learn()
        await hub.cluster("east")
        await hub.cluster("west")
        await hub.deploy()
        for size in (5, 30):
            await hub.patch("web", {"spec": {"replicas": 2 * size}}, "scale")
            tasks = [asyncio.create_task(controller.run()) for controller in controllers]
            await hub.becomes(east=size, west=size)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class LateLists(Passing):
    """Lists of a kind are answered only when the test says so."""

    def __init__(self, inner: Transport, answered: asyncio.Event, kind: GroupVersionResource = CLUSTERS) -> None:
        super().__init__(inner)
        self._answered, self._kind = answered, kind

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if path.endswith(f"/{self._kind.group}/{self._kind.version}/{self._kind.resource}"):
            await self._answered.wait()
        return await self.inner.request(method, path, query, headers, body)


async def test_a_placement_has_a_status_even_if_clusters_are_listed_last(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        hub, answered = Hub(given), asyncio.Event()
        api_version, spec = f"{placement.GROUP}/{placement.VERSION}", {"selects": [{"kind": "Deployment"}]}
        body = {"apiVersion": api_version, "kind": "Placement", "metadata": {"name": "rule"}, "spec": spec}
        await hub.client.create(PLACEMENTS, body, "default")

        client = given.client.with_transport(lambda transport: LateLists(transport, answered))
        (loop,) = new_splitter_controllers(client, SystemClock())
        task = asyncio.create_task(loop.run())
        await asyncio.sleep(0.3)
        answered.set()

        async def has_status() -> bool:
            return bool((await hub.client.get(PLACEMENTS, "rule", "default")).get("status"))

        await hub.eventually(has_status)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_follows_stays_until_it_is_known_what_it_follows(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        hub = Hub(given)
        await hub.learn()
        await hub.learn("PodDisruptionBudget", "policy")
        await hub.cluster("east")
        body = {"apiVersion": f"{placement.GROUP}/{placement.VERSION}", "kind": "Placement", "metadata": {"name": "p"}}
        rule = {**body, "spec": {"selects": [{"kind": "Deployment"}], "follow": True}}
        await hub.client.create(PLACEMENTS, rule, "default")
        await hub.deploy()
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
        spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        await hub.client.create(BUDGETS, {**budget, "spec": spec}, "default")

        async def leaf_uids() -> list[str]:
            found, _ = await hub.client.list_all(BUDGETS, "default", labels=workloadcluster.CLUSTER_LABEL)
            return [one["metadata"]["uid"] for one in found]

        async with run_controllers(list(new_splitter_controllers(given.client, given.clock))):
            [uid] = await hub.eventually(leaf_uids)
        answered = asyncio.Event()
        client = given.client.with_transport(lambda inner: LateLists(inner, answered, DEPLOYMENTS))
        async with run_controllers(list(new_splitter_controllers(client, SystemClock()))):
            await asyncio.sleep(0.5)
            assert await leaf_uids() == [uid]
            answered.set()
            await hub.patch("web", {"spec": {"replicas": 12}})
            await hub.becomes(east=12)
            assert await leaf_uids() == [uid]
            await hub.client.delete(DEPLOYMENTS, "web", "default")
            await hub.eventually(lambda: _are_none(leaf_uids))


async def _are_none(look: Callable[[], Awaitable[list[str]]]) -> bool:
    return not await look()


async def test_a_cluster_without_nodes_or_room_takes_nothing_away(fleet: Hub) -> None:
    await fleet.deploy(replicas=12)
    await fleet.becomes(east=6, west=6)
    for name in ("east", "west"):
        await fleet.run(f"web--{name}")
    await fleet.says("NewReplicaSetAvailable")
    await fleet.cluster("empty", ready="False")
    await fleet.cluster("full", ready="False")
    await fleet.publish_room("empty", None)
    await fleet.publish_room("full", {}, pods=0)
    await fleet.ready("empty", "True")
    await fleet.ready("full", "True")
    explained = await explain_object(fleet.client, "Deployment", "default", "web")
    assert {one.cluster: (one.then, one.why) for one in explained.verdicts} == {
        "east": (6, "is selected"),
        "west": (6, "is selected"),
        "empty": (0, "has no nodes, and no NodePool to buy them"),
        "full": (0, "has no node with room for one replica"),
    }
    await fleet.patch("web", {"metadata": {"labels": {"looked": "at"}}})

    async def looked() -> bool:
        return "looked" in (await fleet.get("web--west"))["metadata"]["labels"]

    await fleet.eventually(looked)
    await fleet.becomes(east=6, west=6)
    await fleet.publish_room("full", {}, pods=1)
    await fleet.becomes(east=6, full=1, west=6)  # the successor comes first


async def test_replicas_are_placed_where_nodes_match_the_pod_template(fleet: Hub) -> None:
    await fleet.publish_room("east", {"disk": "ssd"})
    await fleet.deploy(replicas=4)
    await fleet.becomes(east=2, west=2)
    pod_spec = {"containers": [{"name": "c", "image": "web:1"}], "nodeSelector": {"disk": "ssd"}}
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "pinned"}},
        "template": {"metadata": {"labels": {"app": "pinned"}}, "spec": pod_spec},
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "pinned"}, "spec": spec}
    await fleet.client.create(DEPLOYMENTS, body, "default")

    async def placed() -> bool:
        return {name: size for name, size in (await fleet.sizes()).items() if "pinned" in name} == {"pinned--east": 4}

    await fleet.eventually(placed)
