"""Three workers over the watch: links are cut, hub and worker restart, history is compacted. Nothing is lost or
duplicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import SystemClock
from shoal.fleet.bus import watch_bus
from shoal.fleet.controllers import new_hub_controllers, new_worker_controllers
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.worker.settings import WorkerSettings
from shoal.objects.errors import NotFound
from tests.fleet.bus.contract import CuttableTransport
from tests.fleet.bus.metered_link import Hub, hub_in
from tests.fleet.fleets import SYSTEM, as_worker, eventually, managed, phase, provision, running, server
from tests.transports import Passing

Object = dict[str, Any]
NAMES = ("w1", "w2", "w3")


class Nobody:
    """Nobody answers."""

    async def request(self, *_: object) -> Any:
        raise Unreachable("the hub is away")

    stream = request

    async def close(self) -> None:
        """Nothing is open."""


class World:
    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory, self._stack, self._clock = directory, stack, SystemClock()
        self._front = Passing(Nobody())
        self.links = {name: CuttableTransport(self._front) for name in NAMES}
        self.own: dict[str, Client] = {}
        self._workers: dict[str, AsyncExitStack] = {}
        self.hub: Hub
        self._running_hub = AsyncExitStack()

    async def start_hub(self) -> None:
        self._running_hub = AsyncExitStack()
        self.hub = await self._running_hub.enter_async_context(hub_in(self._directory / "hub", self._directory / "pki"))
        await self._running_hub.enter_async_context(running(new_hub_controllers(self.hub.client, self._clock)))
        self._front.inner = self.hub.client._transport

    async def stop_hub(self) -> None:
        self._front.inner = Nobody()
        await self._running_hub.aclose()

    async def start(self, name: str) -> None:
        if name not in self.own:
            self.own[name] = await self._stack.enter_async_context(server(self._directory / name))
        hub = as_worker(self.hub.client, name).with_transport(lambda _: self.links[name])
        settings = WorkerSettings(name, 100, "", "v1.36.4", "https://hub:6443", "-----CA-----\n")
        self._workers[name] = AsyncExitStack()
        await self._workers[name].enter_async_context(
            running(new_worker_controllers(hub, self.own[name], self._clock, settings))
        )

    async def stop(self, name: str) -> None:
        await self._workers.pop(name).aclose()

    async def close(self) -> None:
        for name in list(self._workers):
            await self.stop(name)
        await self.stop_hub()

    async def is_running(self, name: str) -> None:
        async def so() -> bool:
            try:
                return phase(await self.hub.client.get(WORKERS, name, SYSTEM)) == "Running"
            except NotFound:
                return False

        await eventually(so)

    async def create(self, *names: str) -> None:
        for name in names:
            await self.hub.client.create(MANAGED_CLUSTERS, managed(name, nodes=0), "default")

    async def provide(self, name: str) -> None:
        """What Cluster API would do, wherever it is."""

        async def bound() -> str | None:
            found = await self.hub.client.get(MANAGED_CLUSTERS, name, "default")
            worker = (found.get("status") or {}).get("assignedWorker")
            return worker if worker in self.own else None

        await provision(self.own[await eventually(bound)], name)

    async def settled(self, wanted: dict[str, int]) -> None:
        """Each of them runs, has its nodes, and is on one worker; there are no others anywhere."""

        async def found() -> bool:
            at_hub, _ = await self.hub.client.list_all(MANAGED_CLUSTERS)
            if {each["metadata"]["name"] for each in at_hub} != set(wanted):
                return False
            where = {each["metadata"]["name"]: str(each["status"].get("assignedWorker")) for each in at_hub}
            copies = [
                (each["metadata"]["name"], worker, each["spec"].get("nodes"))
                for worker, own in self.own.items()
                for each in (await own.list_all(MANAGED_CLUSTERS))[0]
            ]
            return sorted(copies) == sorted((name, where[name], nodes) for name, nodes in wanted.items()) and all(
                phase(each) == "Running" and each["status"].get("observedGeneration") == each["metadata"]["generation"]
                for each in at_hub
            )

        await eventually(found)


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        made = World(directory, stack)
        await made.start_hub()
        stack.push_async_callback(made.close)
        for name in NAMES:
            await made.start(name)
        for name in NAMES:
            await made.is_running(name)
        yield made


@pytest.mark.anyio
async def test_three_workers_whatever_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_bus, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(watch_bus, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr("shoal.fleet.controllers.CALM_SECONDS", 0.0)
    async with world(tmp_path) as made:
        wanted = dict.fromkeys((f"c{number}" for number in range(9)), 0)
        await made.create(*wanted)
        await asyncio.gather(*map(made.provide, wanted))
        await made.settled(wanted)
        at_hub, _ = await made.hub.client.list_all(MANAGED_CLUSTERS)
        assert {each["status"]["assignedWorker"] for each in at_hub} == set(NAMES)

        # Two links are cut, and everything changes.
        for name in ("w1", "w2"):
            made.links[name].cut()
        for name in ("c0", "c1", "c2"):
            await made.hub.client.delete(MANAGED_CLUSTERS, name, "default")
            del wanted[name]
        for name in ("c3", "c4", "c5"):
            for nodes in (5, 2, 3):
                await made.hub.resize(name, nodes)
            wanted[name] = 3
        fresh = [f"d{number}" for number in range(6)]
        await made.create(*fresh)
        # What has happened is forgotten at the hub, and the hub is ended; the third worker, too.
        await made.hub.forget_history()
        await made.stop("w3")
        await made.stop_hub()
        await made.start_hub()
        await made.create("late")
        await made.hub.client.delete(MANAGED_CLUSTERS, "c6", "default")
        del wanted["c6"]
        await made.start("w3")
        for link in made.links.values():
            link.restore()
        wanted |= dict.fromkeys((*fresh, "late"), 0)
        await asyncio.gather(*map(made.provide, (*fresh, "late")))
        await made.settled(wanted)
