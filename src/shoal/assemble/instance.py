"""One Shoal server: its data directory, store, API and controllers. A hub is one, and so is every worker."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from shoal.apiserver.audit import AuditSettings as AuditSettings
from shoal.apiserver.authn import LOOPS
from shoal.apiserver.sleep import IDLE_SECONDS as IDLE_SECONDS
from shoal.assemble.backup_route import backup_routes
from shoal.assemble.datadir import DataDir, DataDirError, host_names, kubeconfig, write_private
from shoal.assemble.hosted_data import HostedData
from shoal.assemble.jointokens import SELF_TOKEN_SECONDS, create_token
from shoal.assemble.loops import Loops
from shoal.assemble.routes import hub_routes, no_routes
from shoal.assemble.server import ApiServer, ServerSettings, administrator, worker_user
from shoal.assemble.shared_authority import SharedAuthority
from shoal.assemble.store_settings import Opened
from shoal.assemble.store_settings import StoreSettings as StoreSettings
from shoal.assemble.stores import open_store
from shoal.assemble.worker_processes import HubHere, WorkerProcesses
from shoal.client.requests import Client
from shoal.clock import Clock, SystemClock
from shoal.dashboard import Dashboard
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.tunnel import Tunnels
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.moving import Moves
from shoal.store.gated import GatedStore
from shoal.store.sqlite.file import FILE_NAME
from shoal.sync.loops import SyncSettings

LINGER_SECONDS = 2.0
"""Applies after the shutdown delay, if there is one, for deployments that must not lose a request."""


@dataclass(frozen=True, slots=True)
class UpSettings:
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 6443
    audit: AuditSettings = field(default_factory=AuditSettings)
    root_profile: str = ""
    store: StoreSettings = field(default_factory=StoreSettings)
    advertise: str = ""
    """The name or address clients use, if it is not the host."""
    hub: bool = True
    """False for a worker's server, which runs no hub controllers."""
    idle_seconds: float = IDLE_SECONDS
    """A logical cluster without requests becomes idle after this time."""
    bus: BusSettings = field(default_factory=BusSettings)
    """How the hub communicates with its workers."""
    sync: SyncSettings = field(default_factory=SyncSettings)
    """How the hub syncs its workload Clusters."""
    clock: Clock | None = None
    """None: the system clock."""
    worker_processes: bool = False
    """True if the hub runs the processes of Workers with infrastructure process."""
    shutdown_delay: float = 0.0
    """Seconds it keeps serving after the stop signal, while /readyz fails."""
    worker_image: str = ""
    """The image in the clusters of Workers with infrastructure kind; empty: that of the release."""


