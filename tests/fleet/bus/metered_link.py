"""A hub behind a link that counts bytes, and a worker that keeps copies and hosts nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.apiserver.cache.compaction import HistoryCompactor, HistoryWindow
from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.client.https import HttpsTransport
from shoal.client.rest import Client
from shoal.clock import Clock, SystemClock
from shoal.fleet.bus.link_metrics import LinkMetrics
from shoal.fleet.bus.watch_bus import WatchBus
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.informers import WorkerInformers
from shoal.fleet.worker.registration.controller import WorkerRegistration
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.controller import HubSubscriber, message_loader
from shoal.fleet.worker.subscriber.last_message import saved_message
from shoal.store.sqlite import SqliteStore
from tests.fleet.fleets import as_worker, eventually, managed, running
from tests.transports import Passing
from tests.wires import Wire, wire

Object = dict[str, Any]
WORKER = "w1"


class Hub:
    def __init__(self, running_server: ApiServer, store: SqliteStore) -> None:
        self.server, self._store = running_server, store
        self.client = Client(running_server.transport(), "admin", cluster="root")

    async def forget_history(self) -> None:
        core = self.server.core
        await HistoryCompactor(self._store, core.cache, core.clock, HistoryWindow(max_events=0)).compact()

    async def give(self, name: str) -> Object:
        await self.client.create(MANAGED_CLUSTERS, managed(name), "default")
        status = {"assignedWorker": WORKER, "epoch": 1, "phase": "Scheduled"}
        return await self.client.merge_patch(MANAGED_CLUSTERS, name, {"status": status}, "default", "status")

    async def resize(self, name: str, nodes: int) -> Object:
        return await self.client.merge_patch(MANAGED_CLUSTERS, name, {"spec": {"nodes": nodes}}, "default")


@asynccontextmanager
async def hub_in(directory: Path, pki: Path, clock: Clock | None = None) -> AsyncIterator[Hub]:
    """Hubs with the same `pki` are trusted by the same clients."""
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    store = await SqliteStore.open(directory)
    settings = ApiServerSettings(directory=pki, tokens={"admin": admin_user()})
    server = await ApiServer.start(settings, store, clock)
    made = Hub(server, store)
    await ensure_worker_namespace(made.client)
    try:
        yield made
    finally:
        await server.stop()
        await store.close()


class Worker:
    """Its bus goes over the wire; its heartbeats do not, so that they are not counted."""

    def __init__(self, hub: Hub, link: Wire, own: Client, clock: Clock) -> None:
        self.own, self.link, self._clock = own, link, clock
        self._hub = hub
        self.beats = Passing(hub.client._transport)
        self.bus: WatchBus
        self.traffic: LinkMetrics
        self._running: AsyncExitStack | None = None

    async def start(self, remember_after: float | None = 0.0) -> None:
        clock, settings = self._clock, WorkerSettings(WORKER, 1000, "", "v1.36.4", "https://hub:6443", "")
        context = ssl.create_default_context(cadata=self._hub.server.authority.certificate.decode())
        wired = HttpsTransport(f"https://127.0.0.1:{self.link.port}", context)
        near = as_worker(self._hub.client, WORKER)
        self.traffic = LinkMetrics(clock)
        self.bus = WatchBus(near.with_transport(lambda _: wired), WORKER, clock, message_loader(self.own), self.traffic)
        root = WorkerInformers(self.own, clock)
        beating = near.with_transport(lambda _: self.beats)
        registration = WorkerRegistration(beating, self.own, clock, settings, self.bus)
        subscriber = HubSubscriber(self.own, clock, self.bus, root, registration, remember_after)
        self._running = AsyncExitStack()
        self._running.push_async_callback(wired.close)
        await self._running.enter_async_context(running([registration.controller, subscriber.controller, root]))

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.aclose()
            self._running = None

    async def is_live(self, wanted: bool = True) -> None:
        async def so() -> bool:
            return self.bus.is_live == wanted

        await eventually(so)

    async def copies(self) -> list[Object]:
        return (await self.own.list_all(MANAGED_CLUSTERS))[0]

    async def remembers_all(self, count: int) -> None:
        """As the hub has them now."""

        found, _ = await self._hub.client.list_all(MANAGED_CLUSTERS)
        at_hub = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in found}
        hub = await self.bus.hub_id()

        async def so() -> bool:
            await asyncio.sleep(0.02)
            known = [saved_message(copy, hub) for copy in await self.copies()]
            kept = {message.name[1]: str(message.version.revision) for message in known if message is not None}
            return len(kept) == count and kept.items() <= at_hub.items()

        await eventually(so)

    async def has_nodes(self, wanted: dict[str, int]) -> None:
        async def so() -> bool:
            found = {copy["metadata"]["name"]: copy["spec"].get("nodes") for copy in await self.copies()}
            return wanted.items() <= found.items()

        await eventually(so)


@asynccontextmanager
async def linked(directory: Path) -> AsyncIterator[tuple[Hub, Worker]]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(hub_in(directory / "hub", directory / "pki"))
        own = await stack.enter_async_context(hub_in(directory / "own", directory / "own-pki"))
        link = await stack.enter_async_context(wire(hub.server.port))
        worker = Worker(hub, link, own.client, clock)
        stack.push_async_callback(worker.stop)
        yield hub, worker
