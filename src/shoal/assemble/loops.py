"""The list of controllers that run beside an API server."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

from shoal.apiserver.certificates import Authority
from shoal.apiserver.inprocess import InProcessTransport
from shoal.assemble.connecting import connect_from
from shoal.assemble.running import Runnable, run_all
from shoal.capi.loops import capi_loops
from shoal.capi.providers.embedded.loops import embedded_provider
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.loops import KindSettings, kind_loops, kind_provider
from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.clock import Clock, SystemClock
from shoal.controlplane.certificates.controller import certificate_controller
from shoal.controlplane.definitions.controller import definition_controller
from shoal.controlplane.events.controller import EventExpiry
from shoal.controlplane.flowschemas.controller import flow_schema_loop
from shoal.controlplane.garbagecollector.controller import garbage_collector
from shoal.controlplane.logicalclusters.controller import logical_cluster_controller
from shoal.controlplane.namespaces.controller import namespace_controller
from shoal.controlplane.nodes.loops import node_loops
from shoal.controlplane.quota.controller import QuotaController
from shoal.controlplane.roles.controller import role_loop
from shoal.controlplane.scheduler.controller import scheduler_loops
from shoal.controlplane.serviceaccounts.controller import service_account_loops
from shoal.controlplane.workloads import workload_loops
from shoal.fleet.bundle.controller import BundleSettings, bundle_loops
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.loops import WATCH, fleet_hub_loops, supervisor_loops
from shoal.fleet.processes.interface import Processes
from shoal.placement.splitter.controller import splitter_loops
from shoal.placement.splitter.events import placement_events
from shoal.provision.loops import provision_loops
from shoal.runtime.lease import Lease
from shoal.sync.connecting import Connect
from shoal.sync.loops import SyncSettings, sync_loops


def controllers(client: Client, clock: Clock, authority: Authority, url: str) -> list[Runnable]:
    """`url` is the address at which clients reach the server."""
    return [
        namespace_controller(client, clock),
        definition_controller(client, clock),
        logical_cluster_controller(client, clock),
        garbage_collector(client, clock),
        *service_account_loops(client, clock, authority.certificate.decode()),
        role_loop(client, clock),
        flow_schema_loop(client, clock),
        certificate_controller(client, clock, authority.sign_request),
        EventExpiry(client, clock),
        QuotaController(client, clock),
        *workload_loops(client, clock),
        *scheduler_loops(client, clock),
        *node_loops(client, clock),
        *capi_loops(client, clock, embedded_provider(client, url, authority.certificate.decode()), kind_provider),
        *kind_loops(client, clock, KindSettings(), KindCommand()),
        *provision_loops(client, clock),
    ]


def hub_controllers(
    client: Client, clock: Clock, connect: Connect, bus: BusSettings = WATCH, sync: SyncSettings | None = None
) -> list[Runnable]:
    """The controllers that run beside a hub's server and not beside a worker's."""
    return [
        *fleet_hub_loops(client, clock, bus),
        *sync_loops(client, clock, connect, sync or SyncSettings()),
        *splitter_loops(client, clock),
        placement_events(client, clock),
    ]


class Loops:
    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        """The identity of the controllers, valid for the life of this process."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(
        self,
        transport: Transport,
        authority: Authority,
        clock: Clock | None = None,
        *,
        holder: str = "",
        hub: bool = True,
        url: str = "https://127.0.0.1:6443",
        bus: BusSettings = WATCH,
        sync: SyncSettings | None = None,
        processes: Processes | None = None,
        worker_image: str = "",
    ) -> None:
        """`is_hub`: the server is a hub, not a worker. `url` is the address at which clients reach it. `lease_identity`
        names this process among several on one store; only the lease holder runs the controllers. `worker_processes`
        are the worker processes of this hub, which nobody else can supervise. `worker_image` is the image of
        bundles; empty: that of the release.
        """
        clock = clock or SystemClock()
        lease: Lease | None = None
        supervising = Client(transport, self.token, agent="shoal-loops", cluster="root")
        if holder:
            lease = Lease(supervising, clock, "kube-system", "shoal-loops", holder)
            assert isinstance(transport, InProcessTransport), "a lease fences writes of this server only"
            transport = transport.fenced(lease.is_valid)
        client = Client(transport, self.token, agent="shoal-loops", cluster="root")
        client.copies = {}

        def loops() -> list[Runnable]:
            common = controllers(client, clock, authority, url)
            if not hub:
                return common
            connect = partial(connect_from, url, transport, holds=lease.is_valid if lease is not None else None)
            own = hub_controllers(client, clock, connect(), bus, sync)
            bundles = BundleSettings(url, authority.certificate.decode(), worker_image)
            own += bundle_loops(client, clock, connect("shoal-bundle"), bundles)
            return [*common, *own, *(supervisor_loops(client, clock, None) if processes is None else ())]

        async def run() -> None:
            await run_all(loops, clock)

        if lease is not None:
            self._tasks.append(asyncio.create_task(lease.run(run), name="lease"))
        else:
            self._tasks.append(asyncio.create_task(run(), name="loops"))
        if processes is not None:
            supervising.copies = client.copies
            supervision = run_all(lambda: [*supervisor_loops(supervising, clock, processes)], clock)
            self._tasks.append(asyncio.create_task(supervision, name="worker processes"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
