"""`shoal worker`: a server that hosts clusters for a hub, in its own process or inside `shoal up`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shoal.assemble.server.hub_users import HubUserTokenIssuer
from shoal.assemble.server.kind_clusters import KindClusters
from shoal.assemble.server.kind_support import new_kind_support
from shoal.assemble.server.process import run_until_stopped, stop_on_stdin_close
from shoal.assemble.server.shoal_server import DEFAULT_IDLE_SECONDS, ShoalServer, ShoalServerSettings
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.workers.join import HubMembership, check_hub_target, ensure_membership
from shoal.assemble.workers.join import HubTarget as HubTarget
from shoal.client.kubeconfig import new_client
from shoal.client.rest import Client
from shoal.client.transport import RESTConfig
from shoal.clock import Clock, SystemClock
from shoal.fleet.bus.link_metrics import LinkMetrics
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import WATCH_BUS, check_bus, new_worker_controllers
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.fleet.tunnel import TunnelRegistry, hub_dialer, new_tunnel_agent
from shoal.fleet.tunnel.agent import Dial
from shoal.fleet.tunnel.paths import HostedPath
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.fleet.worker.identity.renewal import CertificateRenewer
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import infrav1
from shoal.kinds.limits import DEFAULT_LIMITS, ClusterLimits
from shoal.kinds.versions import KUBERNETES_VERSION
from shoal.objects.egress import EgressSettings
from shoal.objects.errors import StoreError
from shoal.runtime.manager import Runnable, run_manager

Object = dict[str, Any]

REFRESH_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The options of `shoal worker`."""

    hub_target: HubTarget
    data_dir: Path
    name: str
    capacity: int | None = None
    location: str | None = None
    """None: as its Worker says."""
    host: str = "127.0.0.1"
    port: int = 0
    store: StoreSettings = field(default_factory=StoreSettings)
    idle_seconds: float = DEFAULT_IDLE_SECONDS
    bus: BusSettings = field(default_factory=BusSettings)
    egress: EgressSettings = field(default_factory=EgressSettings)
    is_supervised: bool = False
    """Run by a hub: it ends when its standard input is closed, and its Worker object describes it."""
    cluster_limits: ClusterLimits = DEFAULT_LIMITS
    """Limits of hosted clusters that do not specify theirs."""
    kind_images: Mapping[str, str] | None = None
    """Node images of kind clusters by release. None: it provides no kind clusters."""
    on_registered: Callable[[Object, Object], None] = lambda before, after: None
    """Called when it has registered, with its Worker before and after its flags were applied."""


class HubCARefresher:
    """Learns in time of a new certificate authority of the hub."""

    name = "hub-ca"

    def __init__(self, membership: HubMembership, clock: Clock) -> None:
        self._membership, self._clock = membership, clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(REFRESH_SECONDS)
            await self._membership.refresh_hub_ca()


class WorkerServer:
    """A running worker: its server with its controllers, the fleet's controllers, and its link to the hub."""

    def __init__(self, shoal: ShoalServer, hub: Client) -> None:
        self.shoal = shoal
        self._hub = hub
        self._tasks: list[asyncio.Task[None]] = []
        self._unregister: Callable[[], None] = _no_op
        self._kind_clusters: KindClusters | None = None

    @classmethod
    async def start(
        cls,
        shoal: ShoalServer,
        settings: WorkerSettings,
        hub: Client,
        hub_link: TunnelRegistry | Dial,
        clock: Clock,
        extra_controllers: Callable[[], list[Runnable]] = lambda: [],
        bus: BusSettings = WATCH_BUS,
    ) -> WorkerServer:
        """`shoal` is the worker's own server; `hub` is a client of the hub's root with the identity of this worker.
        `hub_link` is the hub's tunnels if it is in this process, otherwise the dialer of the tunnel connection.
        `extra_controllers` returns further controllers.
        """
        worker = cls(shoal, hub)
        shoal.server.address.hub_url = settings.hub_url
        handler, kind_clusters = shoal.server.app.handle, KindClusters(shoal.server.core, shoal.server.app.handle)
        worker._kind_clusters, user_tokens = kind_clusters, HubUserTokenIssuer(shoal.server.core, kind_clusters)

        async def connect_hosted(target: HostedPath) -> SocketHandler:
            return await shoal.server.cluster_addresses.socket_handler(target.logical_cluster)

        if isinstance(hub_link, TunnelRegistry):
            worker._unregister = hub_link.register(
                settings.name,
                handler,
                connector=connect_hosted,
                hub_requests=user_tokens.handle,
                foreign_clusters=kind_clusters.handler_for,
            )

        link_metrics = LinkMetrics(clock)
        for series in link_metrics.counters():
            shoal.server.metrics.counter(*series)
        for series in link_metrics.gauges():
            shoal.server.metrics.gauge(*series)

        shoal.server.notices["bus"] = link_metrics.error

        def new_controllers() -> list[Runnable]:
            local_client = shoal.controller_client("worker-agent")
            controllers: list[Runnable] = [
                *new_worker_controllers(
                    hub, local_client, clock, settings, bus, link_metrics, migration_support=shoal.cluster_moves
                ),
                *extra_controllers(),
            ]
            if not isinstance(hub_link, TunnelRegistry):
                agent = new_tunnel_agent(
                    hub_link,
                    handler,
                    clock,
                    settings.name,
                    connector=connect_hosted,
                    hub_requests=user_tokens.handle,
                    foreign_clusters=kind_clusters.handler_for,
                )
                controllers.append(agent)
            return controllers

        worker._tasks = [asyncio.create_task(run_manager(new_controllers(), clock), name=f"worker {settings.name}")]
        return worker

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self.shoal.store.failure

    async def stop(self) -> None:
        self._unregister()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._hub.close()
        if self._kind_clusters is not None:
            await self._kind_clusters.close()
        await self.shoal.stop()


