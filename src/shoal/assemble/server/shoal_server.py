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
from urllib.parse import urlsplit

from shoal.apiserver.audit import AuditConfig as AuditConfig
from shoal.apiserver.idle import DEFAULT_IDLE_SECONDS as DEFAULT_IDLE_SECONDS
from shoal.apiserver.registry.bootstrap import APIAddress
from shoal.apiserver.request.info import ROOT
from shoal.assemble.server.api_server import ApiServer, admin_user, worker_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.backup_route import backup_routes
from shoal.assemble.server.cluster_ports import ClusterPorts
from shoal.assemble.server.embedded_controllers import EmbeddedControllers
from shoal.assemble.server.hosted_storage import HostedClusterStorage
from shoal.assemble.server.hub_peers import ACCOUNT as HUB_PEERS_ACCOUNT
from shoal.assemble.server.hub_peers import HubPeers
from shoal.assemble.server.routes import hub_routes, no_routes
from shoal.assemble.storage.config import OpenedStore
from shoal.assemble.storage.config import StoreSettings as StoreSettings
from shoal.assemble.storage.datadir import (
    DataDir,
    DataDirError,
    render_kubeconfig,
    serving_certificate_names,
    write_private_file,
)
from shoal.assemble.storage.factory import open_store
from shoal.assemble.storage.shared_ca import SharedCA
from shoal.assemble.workers.join_tokens import SHORT_TOKEN_SECONDS, create_token
from shoal.assemble.workers.processes import SupervisingHub, WorkerProcesses
from shoal.client.egress import Egress, OwnEndpoints
from shoal.client.rest import Client
from shoal.clock import Clock, SystemClock
from shoal.dashboard import Dashboard
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import EndpointSettings
from shoal.fleet.join.join_secrets import JoinSecretSettings
from shoal.fleet.tunnel import TunnelRegistry
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.migration import MigrationSupport
from shoal.kinds.fleet.endpoint import DEFAULT_RANGE, PortRange
from shoal.kinds.limits import DEFAULT_LIMITS, UNLIMITED, ClusterLimits
from shoal.kinds.rbac.loop_accounts import CLUSTER_LOOPS, user_of
from shoal.objects.egress import EgressSettings
from shoal.store.fencing import GuardedStore
from shoal.store.sqlite.file import FILE_NAME
from shoal.sync.controllers import SyncSettings

IDLE_CONNECTION_GRACE = 2.0
"""Applies after the shutdown delay, if there is one, for deployments that must not lose a request."""


@dataclass(frozen=True, slots=True)
class ShoalServerSettings:
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 6443
    audit: AuditConfig = field(default_factory=AuditConfig)
    root_profile: str = ""
    store: StoreSettings = field(default_factory=StoreSettings)
    advertise_address: str = ""
    """The name or address clients use, if it is not the host."""
    tls_sans: tuple[str, ...] = ()
    """Further names and addresses of the serving certificate."""
    peer_advertise_ip: str = ""
    """The name or address that other hubs of the store use. Empty: the host, or if that is every address, the one that
    clients use.
    """
    is_hub: bool = True
    """False for a worker's server, which runs no hub controllers."""
    idle_seconds: float = DEFAULT_IDLE_SECONDS
    """A logical cluster without requests becomes idle after this time."""
    cluster_limits: ClusterLimits = DEFAULT_LIMITS
    """Limits of logical clusters that do not specify theirs."""
    root_limits: ClusterLimits = UNLIMITED
    bus: BusSettings = field(default_factory=BusSettings)
    """How the hub communicates with its workers."""
    sync: SyncSettings = field(default_factory=SyncSettings)
    """How the hub syncs its workload Clusters."""
    clock: Clock | None = None
    """None: the system clock."""
    run_worker_processes: bool = False
    """True if the hub runs the processes of Workers with infrastructure process."""
    shutdown_delay: float = 0.0
    """Seconds it keeps serving after the stop signal, while /readyz fails."""
    cluster_ports: PortRange = DEFAULT_RANGE
    """The ports of a hub that clusters may have as addresses of their own."""
    egress: EgressSettings = field(default_factory=EgressSettings)
    """Which addresses objects may name."""
    worker_image: str = ""
    """The image in the clusters of Workers with infrastructure kind; empty: that of the release."""
    outside_loops: frozenset[str] = frozenset()
    """The loops of a hub that `shoal controllers` runs."""
    join_secrets: JoinSecretSettings | None = None
    """The Secrets with which workers beside the hub join."""


