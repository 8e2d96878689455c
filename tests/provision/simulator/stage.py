"""The simulated cloud provider on a real server, without controllers; the tests act as those."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.kinds.karpenter.karpenter import is_deleting
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.management import StoreResolver
from shoal.provision.simulator.decide import DRIFTED_ANNOTATION
from shoal.provision.simulator.fake import fake_types
from shoal.provision.simulator.provider import SimulatorProvider
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODES, ClusterState
from tests.controlplane.world import World, world
from tests.provision.hosted import node_class

Object = dict[str, Any]

CLUSTER = "default.east"
TURNS = 3000


class Cloud:
    cluster = CLUSTER

    def __init__(self, given: World, types: Sequence[InstanceType], registration_seconds: float) -> None:
        self.world, self.hosted = given, given.client.in_cluster(CLUSTER)
        self._types, self._registration_seconds = types, registration_seconds
        self._start()

    def _start(self) -> None:
        homes = StoreResolver(self.world.client)
        view = ClusterState(homes, self.world.clock)
        self.provider = SimulatorProvider(
            homes, view, self.world.clock, self._types, registration_seconds=self._registration_seconds
        )
        self._tasks = [asyncio.create_task(each.run()) for each in (view, self.provider)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        self._start()
        await self.synced()

    async def synced(self) -> None:
        for _ in range(TURNS):
            if self.provider.has_synced:
                return
            await self.turn()
        raise AssertionError("the provider does not get to know what there is")

    async def turn(self) -> None:
        self.world.clock.step(0.05)
        await asyncio.sleep(0.001)

    def node_class(self) -> Object:
        return node_class()

    async def claim(self, name: str, *types: str, cpu: str = "1", of: str = "default", **more: Any) -> Object:
        reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": of}
        wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}
        requirements = [*([wanted] if types else []), *more.pop("requirements", ())]
        spec = {"nodeClassRef": reference, "requirements": requirements, "resources": {"requests": {"cpu": cpu}}}
        body = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name}, "spec": spec}
        return await self.hosted.create(NODE_CLAIMS, body)

    async def now(self, claim: Object) -> Object:
        return await self.hosted.get(NODE_CLAIMS, claim["metadata"]["name"])

    async def nodes(self) -> list[Object]:
        return (await self.hosted.list_all(NODES))[0]

    async def machines(self) -> int:
        return len([each for each in await self.nodes() if not is_deleting(each)])

    async def outdate(self, claim: Object) -> None:
        patch = {"metadata": {"annotations": {DRIFTED_ANNOTATION: "ImageChanged"}}}
        await self.hosted.merge_patch(NODES, claim["metadata"]["name"], patch)


@asynccontextmanager
async def cloud(
    directory: Path, types: Sequence[InstanceType] | None = None, *, registration_seconds: float = 0.0
) -> AsyncIterator[Cloud]:
    async with world(directory, loops=False) as given:
        hosted = await given.cluster(CLUSTER)
        await hosted.create(NODE_CLASSES, node_class())
        made = Cloud(given, types or fake_types(), registration_seconds)
        try:
            await made.synced()
            yield made
        finally:
            await made.stop()
