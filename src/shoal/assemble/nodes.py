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

from shoal.assemble.process import serve
from shoal.assemble.running import Runnable, run_all
from shoal.client.kubeconfig import load
from shoal.client.requests import Client
from shoal.clock import Clock, SystemClock
from shoal.controlplane.nodes.loops import simulated_node_loops
from shoal.controlplane.nodes.view import NODES
from shoal.kinds.simulated import is_simulated, simulated_node
from shoal.objects.errors import AlreadyExists, NotFound, ShoalError, StoreError

Object = dict[str, Any]

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class NodesWanted:
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
            simulated_node(
                f"{self.prefix}-{number}",
                self.capacity,
                zones[number % len(zones)],
                self.labels,
                events=self.events,
            )
            for number in range(self.count)
        ]


class NotOurs(ShoalError):
    hint = "give the nodes other names: shoal nodes --prefix NAME"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a node {name} already, and it is not a simulated one")


class SimulatedNodes:
    """A running process: the configured nodes exist, and every simulated node is run."""

    def __init__(self, client: Client, wanted: NodesWanted) -> None:
        self._client, self._wanted = client, wanted
        self._task: asyncio.Task[None] | None = None
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(cls, client: Client, wanted: NodesWanted, clock: Clock | None = None) -> SimulatedNodes:
        clock = clock or SystemClock()
        running = cls(client, wanted)
        version = await client.call("GET", "/version")
        await _at_once([_register(client, node) for node in wanted.nodes()])
        if "+shoal" not in str(version.get("gitVersion")):

            def loops() -> list[Runnable]:
                return [*simulated_node_loops(client, clock)]

            running._task = asyncio.create_task(run_all(loops, clock), name="nodes")
        return running

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._wanted.cleanup:
            await _at_once([_remove(self._client, node["metadata"]["name"]) for node in self._wanted.nodes()])
        await self._client.close()


async def _register(client: Client, node: Object) -> None:
    """An existing simulated node of an earlier run is used as it is."""
    try:
        await client.create(NODES, node)
    except AlreadyExists:
        found = await client.get(NODES, node["metadata"]["name"])
        if not is_simulated(found):
            raise NotOurs(node["metadata"]["name"]) from None


async def _remove(client: Client, name: str) -> None:
    with suppress(NotFound):
        await client.delete(NODES, name)


async def _at_once(work: list[Any]) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(each: Any) -> None:
        async with room:
            await each

    await asyncio.gather(*map(one, work))


def run_nodes(kubeconfig: Path, context: str, wanted: NodesWanted, ready: Callable[[], None]) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> SimulatedNodes:
        client = load(kubeconfig, context, agent="shoal-nodes")
        try:
            running = await SimulatedNodes.start(client, wanted)
        except BaseException:
            await client.close()
            raise
        ready()
        return running

    serve(start)
