"""A hub of a test's own: a logical cluster with the kinds of root, and the sync loops with settings of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.assemble.connecting import connect_from
from shoal.client.requests import Client
from shoal.clock import SystemClock
from shoal.kinds.own import own_definitions
from shoal.sync.loops import SyncSettings, sync_loops
from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster

KINDS = ("workload.kcp.dev", "apiresource.kcp.dev", "infrastructure.cluster.x-k8s.io")


@contextmanager
def own_hub(server: Server, settings: SyncSettings) -> Iterator[Cluster]:
    hub = fresh_cluster(server)
    for definition in own_definitions("root"):
        if definition["metadata"]["name"].endswith(KINDS):
            body = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
            hub.post(DEFINITIONS, {**body, "metadata": {"name": definition["metadata"]["name"]}}).ok()

    async def start() -> list[asyncio.Task[None]]:
        transport = server.shoal.server.transport()
        client = Client(transport, server.token, cluster=hub.name)
        by_https = connect_from("https://elsewhere", transport)
        loops = sync_loops(client, SystemClock(), by_https, settings)
        return [asyncio.create_task(loop.run(), name=loop.name) for loop in loops]

    async def stop(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    tasks = server.call(start())
    try:
        yield hub
    finally:
        server.call(stop(tasks))
        hub.close()