def _no_op() -> None:
    pass


def worker_server_settings(
    data_dir: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    store: StoreSettings | None = None,
    idle_seconds: float = DEFAULT_IDLE_SECONDS,
    cluster_limits: ClusterLimits = DEFAULT_LIMITS,
    egress: EgressSettings | None = None,
) -> ShoalServerSettings:
    """Settings of a worker's own server: its root is a management cluster, not a hub."""
    return ShoalServerSettings(
        data_dir,
        host,
        port,
        store=store or StoreSettings(),
        is_hub=False,
        idle_seconds=idle_seconds,
        cluster_limits=cluster_limits,
        egress=egress or EgressSettings(),
    )


def worker_settings(
    name: str, capacity: int | None, location: str | None, hub: RESTConfig, infrastructure: str
) -> WorkerSettings:
    """`hub` is how clients reach the hub."""
    url = f"https://{urlsplit(hub.server).netloc}"
    return WorkerSettings(
        name, capacity, location, KUBERNETES_VERSION, url, hub.ca_pem, hub.server_name, infrastructure=infrastructure
    )


def run_worker(options: WorkerOptions, on_ready: Callable[[WorkerServer], None]) -> None:
    """Runs until SIGTERM or SIGINT, or until the store is lost."""
    check_hub_target(options.hub_target)
    if options.is_supervised:
        stop_on_stdin_close()

    async def start() -> WorkerServer:
        await check_bus(options.bus, options.name)
        where, stored = options.data_dir, options.store
        shoal = await ShoalServer.start(
            worker_server_settings(
                where,
                options.host,
                options.port,
                stored,
                options.idle_seconds,
                options.cluster_limits,
                options.egress,
            )
        )
        try:
            worker = await _start_joined_worker(options, shoal, SystemClock())
        except BaseException:
            await shoal.stop()
            raise
        on_ready(worker)
        return worker

    run_until_stopped(start)


async def _start_joined_worker(options: WorkerOptions, shoal: ShoalServer, clock: Clock) -> WorkerServer:
    root = await shoal.controller_client("worker-agent").get(LOGICAL_CLUSTERS, "root")
    name, store = options.name, str(root["metadata"]["uid"])
    member = await ensure_membership(options.data_dir, name, options.hub_target, store, clock)
    await member.refresh_hub_ca()
    endpoint = member.endpoint
    hub = new_client(endpoint, "shoal-worker")
    infrastructure = infrav1.PROCESS_WORKER if options.is_supervised else infrav1.EXTERNAL_WORKER
    settings = worker_settings(name, options.capacity, options.location, endpoint, infrastructure)
    kind = new_kind_support(options.kind_images) if options.kind_images is not None else None
    settings = replace(settings, on_registered=options.on_registered, kind=kind)

    def certificate_renewal() -> list[Runnable]:
        renewer = CertificateRenewer(hub, clock, name, store, member.certificate, member.save_certificate)
        return [renewer, HubCARefresher(member, clock)]

    return await WorkerServer.start(
        shoal, settings, hub, hub_dialer(endpoint, name), clock, certificate_renewal, options.bus
    )
