"""A server and its controllers on a fake clock, called in process without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.embedded_controllers import EmbeddedControllers
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound
from shoal.store.sqlite import SqliteStore

Object = dict[str, Any]
T = TypeVar("T")

CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
MAX_ATTEMPTS = 9000


class World:
    def __init__(self, server: ApiServer, clock: FakeClock, client: Client) -> None:
        self.server, self.clock, self.client = server, clock, client

    async def cluster(self, name: str, profile: str = "cluster") -> Client:
        body = {"metadata": {"name": name}, "spec": {"profile": profile}}
        await self.client.create(CLUSTERS, {"apiVersion": f"{GROUP}/{VERSION}", "kind": "LogicalCluster", **body})
        return self.client.in_cluster(name)

    async def eventually(self, look: Callable[[], Awaitable[T]]) -> T:
        for _ in range(MAX_ATTEMPTS):
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.01)
        raise AssertionError(f"still {await look()!r}")

    async def is_gone(self, client: Client, kind: GroupVersionResource, name: str, namespace: str = "") -> bool:
        try:
            await client.get(kind, name, namespace)
        except NotFound:
            return True
        return False


@asynccontextmanager
async def world(
    directory: Path, *, loops: bool = True, root_profile: str = "", outside_loops: frozenset[str] = frozenset()
) -> AsyncIterator[World]:
    clock = FakeClock()
    store = await SqliteStore.open(directory)
    running = EmbeddedControllers()
    tokens = {"admin": admin_user(), **running.tokens}
    settings = ApiServerSettings(directory=directory / "pki", tokens=tokens, root_profile=root_profile)
    server = await ApiServer.start(settings, store, clock)
    if loops:
        running.start(server.transport(), server.core.keys, clock, outside_loops=outside_loops)
    try:
        yield World(server, clock, Client(server.transport(), "admin", cluster="root"))
    finally:
        await running.stop()
        await server.stop()
        await store.close()
