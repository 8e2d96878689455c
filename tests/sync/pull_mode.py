"""A cluster in pull mode: its identity on the hub, and its syncer process, run in the server's event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shoal.assemble.commands.join_cluster import join_pull
from shoal.assemble.commands.syncer import DEFAULT_RESOURCES, SyncerProcess
from shoal.client.https import HttpsTransport
from shoal.client.rest import Client
from shoal.clock import Clock
from tests.serving import Cluster
from tests.sync.sync_environment import World


def identity(world: World, name: str) -> str:
    """The token of the syncer of a cluster, which is registered for it."""

    async def join() -> str:
        client = Client(world.server.shoal.server.transport(), world.server.token, cluster="root")
        return await join_pull(client, name)

    world.adopt(name)
    return world.server.call(join())


@contextmanager
def pull_syncer(
    world: World,
    name: str,
    member: Cluster,
    token: str,
    *,
    hub_port: int = 0,
    port: int = 0,
    clock: Clock | None = None,
) -> Iterator[SyncerProcess]:
    """Running: both sides are spoken with over TLS, by way of the ports where they are given."""

    def client(to: int, credential: str, cluster: str) -> Client:
        transport = HttpsTransport(f"https://127.0.0.1:{to or world.server.port}", world.server.context)
        return Client(transport, credential, cluster=cluster)

    def local() -> Client:
        return client(port, world.server.token, member.name)

    async def start() -> SyncerProcess:
        return await SyncerProcess.start(name, client(hub_port, token, "root"), local, DEFAULT_RESOURCES, clock)

    running = world.server.call(start())
    try:
        yield running
    finally:
        world.server.call(running.stop())
