"""`shoal up`: a hub and its workers in one process, on one data directory. `shoal hub` is the same without workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shoal.apiserver.audit import AuditSettings as AuditSettings
from shoal.assemble.datadir import DataDirError
from shoal.assemble.instance import IDLE_SECONDS as IDLE_SECONDS
from shoal.assemble.instance import Shoal as Shoal
from shoal.assemble.instance import UpSettings as UpSettings
from shoal.assemble.process import serve
from shoal.assemble.store_settings import StoreSettings as StoreSettings
from shoal.assemble.worker import Worker, server_settings, worker_settings
from shoal.assemble.worker_processes import OWNER
from shoal.clock import SystemClock
from shoal.fleet.bus.settings import BusSettings as BusSettings
from shoal.fleet.bus.settings import bus_settings as bus_settings
from shoal.fleet.joining.controller import ensure_home
from shoal.fleet.loops import check_bus
from shoal.kinds import fleet
from shoal.objects.errors import StoreError
from shoal.sync.loops import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.loops import SyncSettings as SyncSettings


@dataclass(frozen=True, slots=True)
class WorkersInside:
    """The workers of `shoal up`."""

    count: int = 0
    capacity: int = 100


class Up:
    """A running hub with in-process workers, which are reached without a socket."""

    def __init__(self, hub: Shoal, workers: list[Worker]) -> None:
        self.hub, self.workers = hub, workers

    @classmethod
    async def start(cls, settings: UpSettings, workers: WorkersInside) -> Up:
        up = cls(await Shoal.start(settings), [])
        try:
            if workers.count:
                await ensure_home(up.hub.client("shoal-up"))
            for number in range(1, workers.count + 1):
                up.workers.append(await up.start_worker(f"worker-{number}", settings, workers.capacity))
        except BaseException:
            await up.stop()
            raise
        return up

    async def start_worker(self, name: str, settings: UpSettings, capacity: int) -> Worker:
        hub, directory = self.hub, settings.data_dir / "workers" / name
        if (directory / OWNER).exists():
            raise DataDirError(
                f"{directory} is of a declared Worker, which the hub runs as a process",
                "start with fewer --workers, or delete that Worker first",
            )
        # A worker's store is local, whatever the hub's store is.
        own = server_settings(directory, store=settings.store.sealing, idle_seconds=settings.idle_seconds)
        known = worker_settings(
            name, capacity, "", hub.server.url, hub.server.authority.certificate.decode(), fleet.INSIDE
        )
        shoal = await Shoal.start(own)
        return await Worker.start(shoal, known, hub.worker_client(name), hub.tunnels, SystemClock(), bus=settings.bus)

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self.hub.store.failure

    async def stop(self) -> None:
        await self.hub.leave()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await self.hub.stop()


def run(settings: UpSettings, ready: Callable[[Shoal], None], workers: WorkersInside | None = None) -> None:
    async def start() -> Up:
        await check_bus(settings.bus)
        up = await Up.start(settings, workers or WorkersInside())
        ready(up.hub)
        return up

    serve(start)
