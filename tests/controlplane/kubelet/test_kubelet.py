"""Tests of simulated nodes in a running server on a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.controlplane.kubelet.informers import NODES, PODS
from shoal.controlplane.node_controllers import new_node_controllers, new_simulated_node_controllers
from shoal.kinds.fleet.logicalcluster import GROUP, VERSION
from shoal.objects.conditions import condition_is
from shoal.runtime.manager import Runnable
from shoal.store.sqlite import SqliteStore
from tests.controlplane.world import CLUSTERS, World, world

Object = dict[str, Any]

LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
SETTLE = 0.1
"""Seconds in which something that must not happen would have."""


def node(
    name: str = "n", annotations: dict[str, str] | None = None, *, simulated: bool = True, **spec: object
) -> Object:
    labels = {"shoal.dev/simulated": "true"} if simulated else {}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations or {}}, "spec": spec}


def pod(name: str = "p", on: str = "n", annotations: dict[str, str] | None = None, **spec: object) -> Object:
    container = {"name": "c", "image": "nginx:1"}
    metadata: Object = {"name": name, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"nodeName": on, "containers": [container], **spec}}


async def create(client: Client, *objects: Object) -> None:
    for obj in objects:
        kind = PODS if "containers" in obj["spec"] else NODES
        await client.create(kind, obj, "default" if kind is PODS else "")


def node_is(client: Client, status: str = "True", name: str = "n") -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return condition_is(await client.get(NODES, name), "Ready", status)

    return look


def pod_is(client: Client, phase: str, name: str = "p") -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool((await client.get(PODS, name, "default"))["status"]["phase"] == phase)

    return look


async def settle_and_step(given: World, seconds: float) -> None:
    """Advances the clock after pending work has settled."""
    await asyncio.sleep(SETTLE)
    given.clock.step(seconds)


@pytest.mark.anyio
async def test_a_pod_runs_with_one_write_and_goes_with_its_deletion(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node())
        await given.eventually(node_is(client))
        written: list[str] = []
        given.server.core.cache.observe(lambda kind, event: written.append(kind.key) if event.cluster == "a" else None)
        await create(client, *(pod(f"p{number}") for number in range(20)))
        for number in range(20):
            await given.eventually(pod_is(client, "Running", f"p{number}"))
        await asyncio.sleep(SETTLE)
        assert written == ["core/pods"] * 40, "one creation and one status for each pod"
        found, _ = await client.list_all(PODS)
        assert all(condition_is(each, "Ready") for each in found)
        assert len({each["status"]["podIP"] for each in found}) == 20
        await client.delete(PODS, "p0", "default")
        await given.eventually(lambda: given.is_gone(client, PODS, "p0", "default"))


@pytest.mark.anyio
async def test_a_pod_that_was_there_before_its_node(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, pod(), pod("q", on="real"))
        await create(client, node(), node("real", simulated=False))
        await given.eventually(pod_is(client, "Running"))
        await asyncio.sleep(SETTLE)
        assert (await client.get(PODS, "q", "default"))["status"]["phase"] == "Pending"
        assert "conditions" not in (await client.get(NODES, "real"))["status"], "a real kubelet will say"


@pytest.mark.anyio
async def test_a_kubelet_has_the_version_of_its_cluster(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = given.client.in_cluster("a")
        body = {"metadata": {"name": "a"}, "spec": {"profile": "cluster", "version": "v1.35.1"}}
        await given.client.create(CLUSTERS, {"apiVersion": f"{GROUP}/{VERSION}", "kind": "LogicalCluster", **body})
        await create(client, node())
        await given.eventually(node_is(client))

        def has(version: str) -> Callable[[], Awaitable[bool]]:
            async def look() -> bool:
                return bool((await client.get(NODES, "n"))["status"]["nodeInfo"]["kubeletVersion"] == version)

            return look

        assert await has("v1.35.1")()
        await given.client.merge_patch(CLUSTERS, "a", {"spec": {"version": "v1.36.4"}})
        await given.eventually(has("v1.36.4"))


@pytest.mark.anyio
async def test_the_pod_of_a_job_completes(tmp_path: Path) -> None:
    async with bare_server(tmp_path) as given, run_controllers(new_node_controllers(given.client, given.clock)):
        client = await given.cluster("a")
        mine = pod(restartPolicy="Never", annotations={"shoal.dev/run-for": "20s"})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
        mine["metadata"]["ownerReferences"] = [{**owner, "uid": "1"}]
        await create(client, node(), mine)
        await given.eventually(pod_is(client, "Running"))
        await settle_and_step(given, 19)
        await asyncio.sleep(SETTLE)
        assert await pod_is(client, "Running")()
        given.clock.step(1)
        await given.eventually(pod_is(client, "Succeeded"))


@pytest.mark.anyio
async def test_a_node_that_takes_its_time(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node(annotations={"shoal.dev/startup-delay": "30s"}), pod())
        await given.eventually(node_is(client, "False"))

        async def tainted() -> bool:
            return len((await client.get(NODES, "n"))["spec"].get("taints") or ()) == 2

        await given.eventually(tainted)
        await settle_and_step(given, 30)
        await given.eventually(pod_is(client, "Running"))

        async def clean() -> bool:
            return "taints" not in (await client.get(NODES, "n"))["spec"]

        await given.eventually(clean)


@pytest.mark.anyio
async def test_a_lost_node_loses_its_pods_and_comes_back(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        forever = [{"operator": "Exists"}]
        await create(client, node(), pod(), pod("patient", tolerations=forever))
        await given.eventually(pod_is(client, "Running"))
        await given.eventually(pod_is(client, "Running", "patient"))
        await client.merge_patch(NODES, "n", {"metadata": {"annotations": {"shoal.dev/simulate": "not-ready"}}})
        await given.eventually(node_is(client, "Unknown"))

        def ready(name: str, wanted: bool) -> Callable[[], Awaitable[bool]]:
            async def look() -> bool:
                return condition_is(await client.get(PODS, name, "default"), "Ready") == wanted

            return look

        async def going() -> bool:
            return "deletionTimestamp" in (await client.get(PODS, "p", "default"))["metadata"]

        await given.eventually(ready("p", False))
        await given.eventually(ready("patient", False))
        keys = {(each["key"], each["effect"]) for each in (await client.get(NODES, "n"))["spec"]["taints"]}
        assert keys == {("node.kubernetes.io/unreachable", effect) for effect in ("NoSchedule", "NoExecute")}
        await settle_and_step(given, 299)
        await asyncio.sleep(SETTLE)
        assert not await going()
        given.clock.step(1)
        await given.eventually(going)
        await asyncio.sleep(SETTLE)
        assert await going(), "nobody ends it while its node is lost"
        await client.merge_patch(NODES, "n", {"metadata": {"annotations": {"shoal.dev/simulate": None}}})
        await given.eventually(lambda: given.is_gone(client, PODS, "p", "default"))
        await given.eventually(ready("patient", True))
        assert "taints" not in (await client.get(NODES, "n"))["spec"]


@pytest.mark.anyio
async def test_a_taint_drives_pods_out(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node(), pod(), pod("brave", tolerations=[{"key": "go", "operator": "Exists"}]))
        await given.eventually(pod_is(client, "Running"))
        await client.merge_patch(NODES, "n", {"spec": {"taints": [{"key": "go", "effect": "NoExecute"}]}})
        await given.eventually(lambda: given.is_gone(client, PODS, "p", "default"))
        assert await pod_is(client, "Running", "brave")()


@pytest.mark.anyio
async def test_pods_go_with_their_node_and_only_then(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node(), pod(), pod("early", on="to-come"))
        await given.eventually(pod_is(client, "Running"))
        await client.delete(NODES, "n")
        await given.eventually(lambda: given.is_gone(client, PODS, "p", "default"))
        await settle_and_step(given, 39)
        await asyncio.sleep(SETTLE)
        assert await pod_is(client, "Pending", "early")(), "its node may be on its way"
        given.clock.step(1)
        await given.eventually(lambda: given.is_gone(client, PODS, "early", "default"))


@pytest.mark.anyio
async def test_leases_of_simulated_nodes_are_fresh_without_a_write(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node("n1"), node("n2"), node("real", simulated=False))
        await given.eventually(node_is(client, name="n1"))
        stored = {"metadata": {"name": "n2"}, "spec": {"holderIdentity": "somebody"}}
        await client.create(LEASES, stored, "kube-node-lease")
        await asyncio.sleep(SETTLE)
        revision = given.server.core.cache.revision
        first = await client.get(LEASES, "n1", "kube-node-lease")
        assert first["spec"] == {
            "holderIdentity": "n1",
            "leaseDurationSeconds": 40,
            "renewTime": "2023-11-14T22:13:20.000000Z",
        }
        given.clock.step(3600)
        again = await client.get(LEASES, "n1", "kube-node-lease")
        assert again["spec"]["renewTime"] == "2023-11-14T23:13:20.000000Z"
        assert again["metadata"]["uid"] == first["metadata"]["uid"]
        for namespace in ("kube-node-lease", ""):
            found, _ = await client.list_all(LEASES, namespace)
            assert [(each["metadata"]["name"], each["spec"]["holderIdentity"]) for each in found] == [
                ("n1", "n1"),
                ("n2", "somebody"),
            ]
        page = await client.request("GET", client.resource_path(LEASES, "", "kube-node-lease"), {"limit": "1"})
        rest = await client.request(
            "GET",
            client.resource_path(LEASES, "", "kube-node-lease"),
            {"limit": "1", "continue": page["metadata"]["continue"]},
        )
        assert [each["metadata"]["name"] for each in page["items"] + rest["items"]] == ["n1", "n2"]
        assert await given.is_gone(client, LEASES, "real", "kube-node-lease")
        assert await given.is_gone(client, LEASES, "n1", "default")
        assert given.server.core.cache.revision == revision


# --- loops that are started again, and loops for one API server ---


@asynccontextmanager
async def bare_server(directory: Path) -> AsyncIterator[World]:
    """Without any loop."""
    clock, store = FakeClock(), await SqliteStore.open(directory)
    settings = ApiServerSettings(directory=directory / "pki", tokens={"admin": admin_user()})
    server = await ApiServer.start(settings, store, clock)
    try:
        yield World(server, clock, Client(server.transport(), "admin", cluster="root"))
    finally:
        await server.stop()
        await store.close()


@asynccontextmanager
async def run_controllers(loops: list[Runnable]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_what_happened_while_nobody_looked_is_caught_up_with(tmp_path: Path) -> None:
    async with bare_server(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node("n"), node("m"), pod("a"), pod("b"), pod("c", on="m"))
        async with run_controllers(new_node_controllers(given.client, given.clock)):
            for name in ("a", "b", "c"):
                await given.eventually(pod_is(client, "Running", name))
        address = (await client.get(PODS, "a", "default"))["status"]["podIP"]
        await client.delete(PODS, "b", "default")
        await client.delete(NODES, "m")
        await create(client, pod("d"))
        given.clock.step(60)
        async with run_controllers(new_node_controllers(given.client, given.clock)):
            await given.eventually(pod_is(client, "Running", "d"))
            await given.eventually(lambda: given.is_gone(client, PODS, "b", "default"))
            await given.eventually(lambda: given.is_gone(client, PODS, "c", "default"))
        assert (await client.get(PODS, "a", "default"))["status"]["podIP"] == address


@pytest.mark.anyio
async def test_the_kubelet_alone_serves_any_api_server(tmp_path: Path) -> None:
    async with bare_server(tmp_path) as given:
        client, other = await given.cluster("a"), await given.cluster("b")
        await create(client, node(), pod(), pod("lost", on="nowhere"))
        await create(other, node(), pod())
        async with run_controllers(new_simulated_node_controllers(client, given.clock)):
            await given.eventually(pod_is(client, "Running"))
            await settle_and_step(given, 3600)
            await asyncio.sleep(SETTLE)
            assert await pod_is(client, "Pending", "lost")(), "that is for the server's own control plane"
            assert await pod_is(other, "Pending")()
