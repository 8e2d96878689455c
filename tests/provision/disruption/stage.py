"""A hosted cluster on a server with a fake clock: minutes of waiting pass in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS as MACHINE_DEPLOYMENTS
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, NODES, PODS
from shoal.runtime.event_recorder import EVENTS
from tests.controlplane.world import World, world
from tests.provision.hosted import cluster_objects, node_class, node_pool, size_objects
from tests.provision.test_crash_recovery import KINDS

Object = dict[str, Any]
T = TypeVar("T")

DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
PDBS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
TYPE = "node.kubernetes.io/instance-type"
STEP, LONG_STEP, PAUSE, LOOKS = 0.2, 1.0, 0.005, 20000
"""The clock goes much faster than work is done, and slow enough for heartbeats."""


class Stage:
    def __init__(self, given: World) -> None:
        self.given, self.root = given, given.client
        self.hosted = given.client.in_cluster("default.east")
        self.watched: list[Callable[[], Awaitable[None]]] = []
        """Looked at on every step: what must hold at all times."""

    async def until(self, look: Callable[[], Awaitable[T]], step: float = STEP) -> T:
        for _ in range(LOOKS):
            found = await look()
            for each in self.watched:
                await each()
            if found:
                return found
            self.given.clock.step(step)
            await asyncio.sleep(PAUSE)
        raise AssertionError(f"it does not happen: {await look()!r}")

    async def rest(self, seconds: float) -> None:
        """Time passes."""
        end = self.given.clock.now() + seconds
        await self.until(lambda: _true(self.given.clock.now() >= end), LONG_STEP)

    async def pool(self, **pool: Any) -> None:
        await self.hosted.create(NODE_CLASSES, node_class())
        await self.hosted.create(NODE_POOLS, node_pool(**pool))

    async def claims(self) -> list[Object]:
        return (await self.hosted.list_all(NODE_CLAIMS))[0]

    async def types(self) -> list[str]:
        return sorted(each["metadata"]["labels"].get(TYPE, "") for each in await self.claims())

    async def nodes(self) -> list[Object]:
        return (await self.hosted.list_all(NODES))[0]

    async def pods(self) -> list[Object]:
        return (await self.hosted.list_all(PODS, "default"))[0]

    async def going(self) -> list[str]:
        """Those that count for budgets: a machine that is being taken down does not any more."""
        found = [each for each in await self.claims() if "deletionTimestamp" in each["metadata"]]
        return [each["metadata"]["name"] for each in found if not condition_is(each, "InstanceTerminating")]

    async def events(self, reason: str) -> list[str]:
        found, _ = await self.hosted.list_all(EVENTS, "default")
        return [each["message"] for each in found if each["reason"] == reason]

    async def running(self, count: int) -> None:
        async def look() -> bool:
            found = await self.pods()
            return [(each.get("status") or {}).get("phase") for each in found] == ["Running"] * count

        await self.until(look)

    async def settled(self, types: Iterable[str]) -> None:
        """These are the nodes there are, all ready."""
        wanted = sorted(types)

        async def look() -> bool:
            claims = await self.claims()
            return await self.types() == wanted and all(condition_is(each, "Ready") for each in claims)

        await self.until(look)

    async def price(self, size: str, price: str) -> None:
        annotations = {"cluster.x-k8s.io/machine-current-price": price}
        patch = {"metadata": {"annotations": annotations}}
        await self.root.merge_patch(MACHINE_DEPLOYMENTS, f"east-{size}", patch, "default")


async def _true(value: bool) -> bool:
    return value


@asynccontextmanager
async def stage(directory: Path, sizes: Iterable[str] = ("small", "medium", "large")) -> AsyncIterator[Stage]:
    async with world(directory) as given:
        found = Stage(given)
        for obj in cluster_objects("east"):
            await given.client.create(KINDS[obj["kind"]], obj, "default")
        for size in sizes:
            for obj in size_objects("east", size):
                await given.client.create(KINDS[obj["kind"]], obj, "default")
        await found.until(lambda: _answers(found.hosted))
        yield found


async def _answers(client: Client) -> bool:
    try:
        await client.get(GroupVersionResource("", "v1", "namespaces", namespaced=False), "default")
    except NotFound:
        return False
    return True