class ShoalServer:
    """A running server. Tests start it in their own event loop; commands start it through `run_hub` or `run_worker`."""

    def __init__(
        self,
        directory: DataDir,
        opened_store: OpenedStore,
        server: ApiServer,
        controllers: EmbeddedControllers,
        tunnels: TunnelRegistry,
        *,
        worker_processes: WorkerProcesses | None,
        cluster_moves: MigrationSupport | None,
        cluster_ports: ClusterPorts | None = None,
        hub_peers: HubPeers | None = None,
        shutdown_delay: float = 0.0,
    ) -> None:
        self.directory = directory
        self.store = opened_store.store
        self._opened_store = opened_store
        self.server = server
        self.tunnels = tunnels
        """Tunnels to the hosted clusters of workers."""
        self.cluster_moves = cluster_moves
        """Of a worker's server: moves clusters from here and to here."""
        self.cluster_ports = cluster_ports
        """Of a hub: the addresses of clusters."""
        self.hub_peers = hub_peers
        """Of a hub on a shared store: the other hubs."""
        self._controllers, self._processes = controllers, worker_processes
        self._shutdown_delay = shutdown_delay
        self.shared_ca: SharedCA | None = None
        """Set if the store keeps a shared certificate authority."""
        own_endpoints = server.settings.egress.own_endpoints
        self._tasks = [asyncio.create_task(own_endpoints.run(), name="own endpoints")]
        if opened_store.metadata is not None:
            self.shared_ca = SharedCA(directory.path, opened_store.metadata, server.core.clock)
            self._tasks.append(asyncio.create_task(self.shared_ca.run(), name="shared authority"))

    @classmethod
    async def start(cls, settings: ShoalServerSettings) -> ShoalServer:
        directory = DataDir(settings.data_dir)
        opened_store: OpenedStore | None = None
        try:
            opened_store = await open_store(directory, settings.store)
            token = directory.admin_token()
            controllers, tunnels, dashboard = EmbeddedControllers(), TunnelRegistry(), Dashboard()
            fence = None if settings.is_hub else WriteFence((settings.clock or SystemClock()).since_boot)
            pki = directory.path / "pki"
            hub_peers = HubPeers(pki, tunnels) if settings.is_hub and opened_store.is_shared else None
            egress = Egress(settings.egress, _own_endpoints(settings))
            peer_acceptor = hub_peers.acceptor if hub_peers is not None else None
            other_routes = (
                hub_routes(tunnels, pki / "ca.crt", dashboard, peer_acceptor) if settings.is_hub else no_routes
            )
            server = await ApiServer.start(
                ApiServerSettings(
                    directory=pki,
                    host=settings.host,
                    port=directory.port(settings.port),
                    advertise_address=settings.advertise_address,
                    certificate_names=(*serving_certificate_names(), *settings.tls_sans),
                    tokens={token: admin_user(), **controllers.tokens},
                    audit=settings.audit,
                    root_profile=settings.root_profile,
                    idle_seconds=settings.idle_seconds,
                    cluster_limits=settings.cluster_limits,
                    root_limits=settings.root_limits,
                    idle_connection_grace=IDLE_CONNECTION_GRACE if settings.shutdown_delay else 0.0,
                    egress=egress,
                    outside_controllers=frozenset(map(user_of, settings.outside_loops & CLUSTER_LOOPS)),
                    routes=backup_routes(opened_store.open_snapshot, directory.path, other_routes),
                ),
                GuardedStore(opened_store.store, fence.check_write) if fence is not None else opened_store.store,
                settings.clock,
            )
            dashboard.attach_server(server.app.handle, server.core.clock)
            cluster_moves = (
                MigrationSupport(HostedClusterStorage(server, opened_store.store, fence), fence)
                if fence is not None
                else None
            )
        except BaseException as error:
            if opened_store is not None:
                await opened_store.close()
            directory.close()
            listen_error = _listen_error(error)
            if listen_error:
                raise DataDirError(
                    f"cannot listen on {settings.host}:{directory.port(settings.port)}: {listen_error}",
                    "give another address: shoal up --listen HOST:PORT",
                ) from None
            raise
        if not settings.port:
            directory.save_port(server.port)
        directory.save_loopback_url(settings.host, server.port)
        write_private_file(
            directory.path / "kubeconfig",
            render_kubeconfig(server.url, server.authority.certificate, token, server_name=server.server_name),
        )
        lease_identity = f"{socket.gethostname()}_{secrets.token_hex(4)}" if opened_store.is_shared else ""
        worker_processes = (
            _new_worker_processes(directory, server, controllers, settings) if settings.run_worker_processes else None
        )
        if settings.store.kind == "sqlite":
            size = "apiserver_storage_size_bytes", "Size of the store on disk, including the write-ahead log."
            server.metrics.gauge(*size, partial(_store_size, directory.path), 'storage_cluster_id="sqlite"')
        controllers.start(
            server.transport(),
            server.core.keys,
            settings.clock,
            lease_identity=lease_identity,
            is_hub=settings.is_hub,
            url=server.url,
            bus=settings.bus,
            sync=settings.sync,
            worker_processes=worker_processes,
            worker_image=settings.worker_image,
            endpoints=EndpointSettings(server.settings.advertised_host, settings.cluster_ports),
            egress=egress.policy_for(ROOT),
            limit_usage=server.limit_usage,
            outside_loops=settings.outside_loops,
            join_secrets=settings.join_secrets,
            server_name=lambda: server.server_name,
        )
        server.notices["controllers"] = controllers.error
        cluster_ports = ClusterPorts(server, tunnels, settings.cluster_ports) if settings.is_hub else None
        if cluster_ports is not None:
            cluster_ports.start()
        if hub_peers is not None:
            host = settings.peer_advertise_ip or ("" if settings.host in ("0.0.0.0", "::") else settings.host)
            url = APIAddress(host or server.settings.advertised_host, server.port).url
            egress.own_endpoints.add(host, server.port)
            hub_peers.start(server, controllers.client(server.transport(), HUB_PEERS_ACCOUNT), url)
        return cls(
            directory,
            opened_store,
            server,
            controllers,
            tunnels,
            worker_processes=worker_processes,
            cluster_moves=cluster_moves,
            cluster_ports=cluster_ports,
            hub_peers=hub_peers,
            shutdown_delay=settings.shutdown_delay,
        )

    def client(self, agent: str) -> Client:
        """Returns an in-process client of root, with the identity of the administrator."""
        return Client(self.server.transport(), self.directory.admin_token(), user_agent=agent, cluster="root")

    def controller_client(self, account: str) -> Client:
        """Returns an in-process client of root, with the account of a controller."""
        return self._controllers.client(self.server.transport(), account)

    def worker_client(self, name: str) -> Client:
        """Returns an in-process client of root with the identity and permissions of that worker."""
        token = secrets.token_urlsafe(32)
        self.server.core.authenticator.add_static_token(token, worker_user(name))
        return Client(self.server.transport(), token, user_agent="shoal-worker", cluster="root")

    async def drain(self) -> None:
        """Keeps serving for the shutdown delay and announces the shutdown. The controllers end at once: another server
        of the store takes over while this one still answers.
        """
        delay, self._shutdown_delay = self._shutdown_delay, 0.0
        self.server.drain()
        await asyncio.gather(self._controllers.stop(), asyncio.sleep(0.0 if self.store.failure.done() else delay))

    async def stop(self) -> None:
        await self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._processes is not None:
            await self._processes.stop_all()
        if self.cluster_ports is not None:
            self.cluster_ports.close()
        if self.hub_peers is not None:
            await self.hub_peers.stop()
        self.tunnels.close()
        await self.server.stop()
        await self._opened_store.close()
        self.directory.close()


