"""`shoal worker`: a server that hosts clusters for a hub, in its own process or inside `shoal up`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from shoal.assemble.instance import IDLE_SECONDS, Shoal, UpSettings
from shoal.assemble.membership import HubGiven as HubGiven
from shoal.assemble.membership import become_member, check_given
from shoal.assemble.process import end_with_input, serve
from shoal.assemble.running import Runnable, run_all
from shoal.assemble.store_settings import StoreSettings
from shoal.client.kubeconfig import client_to
from shoal.client.requests import Client
from shoal.clock import Clock, SystemClock
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.bus.traffic import Traffic
from shoal.fleet.loops import WATCH, check_bus, worker_loops
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.fleet.tunnel import Tunnels, dial_hub, serve_tunnel
from shoal.fleet.tunnel.serving import Dial
from shoal.fleet.worker.identity.renewal import Renewal
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds import fleet
from shoal.kinds.versions import KUBERNETES
from shoal.objects.errors import StoreError


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """The options of `shoal worker`."""

    hub: HubGiven
    data_dir: Path
    name: str
    capacity: int = 100
    location: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    store: StoreSettings = field(default_factory=StoreSettings)
    idle_seconds: float = IDLE_SECONDS
    bus: BusSettings = field(default_factory=BusSettings)
    supervised: bool = False
    """Run by a hub: it ends when its standard input is closed, and its Worker object describes it."""


class Worker:
    """A running worker: its server with its controllers, the fleet's controllers, and its link to the hub."""

    def __init__(self, shoal: Shoal, hub: Client) -> None:
        self.shoal = shoal
        self._hub = hub
        self._tasks: list[asyncio.Task[None]] = []
        self._leave: Callable[[], None] = _nothing

    @classmethod
    async def start(
        cls,
        shoal: Shoal,
        settings: WorkerSettings,
        hub: Client,
        way: Tunnels | Dial,
        clock: Clock,
        beside: Callable[[], list[Runnable]] = lambda: [],
        bus: BusSettings = WATCH,
    ) -> Worker:
        """`shoal` is the worker's own server; `hub` is a client of the hub's root with the identity of this worker.
        `hub_link` is the hub's tunnels if it is in this process, otherwise the dialer of the tunnel connection.
        `extra_controllers` returns further controllers.
        """
        worker = cls(shoal, hub)
        if isinstance(way, Tunnels):
            worker._leave = way.register(settings.name, shoal.server.app.handle)

        traffic = Traffic(clock)
        for series in traffic.counters():
            shoal.server.metrics.counter(*series)
        for series in traffic.gauges():
            shoal.server.metrics.gauge(*series)

        def loops() -> list[Runnable]:
            own = shoal.client("shoal-worker")
            found: list[Runnable] = [
                *worker_loops(hub, own, clock, settings, bus, traffic, moves=shoal.moves),
                *beside(),
            ]
            if not isinstance(way, Tunnels):
                found.append(serve_tunnel(way, shoal.server.app.handle, clock, settings.name))
            return found

        worker._tasks = [asyncio.create_task(run_all(loops, clock), name=f"worker {settings.name}")]
        return worker

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self.shoal.store.failure

    async def stop(self) -> None:
        self._leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._hub.close()
        await self.shoal.stop()


def _nothing() -> None:
    pass


def server_settings(
    data_dir: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    store: StoreSettings | None = None,
    idle_seconds: float = IDLE_SECONDS,
) -> UpSettings:
    """Settings of a worker's own server: its root is a management cluster, not a hub."""
    return UpSettings(data_dir, host, port, store=store or StoreSettings(), hub=False, idle_seconds=idle_seconds)


def worker_settings(
    name: str, capacity: int, location: str, hub_url: str, hub_authority: str, infrastructure: str
) -> WorkerSettings:
    return WorkerSettings(name, capacity, location, KUBERNETES, hub_url, hub_authority, infrastructure=infrastructure)


def run_worker(process: WorkerProcess, ready: Callable[[Worker], None]) -> None:
    """Runs until SIGTERM or SIGINT, or until the store is lost."""
    check_given(process.hub)
    if process.supervised:
        end_with_input()

    async def start() -> Worker:
        await check_bus(process.bus, process.name)
        where, stored = process.data_dir, process.store
        shoal = await Shoal.start(server_settings(where, process.host, process.port, stored, process.idle_seconds))
        try:
            worker = await _start_member(process, shoal, SystemClock())
        except BaseException:
            await shoal.stop()
            raise
        ready(worker)
        return worker

    serve(start)


async def _start_member(process: WorkerProcess, shoal: Shoal, clock: Clock) -> Worker:
    root = await shoal.client("shoal-worker").get(LOGICAL_CLUSTERS, "root")
    name, store = process.name, str(root["metadata"]["uid"])
    member = await become_member(process.data_dir, name, process.hub, store, clock)
    endpoint = member.endpoint
    hub = client_to(endpoint, "shoal-worker")
    url = f"https://{urlsplit(endpoint.server).netloc}"
    what = fleet.PROCESS if process.supervised else fleet.EXTERNAL
    settings = worker_settings(name, process.capacity, process.location, url, endpoint.authority, what)

    def renewal() -> list[Runnable]:
        return [Renewal(hub, clock, name, store, member.certificate, member.keep)]

    return await Worker.start(shoal, settings, hub, dial_hub(endpoint, name), clock, renewal, process.bus)
