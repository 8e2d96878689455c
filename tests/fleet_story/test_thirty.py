"""`shoal up --workers 3` with 30 ManagedClusters: their whole lifecycle, and a Worker deleted while it hosts."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.kubeconfig import new_client, rest_config_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS, NAMESPACES, SECRETS, WORKERS
from shoal.fleet.worker.informers import HOSTING_RESOURCES
from tests.fleet.fleets import SYSTEM, condition, eventually, gone, managed, phase

pytestmark = pytest.mark.anyio

Object = dict[str, Any]

CAPACITY = 12
NAMES = [f"c{number:02}" for number in range(30)]
HOSTS = ("worker-1", "worker-2", "worker-3")
MACHINES = GroupVersionResource("cluster.x-k8s.io", "v1beta2", "machines")
EMBEDDED_MACHINES = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachines")
MADE_OF = (MANAGED_CLUSTERS, MACHINES, EMBEDDED_MACHINES, *HOSTING_RESOURCES.values())
"""The kinds of a worker's root that a hosted cluster is made of; each object is named after it."""


class Fleet:
    def __init__(self, up: HubWithWorkers) -> None:
        self.hub = up.hub.client("test")
        self.own = {name: worker.shoal.client("test") for name, worker in zip(HOSTS, up.workers, strict=True)}
        self.address = up.hub.server.url

    async def clusters(self) -> dict[str, Object]:
        found, _ = await self.hub.list_all(MANAGED_CLUSTERS)
        return {each["metadata"]["name"]: each for each in found}

    async def hosts(self) -> dict[str, str]:
        return {name: each["status"]["assignedWorker"] for name, each in (await self.clusters()).items()}

    async def all_run(self, names: Sequence[str]) -> None:
        async def so() -> bool:
            found = await self.clusters()
            return set(found) == set(names) and all(phase(found[name]) == "Running" for name in names)

        await eventually(so)

    async def free(self, expected: dict[str, int]) -> None:
        """Until every Worker runs and says so of its slots."""

        async def so() -> bool:
            found, _ = await self.hub.list_all(WORKERS, SYSTEM)
            return {each["metadata"]["name"]: _free(each) for each in found} == expected

        await eventually(so)

    async def inside(self, name: str) -> Client:
        """By the kubeconfig of its Secret, over the wire."""
        secret = await self.hub.get(SECRETS, f"{name}-kubeconfig", "default")
        endpoint = rest_config_of(yaml.safe_load(base64.b64decode(secret["data"]["value"])), source=name)
        assert endpoint.server == f"{self.address}/managedclusters/default/{name}"
        return new_client(endpoint, "test")

    async def serves(self, name: str) -> bool:
        client = await self.inside(name)
        try:
            found, _ = await client.list_all(NAMESPACES)
        finally:
            await client.close()
        return "kube-system" in {each["metadata"]["name"] for each in found}

    async def hosted(self, worker: str) -> set[str]:
        """What a worker has, by the names of its ManagedClusters."""
        found, _ = await self.own[worker].list_all(LOGICAL_CLUSTERS)
        return {each["metadata"]["name"].removeprefix("default.") for each in found} - {"root"}

    async def nothing_else_is_left(self, where: dict[str, str]) -> None:
        """Of Machines, Secrets and all the rest; the garbage collector takes some of them, a moment later."""

        async def so() -> bool:
            found = {(name, host) for host in HOSTS for name in await self.traces(host)}
            return found == set(where.items())

        await eventually(so)

    async def traces(self, worker: str) -> set[str]:
        """Whatever in a worker's root is named after a ManagedCluster."""
        found: set[str] = set()
        for kind in (*MADE_OF, SECRETS):
            objects, _ = await self.own[worker].list_all(kind, "default")
            found |= {each["metadata"]["name"][: len(NAMES[0])] for each in objects}
        return found & set(NAMES)


def _free(worker: Object) -> int | None:
    return worker["status"].get("availableCapacity") if phase(worker) == "Running" else None


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Fleet]:
    up = await HubWithWorkers.start(ShoalServerSettings(directory, port=0), InProcessWorkers(len(HOSTS), CAPACITY))
    try:
        yield Fleet(up)
    finally:
        await up.stop()


async def test_thirty_clusters_on_three_workers(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as fleet:
        await fleet.free(dict.fromkeys(HOSTS, CAPACITY))
        await asyncio.gather(*(fleet.hub.create(MANAGED_CLUSTERS, managed(name), "default") for name in NAMES))
        await fleet.all_run(NAMES)
        where = await fleet.hosts()
        assert Counter(where.values()) == dict.fromkeys(HOSTS, 10)
        for host in HOSTS:
            assert await fleet.hosted(host) == {name for name, worker in where.items() if worker == host}
        assert all([await fleet.serves(name) for name in NAMES])
        await fleet.free(dict.fromkeys(HOSTS, CAPACITY - 10))

        going, staying = NAMES[::2], NAMES[1::2]
        await asyncio.gather(*(fleet.hub.delete(MANAGED_CLUSTERS, name, "default") for name in going))
        await fleet.all_run(staying)
        assert await fleet.hosts() == {name: where[name] for name in staying}, "the others stay where they are"
        left = Counter(where[name] for name in staying)
        await fleet.free({host: CAPACITY - left[host] for host in HOSTS})
        for host in HOSTS:
            assert await fleet.hosted(host) == {name for name in staying if where[name] == host}
        await fleet.nothing_else_is_left({name: where[name] for name in staying})
        for name in going:
            assert await gone(fleet.hub, SECRETS, f"{name}-kubeconfig")
        assert all([await fleet.serves(name) for name in staying])
        await a_worker_deleted_while_it_hosts(fleet, {name: where[name] for name in staying})


async def a_worker_deleted_while_it_hosts(fleet: Fleet, where: dict[str, str]) -> None:
    """It waits and says so, its clusters are served, new ones go elsewhere; it goes when it is empty."""
    leaving = HOSTS[0]
    theirs = sorted(name for name, host in where.items() if host == leaving)
    before = await fleet.hub.get(WORKERS, leaving, SYSTEM)
    await fleet.hub.delete(WORKERS, leaving, SYSTEM)

    async def says_so() -> bool:
        told = condition(await fleet.hub.get(WORKERS, leaving, SYSTEM), "Deleting")
        said = f"{len(theirs)} ManagedClusters must be"
        return told.get("reason") == "HostsManagedClusters" and told["message"].startswith(said)

    await eventually(says_so)
    assert phase(await fleet.hub.get(WORKERS, leaving, SYSTEM)) == "Terminating"
    await fleet.hub.create(MANAGED_CLUSTERS, managed("late"), "default")
    await fleet.all_run([*where, "late"])
    assert (await fleet.hosts())["late"] != leaving
    assert all([await fleet.serves(name) for name in theirs])
    for name in [*theirs, "late"]:
        await fleet.hub.delete(MANAGED_CLUSTERS, name, "default")
    await fleet.all_run([name for name in where if name not in theirs])

    async def is_gone() -> bool:
        found, _ = await fleet.hub.list_all(WORKERS, SYSTEM)
        return before["metadata"]["uid"] not in {each["metadata"]["uid"] for each in found}

    await eventually(is_gone)
    assert await fleet.hosted(leaving) == set()
