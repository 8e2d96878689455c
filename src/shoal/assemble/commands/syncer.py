"""`shoal syncer`: the syncer of one cluster, in the cluster or anywhere that reaches both it and the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from shoal.assemble.in_cluster import in_cluster_client
from shoal.assemble.server.health import HealthServer
from shoal.assemble.server.process import run_until_stopped
from shoal.client.kubeconfig import load, load_rest_config, new_client
from shoal.client.link_monitor import LinkMonitor
from shoal.client.rest import Client
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import StoreError
from shoal.runtime.manager import Runnable, run_manager
from shoal.sync.controllers import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.controllers import new_pull_controllers

USER_AGENT = "shoal-syncer"


class SyncerProcess:
    """Runs from `start` until `stop`."""

    def __init__(self, hub: Client, clock: Clock) -> None:
        self._link = LinkMonitor("the hub", clock)
        self._hub = hub.with_transport(self._link.transport)
        self._task: asyncio.Task[None] | None = None
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""
        self._health: HealthServer | None = None

    async def serve_health(self, host: str, port: int) -> int:
        """Returns the port it listens on."""
        self._health = HealthServer(self._link.problem)
        return await self._health.start(host, port)

    @classmethod
    async def start(
        cls,
        name: str,
        hub: Client,
        new_local_client: Callable[[], Client],
        resources: tuple[str, ...],
        clock: Clock | None = None,
    ) -> SyncerProcess:
        """`new_local_client` creates a client of the cluster."""
        clock = clock or SystemClock()
        running = cls(hub, clock)

        def new_controllers() -> list[Runnable]:
            return [*new_pull_controllers(name, running._hub, new_local_client, clock, resources)]

        running._task = asyncio.create_task(run_manager(new_controllers(), clock), name=f"syncer of {name}")
        return running

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        await self._hub.close()


def run_syncer(
    hub_kubeconfig: Path,
    cluster_kubeconfig: Path | None,
    context: str,
    name: str,
    resources: tuple[str, ...],
    on_ready: Callable[[], None],
    health_address: tuple[str, int] | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> SyncerProcess:
        if cluster_kubeconfig is None:
            new_local_client: Callable[[], Client] = partial(in_cluster_client, USER_AGENT)
            new_local_client()  # raises configuration errors now
        else:
            endpoint = load_rest_config(cluster_kubeconfig, context)

            def new_local_client() -> Client:
                return new_client(endpoint, USER_AGENT)

        running = await SyncerProcess.start(
            name, load(hub_kubeconfig, user_agent=USER_AGENT), new_local_client, resources
        )
        if health_address is not None:
            await running.serve_health(*health_address)
        on_ready()
        return running

    run_until_stopped(start)
