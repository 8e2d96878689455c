"""`shoal up`: a hub and its workers in one process, on one data directory. `shoal hub` is the same without workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shoal.apiserver.audit import AuditConfig as AuditConfig
from shoal.assemble.server.kind_support import new_kind_support
from shoal.assemble.server.process import run_until_stopped
from shoal.assemble.server.shoal_server import DEFAULT_IDLE_SECONDS as DEFAULT_IDLE_SECONDS
from shoal.assemble.server.shoal_server import ShoalServer as ShoalServer
from shoal.assemble.server.shoal_server import ShoalServerSettings as ShoalServerSettings
from shoal.assemble.server.worker import WorkerServer, worker_server_settings, worker_settings
from shoal.assemble.storage.config import StoreSettings as StoreSettings
from shoal.assemble.storage.datadir import DataDirError, make_private_directory
from shoal.assemble.workers.processes import OWNER_FILE
from shoal.clock import SystemClock
from shoal.fleet.bus.settings import BusSettings as BusSettings
from shoal.fleet.bus.settings import bus_settings as bus_settings
from shoal.fleet.controllers import check_bus
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import StoreError
from shoal.sync.controllers import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.controllers import SyncSettings as SyncSettings


@dataclass(frozen=True, slots=True)
class InProcessWorkers:
    """The workers of `shoal up`."""

    count: int = 0
    capacity: int | None = None
    """None: as their Workers say, 100 at first."""
    kind_images: Mapping[str, str] | None = None
    """Node images of kind clusters by release. None: they provide no kind clusters."""


class HubWithWorkers:
    """A running hub with in-process workers, which are reached without a socket."""

    def __init__(self, hub: ShoalServer, workers: list[WorkerServer]) -> None:
        self.hub, self.workers = hub, workers

    @classmethod
    async def start(cls, settings: ShoalServerSettings, workers: InProcessWorkers) -> HubWithWorkers:
        running = cls(await ShoalServer.start(settings), [])
        try:
            if workers.count:
                await ensure_worker_namespace(running.hub.client("shoal-up"))
            for number in range(1, workers.count + 1):
                running.workers.append(
                    await running.start_worker(f"worker-{number}", settings, workers.capacity, workers.kind_images)
                )
        except BaseException:
            await running.stop()
            raise
        return running

    async def start_worker(
        self,
        name: str,
        settings: ShoalServerSettings,
        capacity: int | None,
        kind_images: Mapping[str, str] | None = None,
    ) -> WorkerServer:
        hub, directory = self.hub, settings.data_dir / "workers" / name
        make_private_directory(directory.parent)
        if (directory / OWNER_FILE).exists():
            raise DataDirError(
                f"{directory} belongs to a Worker with infrastructure process",
                "start with fewer --workers, or delete that Worker first",
            )
        # A worker's store is local, whatever the hub's store is.
        own_settings = worker_server_settings(
            directory,
            store=settings.store.encryption_only,
            idle_seconds=settings.idle_seconds,
            cluster_limits=settings.cluster_limits,
            egress=settings.egress,
        )
        worker_config = worker_settings(name, capacity, None, hub.server.rest_config(), infrav1.IN_PROCESS_WORKER)
        if kind_images is not None:
            worker_config = replace(worker_config, kind=new_kind_support(kind_images))
        shoal = await ShoalServer.start(own_settings)
        return await WorkerServer.start(
            shoal, worker_config, hub.worker_client(name), hub.tunnels, SystemClock(), bus=settings.bus
        )

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self.hub.store.failure

    async def stop(self) -> None:
        await self.hub.drain()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await self.hub.stop()


def run_hub(
    settings: ShoalServerSettings, ready: Callable[[ShoalServer], None], workers: InProcessWorkers | None = None
) -> None:
    async def start() -> HubWithWorkers:
        await check_bus(settings.bus)
        running = await HubWithWorkers.start(settings, workers or InProcessWorkers())
        ready(running.hub)
        return running

    run_until_stopped(start)
