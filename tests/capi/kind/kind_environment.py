"""A management cluster with the controllers of the kind provider, on a fake clock and with a fake kind command."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from shoal.capi.controllers import new_capi_controllers
from shoal.capi.informers import SECRETS
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from shoal.capi.providers.kind.controllers import KindSettings, kind_provider, new_kind_controllers
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Transport
from shoal.kinds.clusterapi import kindcluster
from shoal.objects.errors import NotFound
from shoal.runtime.manager import run_manager
from tests.capi.kind.fake_kind import Standin
from tests.controlplane.world import World

Object = dict[str, Any]
T = TypeVar("T")


def kind_cluster(name: str, cluster_name: str = "", **spec: Any) -> Object:
    return {
        "apiVersion": kindcluster.API_VERSION,
        "kind": kindcluster.KIND,
        "metadata": {"name": name},
        "spec": {"clusterName": cluster_name or name, **spec},
    }


def condition(obj: Object, type_: str = "Ready") -> Object:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == type_), {})


class Place:
    def __init__(self, world: World, standin: Standin) -> None:
        self.world, self.standin, self.client, self.clock = world, standin, world.client, world.clock
        self._task: asyncio.Task[None] | None = None
        self.loops: list[Any] = []
        self.tick = 0.0
        """How much time goes by with every look: what fails is tried again after a pause."""

    def start(
        self, transport: Transport | None = None, *, core: bool = False, command: KindCommand | None = None
    ) -> None:
        """`core`: with the loops of Cluster API. `command`: in place of the stand-in."""
        client = Client(transport or self.world.server.transport(), "admin", cluster="root")
        kind = command or KindCommand(environment=self.standin.environment)

        self.loops = [*new_kind_controllers(client, self.clock, KindSettings(), kind)]
        if core:
            self.loops += new_capi_controllers(client, self.clock, kind_provider)
        self._task = asyncio.create_task(run_manager(self.loops, self.clock))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def create(self, obj: Object, namespace: str = "default") -> Object:
        return await self.client.create(KIND_CLUSTERS, obj, namespace)

    async def get(self, name: str, namespace: str = "default") -> Object:
        return await self.client.get(KIND_CLUSTERS, name, namespace)

    async def merge(self, name: str, patch: Object) -> Object:
        return await self.client.merge_patch(KIND_CLUSTERS, name, patch, "default")

    async def delete(self, name: str, namespace: str = "default") -> None:
        await self.client.delete(KIND_CLUSTERS, name, namespace)

    async def eventually(self, look: Callable[[], Awaitable[T]]) -> T:
        async def looked() -> T:
            self.clock.step(self.tick)
            return await look()

        return await self.world.eventually(looked)

    async def says(self, name: str, reason: str, type_: str = "Ready", namespace: str = "default") -> Object:
        """The object, once a condition has that reason."""

        async def look() -> Object | None:
            obj = await self.get(name, namespace)
            return obj if condition(obj, type_).get("reason") == reason else None

        found = await self.eventually(look)
        assert found is not None
        return found

    async def ready(self, name: str, namespace: str = "default") -> Object:
        return await self.says(name, "Ready", namespace=namespace)

    async def gone(self, name: str, namespace: str = "default", kind: GroupVersionResource = KIND_CLUSTERS) -> None:
        await self.eventually(lambda: self.world.is_gone(self.client, kind, name, namespace))

    async def until(self, look: Callable[[], bool]) -> None:
        async def looked() -> bool:
            return look()

        await self.eventually(looked)

    async def secret(self, name: str, namespace: str = "default") -> Object | None:
        try:
            return await self.client.get(SECRETS, name, namespace)
        except NotFound:
            return None

    async def holds(self, secret: str, key: str, text: str) -> bool:
        found = await self.secret(secret)
        return found is not None and base64.b64decode((found.get("data") or {}).get(key, "")).decode() == text

    async def step(self, seconds: float) -> None:
        """Time goes by when everybody who waits for it is waiting."""
        await asyncio.sleep(0.05)
        self.clock.step(seconds)
