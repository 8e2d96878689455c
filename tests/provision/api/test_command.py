"""`shoal provisioner`: one cluster, two clients, a Lease, and its error messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.assemble.commands import provisioner as module
from shoal.assemble.commands.controllers import NotServed, wait_until_served
from shoal.assemble.commands.provisioner import (
    ClusterNotFound,
    ProvisionedByShoal,
    ProvisionerConfig,
    ProvisionerProcess,
    ProvisionerSettings,
    install_missing_crds,
    reject_hosted_cluster,
)
from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.embedded_controllers import new_controllers
from shoal.capi.informers import CLUSTERS
from shoal.cli.provisioner import command
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import SystemClock
from shoal.objects.errors import StatusError
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS
from shoal.provision.controllers import new_provision_controllers
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS, PODS
from shoal.runtime.leader_election import LEASES
from shoal.store.sqlite import SqliteStore
from tests.leases import Stale
from tests.provision.hosted import cluster_objects, node_class, node_pool, pod, size_objects
from tests.serving import HANG

KINDS = {
    "Cluster": CLUSTERS,
    "MachineDeployment": MACHINE_DEPLOYMENTS,
    "EmbeddedCluster": GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedclusters"),
    "EmbeddedMachineTemplate": GroupVersionResource(
        "infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachinetemplates"
    ),
}
DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
EAST = ProvisionerConfig("default", "east", ProvisionerSettings(batch_idle_seconds=0.01, batch_max_seconds=0.1))


@dataclass
class World:
    """A server without a provisioner; the Machines are at its root, the pods in the cluster it hosts."""

    server: ApiServer

    def client(self, cluster: str) -> Client:
        return Client(self.server.transport(), "loops", cluster=cluster)

    async def eventually(self, look: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(HANG):
            while True:
                with suppress(StatusError):
                    if await look():
                        return
                await asyncio.sleep(0.01)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await SqliteStore.open(tmp_path)
    settings = ApiServerSettings(directory=tmp_path / "pki", tokens={"loops": admin_user("system:shoal:loops")})
    server = await ApiServer.start(settings, store)
    world, clock = World(server), SystemClock()
    root = world.client("root")
    bought = {each.name for each in new_provision_controllers(root, clock)}
    others = [each for each in new_controllers(root, clock, server.core.keys, "https://x") if each.name not in bought]
    tasks = [asyncio.create_task(each.run()) for each in others]
    yield world
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.stop()
    await store.close()


@pytest.mark.anyio
async def test_one_of_two_processes_buys(world: World) -> None:
    root, hosted = world.client("root"), world.client("default.east")
    for obj in [*cluster_objects("east"), *size_objects("east", "small")]:
        await root.create(KINDS[obj["kind"]], obj, "default")
    await world.eventually(
        lambda: hosted.get(GroupVersionResource("", "v1", "namespaces", namespaced=False), "kube-system")
    )
    first = await ProvisionerProcess.start(world.client("default.east"), world.client("root"), EAST)
    assert first.lease is not None
    await world.eventually(lambda: _true(first.lease is not None and first.lease.is_leader))
    second = await ProvisionerProcess.start(world.client("default.east"), world.client("root"), EAST)
    await hosted.create(NODE_CLASSES, node_class())
    await hosted.create(NODE_POOLS, node_pool(disruption={"consolidateAfter": "Never"}))
    await hosted.create(PODS, pod("one", "1500m"), "default")

    async def running() -> bool:
        return ((await hosted.get(PODS, "one", "default")).get("status") or {}).get("phase") == "Running"

    await world.eventually(running)
    claims, _ = await hosted.list_all(NODE_CLAIMS)
    assert len(claims) == 1
    assert second.lease is not None
    assert not second.lease.is_leader
    await second.stop()
    await first.stop()
    lease = await hosted.get(LEASES, "shoal-provisioner", "kube-system")
    assert lease["spec"]["holderIdentity"] == "", "given back, so that another need not wait"


@pytest.mark.anyio
async def test_who_was_paused_buys_nothing_until_it_holds_the_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LeaderElector", Stale)
    root, hosted = world.client("root"), world.client("default.east")
    for obj in [*cluster_objects("east"), *size_objects("east", "small")]:
        await root.create(KINDS[obj["kind"]], obj, "default")
    await world.eventually(
        lambda: hosted.get(GroupVersionResource("", "v1", "namespaces", namespaced=False), "kube-system")
    )
    await hosted.create(NODE_CLASSES, node_class())
    await hosted.create(NODE_POOLS, node_pool(disruption={"consolidateAfter": "Never"}))
    await hosted.create(PODS, pod("one", "1500m"), "default")
    paused = await ProvisionerProcess.start(world.client("default.east"), world.client("root"), EAST)
    await world.eventually(lambda: _true(Stale.looks > 5))
    assert (await hosted.list_all(NODE_CLAIMS))[0] == []
    assert "status" not in await hosted.get(NODE_POOLS, "default")
    Stale.valid = True

    async def bought() -> bool:
        return len((await hosted.list_all(NODE_CLAIMS))[0]) == 1

    await world.eventually(bought)
    await paused.stop()


async def _true(found: bool) -> bool:
    return found


@pytest.mark.anyio
async def test_what_is_missing_is_named(world: World) -> None:
    root = world.client("root")
    with pytest.raises(NotServed, match=r"does not serve nodepools\.karpenter\.sh/v1"):
        await ProvisionerProcess.start(root, root, EAST)
    await install_missing_crds(root)
    for kind in (NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS):
        await wait_until_served(root, kind, SystemClock())
    before, _ = await root.list_all(DEFINITIONS)
    await install_missing_crds(root)
    after, _ = await root.list_all(DEFINITIONS)
    assert {each["metadata"]["name"]: each["spec"] for each in before} == {
        each["metadata"]["name"]: each["spec"] for each in after
    }
    with pytest.raises(ClusterNotFound, match=r"there is no Cluster default/east in the management cluster"):
        await ProvisionerProcess.start(root, root, EAST)


@pytest.mark.anyio
async def test_only_what_a_server_provisions_itself_is_rejected(world: World) -> None:
    """The Machines of a cluster that is hosted elsewhere are on a Shoal hub with all its controllers."""
    root, hosted = world.client("root"), world.client("default.east")
    for obj in [*cluster_objects("east"), *size_objects("east", "small"), *size_objects("far", "small")]:
        obj.get("spec", {}).pop("replicas", None)
        await root.create(KINDS[obj["kind"]], obj, "default")
    reference = {"apiGroup": "infrastructure.example.com", "kind": "MetalCluster", "name": "far"}
    far_cluster = {**cluster_objects("far")[0], "spec": {"infrastructureRef": reference}}
    await root.create(KINDS["Cluster"], far_cluster, "default")
    far = ProvisionerConfig("default", "far", EAST.settings)
    accounts = module.SERVICE_ACCOUNTS
    await world.eventually(lambda: hosted.get(accounts, "shoal-admin", "kube-system"))
    with pytest.raises(ProvisionedByShoal, match="the cluster with the pods is hosted by a Shoal server"):
        await reject_hosted_cluster(hosted, root, far)
    with pytest.raises(ProvisionedByShoal, match="Cluster default/east is hosted by a Shoal server"):
        await reject_hosted_cluster(root, root, EAST)
    with pytest.raises(ClusterNotFound):
        await reject_hosted_cluster(root, root, ProvisionerConfig("default", "west"))
    await reject_hosted_cluster(root, root, far)

    async def scale(name: str, replicas: int) -> None:
        await root.merge_patch(MACHINE_DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, "default")

    async def replicas(name: str) -> int:
        return int((await root.get(MACHINE_DEPLOYMENTS, name, "default"))["spec"]["replicas"])

    async def is_empty() -> bool:
        return await replicas("east-small") == 0

    tasks = [asyncio.create_task(each.run()) for each in new_provision_controllers(root, SystemClock())]
    await scale("far-small", 2)
    await scale("east-small", 2)
    try:
        await world.eventually(is_empty)
        assert await replicas("far-small") == 2, "the server's own provisioner leaves it alone"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "Missing option '--cluster'"),
        (["--cluster", "east"], "east: give NAMESPACE/NAME"),
        (["--cluster", "a/b", "--batch-idle-duration", "soon"], "soon: give a duration, such as 1s or 500ms"),
        (["--cluster", "a/b", "--planner", "best"], "'best' is not one of 'karpenter', 'optimal'"),
        (["--cluster", "a/b", "--preference-policy", "Maybe"], "'Maybe' is not one of 'Respect', 'Ignore'"),
        (["--cluster", "a/b", "--feature-gates", "StaticCapacity=true"], "of NodeRepair, SpotToSpotConsolidation"),
    ],
)
def test_a_wrong_flag(flags: list[str], said: str) -> None:
    done = CliRunner().invoke(command, flags)
    assert done.exit_code == 2
    assert said in done.output
