"""`shoal nodes`: simulated nodes at any API server, also at a real one.

A Shoal server runs such nodes itself. For any other server this process runs them and renews their Leases, so that the
control plane there does not evict them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.assemble.server.process import run_until_stopped
from shoal.client.kubeconfig import load
from shoal.client.rest import Client
from shoal.clock import Clock, SystemClock
from shoal.controlplane.kubelet.informers import NODES
from shoal.controlplane.node_controllers import new_simulated_node_controllers
from shoal.kinds.clusterapi.simulated_node import is_simulated, new_simulated_node
from shoal.objects.errors import AlreadyExists, NotFound, ShoalError, StoreError
from shoal.runtime.manager import Runnable, run_manager

Object = dict[str, Any]

MAX_CONCURRENT = 16


@dataclass(frozen=True, slots=True)
class SimulatedNodesConfig:
    """`count` identical nodes `<prefix>-0` …; without a count, only existing simulated nodes."""

    count: int = 0
    prefix: str = "simulated"
    capacity: Mapping[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    """Assigned in turn."""
    labels: Mapping[str, str] = field(default_factory=dict)
    events: bool = False
    cleanup: bool = False
    """Delete them when the process ends."""

    def nodes(self) -> list[Object]:
        zones = self.zones or ("",)
        return [
            new_simulated_node(
                f"{self.prefix}-{number}",
                self.capacity,
                zones[number % len(zones)],
                self.labels,
                events=self.events,
            )
            for number in range(self.count)
        ]


class NodeNotSimulated(ShoalError):
    hint = "choose another prefix: shoal nodes --prefix NAME"

    def __init__(self, name: str) -> None:
        super().__init__(f"node {name} exists already and is not simulated")


class SimulatedNodesProcess:
    """A running process: the configured nodes exist, and every simulated node is run."""

    def __init__(self, client: Client, config: SimulatedNodesConfig) -> None:
        self._client, self._config = client, config
        self._task: asyncio.Task[None] | None = None
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(
        cls, client: Client, config: SimulatedNodesConfig, clock: Clock | None = None
    ) -> SimulatedNodesProcess:
        clock = clock or SystemClock()
        running = cls(client, config)
        version = await client.request("GET", "/version")
        await _run_limited([_register(client, node) for node in config.nodes()])
        if "+shoal" not in str(version.get("gitVersion")):

            def new_controllers() -> list[Runnable]:
                return [*new_simulated_node_controllers(client, clock)]

            running._task = asyncio.create_task(run_manager(new_controllers(), clock), name="nodes")
        return running

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._config.cleanup:
            await _run_limited([_remove(self._client, node["metadata"]["name"]) for node in self._config.nodes()])
        await self._client.close()


async def _register(client: Client, node: Object) -> None:
    """An existing simulated node of an earlier run is used as it is."""
    try:
        await client.create(NODES, node)
    except AlreadyExists:
        existing = await client.get(NODES, node["metadata"]["name"])
        if not is_simulated(existing):
            raise NodeNotSimulated(node["metadata"]["name"]) from None


async def _remove(client: Client, name: str) -> None:
    with suppress(NotFound):
        await client.delete(NODES, name)


async def _run_limited(work: list[Any]) -> None:
    limit = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(each: Any) -> None:
        async with limit:
            await each

    await asyncio.gather(*map(one, work))


def run_nodes(kubeconfig: Path, context: str, config: SimulatedNodesConfig, on_ready: Callable[[], None]) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> SimulatedNodesProcess:
        client = load(kubeconfig, context, user_agent="shoal-nodes")
        try:
            running = await SimulatedNodesProcess.start(client, config)
        except BaseException:
            await client.close()
            raise
        on_ready()
        return running

    run_until_stopped(start)