class Shoal:
    """A running server. Tests start it in their own event loop; commands start it through `run_hub` or `run_worker`."""

    def __init__(
        self,
        directory: DataDir,
        opened: Opened,
        server: ApiServer,
        loops: Loops,
        tunnels: Tunnels,
        processes: WorkerProcesses | None,
        moves: Moves | None,
        shutdown_delay: float = 0.0,
    ) -> None:
        self.directory = directory
        self.store = opened.store
        self._opened = opened
        self.server = server
        self.tunnels = tunnels
        """Tunnels to the hosted clusters of workers."""
        self.moves = moves
        """Of a worker's server: moves clusters from here and to here."""
        self._loops, self._processes = loops, processes
        self._shutdown_delay = shutdown_delay
        self.authority: SharedAuthority | None = None
        """Set if the store keeps a shared certificate authority."""
        self._tasks: list[asyncio.Task[None]] = []
        if opened.notes is not None:
            self.authority = SharedAuthority(directory.path, opened.notes, server.core.clock)
            self._tasks.append(asyncio.create_task(self.authority.run(), name="shared authority"))

    @classmethod
    async def start(cls, settings: UpSettings) -> Shoal:
        directory = DataDir(settings.data_dir)
        opened: Opened | None = None
        try:
            opened = await open_store(directory, settings.store)
            token = directory.admin_token()
            loops, tunnels, dashboard = Loops(), Tunnels(), Dashboard()
            fence = None if settings.hub else Fence((settings.clock or SystemClock()).since_boot)
            others = hub_routes(tunnels, directory.path / "pki" / "ca.crt", dashboard) if settings.hub else no_routes
            server = await ApiServer.start(
                ServerSettings(
                    directory=directory.path / "pki",
                    host=settings.host,
                    port=directory.port(settings.port),
                    advertise=settings.advertise,
                    names=tuple(host_names()),
                    tokens={token: administrator(), loops.token: administrator(LOOPS)},
                    audit=settings.audit,
                    root_profile=settings.root_profile,
                    idle_seconds=settings.idle_seconds,
                    linger_seconds=LINGER_SECONDS if settings.shutdown_delay else 0.0,
                    routes=backup_routes(opened.snapshot, directory.path, others),
                ),
                GatedStore(opened.store, fence.judge) if fence is not None else opened.store,
                settings.clock,
            )
            dashboard.serve(server.app.handle, server.core.clock)
            moves = Moves(HostedData(server, opened.store, fence), fence) if fence is not None else None
        except BaseException as error:
            if opened is not None:
                await opened.close()
            directory.close()
            why = _deaf(error)
            if why:
                raise DataDirError(
                    f"cannot listen on {settings.host}:{directory.port(settings.port)}: {why}",
                    "give another address: shoal up --listen HOST:PORT",
                ) from None
            raise
        if not settings.port:
            directory.keep_port(server.port)
        write_private(directory.path / "kubeconfig", kubeconfig(server.url, server.authority.certificate, token))
        holder = f"{socket.gethostname()}_{secrets.token_hex(4)}" if opened.shared else ""
        processes = _processes(directory, server, loops, settings) if settings.worker_processes else None
        if settings.store.kind == "sqlite":
            size = "apiserver_storage_size_bytes", "The store on disk, what is still to be merged included."
            server.metrics.gauge(*size, partial(_on_disk, directory.path), 'storage_cluster_id="sqlite"')
        loops.start(
            server.transport(),
            server.authority,
            settings.clock,
            holder=holder,
            hub=settings.hub,
            url=server.url,
            bus=settings.bus,
            sync=settings.sync,
            processes=processes,
            worker_image=settings.worker_image,
        )
        return cls(directory, opened, server, loops, tunnels, processes, moves, settings.shutdown_delay)

    def client(self, agent: str) -> Client:
        """Returns an in-process client of root, with the identity of the controllers."""
        return Client(self.server.transport(), self._loops.token, agent=agent, cluster="root")

    def worker_client(self, name: str) -> Client:
        """Returns an in-process client of root with the identity and permissions of that worker."""
        token = secrets.token_urlsafe(32)
        self.server.core.authenticator.accept(token, worker_user(name))
        return Client(self.server.transport(), token, agent="shoal-worker", cluster="root")

    async def leave(self) -> None:
        """Keeps serving for the shutdown delay and announces the shutdown. The controllers end at once: another server
        of the store takes over while this one still answers.
        """
        delay, self._shutdown_delay = self._shutdown_delay, 0.0
        self.server.drain()
        await asyncio.gather(self._loops.stop(), asyncio.sleep(0.0 if self.store.failure.done() else delay))

    async def stop(self) -> None:
        await self.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._processes is not None:
            await self._processes.stop_all()
        self.tunnels.close()
        await self.server.stop()
        await self._opened.close()
        self.directory.close()


def _deaf(error: BaseException) -> str:
    """Returns why a server cannot listen on its address; empty for any other error."""
    if not isinstance(error, OSError) or error.errno is None:
        return ""
    # The event loop's message tells a bind error from a file that cannot be opened: a privileged port (EACCES), or an
    # unknown host name, which has no errno.
    words, of_binding = str(error.strerror), "attempting to bind" in str(error.strerror)
    if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL) or (of_binding and error.errno > 0):
        return os.strerror(error.errno).lower()
    return words.partition(" (while")[0].lower() if of_binding else ""


def _on_disk(directory: Path) -> float:
    return float(sum(file.stat().st_size for file in directory.glob(f"{FILE_NAME}*")))


def _processes(directory: DataDir, server: ApiServer, loops: Loops, settings: UpSettings) -> WorkerProcesses:
    clock = SystemClock()
    client = Client(server.transport(), loops.token, agent="shoal-processes", cluster="root")

    async def token(worker: str) -> str:
        return await create_token(client, clock.now(), SELF_TOKEN_SECONDS, worker=worker)

    authority, own = server.authority.certificate.decode(), settings.store.sealing
    hub = HubHere(server.url, authority, token, settings.idle_seconds, own)
    return WorkerProcesses(directory.path / "workers", hub, clock)