def _listen_error(error: BaseException) -> str:
    """Returns why a server cannot listen on its address; empty for any other error."""
    if not isinstance(error, OSError) or error.errno is None:
        return ""
    # The event loop's message tells a bind error from a file that cannot be opened: a privileged port (EACCES), or an
    # unknown host name, which has no errno.
    message, is_bind_error = str(error.strerror), "attempting to bind" in str(error.strerror)
    if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL) or (is_bind_error and error.errno > 0):
        return os.strerror(error.errno).lower()
    return message.partition(" (while")[0].lower() if is_bind_error else ""


def _own_endpoints(settings: ShoalServerSettings) -> OwnEndpoints:
    """Where the server listens, and the servers that it uses. The port of its API is added when it is known."""
    endpoints = OwnEndpoints()
    for server in (*settings.store.servers, *settings.bus.servers):
        url = urlsplit(server if "://" in server else f"//{server}")
        endpoints.add(url.hostname or "", url.port or 0)
    if settings.is_hub:
        endpoints.ports.update(range(settings.cluster_ports.first, settings.cluster_ports.last + 1))
    return endpoints


def _store_size(directory: Path) -> float:
    return float(sum(file.stat().st_size for file in directory.glob(f"{FILE_NAME}*")))


def _new_worker_processes(
    directory: DataDir, server: ApiServer, controllers: EmbeddedControllers, settings: ShoalServerSettings
) -> WorkerProcesses:
    clock = SystemClock()
    client = controllers.client(server.transport(), "worker-process-supervisor")

    async def token(worker: str) -> str:
        return await create_token(client, clock.now(), SHORT_TOKEN_SECONDS, worker=worker)

    authority, encryption = server.authority.certificate.decode(), settings.store.encryption_only
    hub = SupervisingHub(
        server.url, authority, token, settings.idle_seconds, encryption, settings.cluster_limits, settings.egress
    )
    return WorkerProcesses(directory.path / "workers", hub, clock)
