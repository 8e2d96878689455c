"""`shoal controllers`: at an API server that has nothing of Shoal but its CRDs, and which flags it refuses."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from shoal.assemble.commands import controllers as module
from shoal.assemble.commands.controllers import (
    ControllersConfig,
    ControllersProcess,
    HubOnlyLoop,
    LoopsInside,
    NotServed,
    NotShoalServer,
)
from shoal.assemble.server.loops import HostingServer
from shoal.capi.informers import CLUSTERS, MACHINES, SECRETS
from shoal.capi.providers.embedded.informers import LOGICAL_CLUSTERS, NODES
from shoal.cli.main import shoal
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.rbac.loop_accounts import LOOPS
from shoal.kinds.shoal_crds import crd_manifests
from shoal.objects.errors import NotFound
from shoal.runtime.leader_election import LEASES
from shoal.sync import resources as workload
from tests.capi.management_cluster import ONE_FILE, condition
from tests.controlplane.world import World, world
from tests.leases import Stale

Object = dict[str, Any]

DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
EMBEDDED_CLUSTERS = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedclusters")
CAPI = ControllersConfig(("capi",))


class SharedClient(Client):
    """A client that is not closed by the command."""

    async def close(self) -> None:
        pass


async def foreign_cluster(given: World, *, defined: bool = True) -> Client:
    """A cluster whose API server has no logical clusters: a hosted one."""
    await given.cluster("k")
    client = SharedClient(given.server.transport(), "admin", cluster="k")
    for text in crd_manifests("root") if defined else ():
        await client.create(DEFINITIONS, yaml.safe_load(text))
    return client


def hosting(given: World) -> HostingServer:
    client = SharedClient(given.server.transport(), "admin", cluster="root")
    return HostingServer(client, given.server.url, given.server.authority.certificate.decode())


@asynccontextmanager
async def running_controllers(
    client: Client, wanted: ControllersConfig, host: HostingServer | None = None
) -> AsyncIterator[ControllersProcess]:
    controllers = await ControllersProcess.start(client, wanted, host)
    try:
        yield controllers
    finally:
        await controllers.stop()


async def apply(client: Client) -> None:
    for obj in yaml.safe_load_all(ONE_FILE):
        group, _, version = obj["apiVersion"].partition("/")
        await client.create(GroupVersionResource(group, version, f"{obj['kind'].lower()}s"), obj, "default")


async def wait_until(look: Callable[[], Awaitable[object]]) -> None:
    for _ in range(3000):
        if await look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"still {await look()!r}")


async def is_deleted(client: Client, kind: GroupVersionResource, name: str, namespace: str = "") -> bool:
    try:
        await client.get(kind, name, namespace)
    except NotFound:
        return True
    return False


@pytest.mark.anyio
async def test_clusters_of_one_server_are_hosted_by_another(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client, host = await foreign_cluster(given), hosting(given)
        async with running_controllers(client, CAPI, host):
            await apply(client)

            async def ready() -> bool:
                found, _ = await client.list_all(MACHINES)
                return [(machine.get("status") or {}).get("phase") for machine in found] == ["Running"] * 3

            await wait_until(ready)
            nodes, _ = await host.client.in_cluster("default.east").list_all(NODES)
            assert len(nodes) == 3
            assert await client.get(SECRETS, "east-kubeconfig", "default")
            assert (await host.client.list_all(CLUSTERS))[0] == [], "only the hosted cluster is there"
            await client.delete(CLUSTERS, "east", "default")
            await wait_until(lambda: is_deleted(client, CLUSTERS, "east", "default"))
            await wait_until(lambda: is_deleted(host.client, LOGICAL_CLUSTERS, "default.east"))
            assert (await client.list_all(MACHINES))[0] == []


@pytest.mark.anyio
async def test_without_a_server_that_hosts_it_an_embedded_cluster_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await foreign_cluster(given)
        async with running_controllers(client, CAPI):
            await apply(client)

            async def told() -> bool:
                cluster = await client.get(CLUSTERS, "east", "default")
                found = condition(cluster, "InfrastructureReady") or {}
                return found.get("reason") == "NoHostingServer" and "--hosting-kubeconfig" in found["message"]

            await wait_until(told)
            await client.delete(CLUSTERS, "east", "default")
            await wait_until(lambda: is_deleted(client, CLUSTERS, "east", "default"))
            assert (await client.list_all(MACHINES))[0] == []
            assert (await client.list_all(EMBEDDED_CLUSTERS))[0] == []


@pytest.mark.anyio
async def test_workload_clusters_and_the_fleet_are_looked_at(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await foreign_cluster(given)
        cluster = {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "east"}}
        await client.create(workload.CLUSTERS, {**cluster, "spec": {"kubeconfig": "{}"}})
        managed: Object = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
        managed |= {"metadata": {"name": "west", "namespace": "default"}, "spec": {}}
        await client.create(MANAGED_CLUSTERS, managed, "default")
        async with running_controllers(client, ControllersConfig(("importer", "syncer", "fleet"))):

            async def told() -> bool:
                found = condition(await client.get(workload.CLUSTERS, "east"), "Ready") or {}
                return found.get("reason") == "InvalidKubeConfig"

            async def scheduled() -> bool:
                found = await client.get(MANAGED_CLUSTERS, "west", "default")
                return bool((found.get("status") or {}).get("conditions"))

            await wait_until(told)
            await wait_until(scheduled)


@pytest.mark.anyio
async def test_the_holder_of_the_lease_acts_and_gives_it_back(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await foreign_cluster(given)
        async with running_controllers(client, CAPI) as first:

            async def held() -> bool:
                return first.leases["capi"].is_leader

            await wait_until(held)
            async with running_controllers(client, CAPI) as second:
                lease = await client.get(LEASES, "shoal-controllers-capi", "kube-system")
                assert lease["spec"]["holderIdentity"]
                assert not second.leases["capi"].is_leader
        lease = await client.get(LEASES, "shoal-controllers-capi", "kube-system")
        assert lease["spec"]["holderIdentity"] == ""


@pytest.mark.anyio
async def test_who_was_paused_writes_nothing_anywhere_until_it_holds_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LeaderElector", Stale)
    async with world(tmp_path, loops=False) as given:
        client, host = await foreign_cluster(given), hosting(given)
        await apply(client)
        before = await client.list_all(EMBEDDED_CLUSTERS), await client.list_all(CLUSTERS)
        async with running_controllers(client, CAPI, host):

            async def looked() -> bool:
                return Stale.looks > 5

            await wait_until(looked)
            assert (await client.list_all(EMBEDDED_CLUSTERS), await client.list_all(CLUSTERS)) == before
            assert await is_deleted(host.client, LOGICAL_CLUSTERS, "default.east")
            Stale.valid = True

            async def hosted() -> bool:
                return not await is_deleted(host.client, LOGICAL_CLUSTERS, "default.east")

            await wait_until(hosted)


@pytest.mark.anyio
async def test_health_and_metrics_are_served_where_asked(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await foreign_cluster(given)
        wanted = ControllersConfig(("capi",), health_address=("127.0.0.1", 0))
        async with running_controllers(client, wanted) as found:

            def read(path: str) -> str:
                with urllib.request.urlopen(f"http://127.0.0.1:{found.health_port}{path}", timeout=60) as answer:
                    return str(answer.read().decode())

            assert await asyncio.to_thread(read, "/healthz") == "ok"
            assert await asyncio.to_thread(read, "/readyz") == "ok"
            said = await asyncio.to_thread(read, "/metrics")
            assert 'leader_election_master_status{name="shoal-controllers-capi"} ' in said


@pytest.mark.anyio
async def test_what_cannot_run_is_named(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await foreign_cluster(given, defined=False)
        with pytest.raises(NotServed, match=r"^the server does not serve clusters\.cluster\.x-k8s\.io/v1beta2$"):
            await ControllersProcess.start(client, CAPI)
        with pytest.raises(HubOnlyLoop, match="splitter runs at a Shoal hub only"):
            await ControllersProcess.start(client, ControllersConfig(("splitter",)))
        with pytest.raises(LoopsInside, match="this Shoal server runs capi itself"):
            await ControllersProcess.start(hosting(given).client, CAPI)
        with pytest.raises(NotShoalServer, match="is not the root of a Shoal server"):
            await ControllersProcess.start(client, CAPI, HostingServer(client, "https://k", ""))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--loops", "capi,foo"], f"foo: choose from {', '.join(LOOPS)}"),
        (["--loops", ","], f"none: choose from {', '.join(LOOPS)}"),
        (["--health-address", "here"], "here: give an address and a port, such as 127.0.0.1:8081"),
    ],
)
def test_wrong_flags_are_named(flags: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    done = CliRunner().invoke(shoal, ["controllers", "--kubeconfig", str(file), *flags])
    assert done.exit_code == 2
    assert said in done.output
