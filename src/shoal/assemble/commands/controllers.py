"""`shoal controllers`: controllers alone, at any API server that serves their kinds.

Each controller set has its own Lease, so several of these processes share the work and one acts at a time. A Shoal
server runs them itself, so they are not run a second time beside it.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.assemble.server.health import HealthServer
from shoal.assemble.server.process import run_until_stopped
from shoal.capi import informers as capi
from shoal.capi.controllers import Provider, new_capi_controllers
from shoal.capi.providers.embedded.controllers import embedded_provider, unhosted_provider
from shoal.capi.providers.embedded.informers import (
    EMBEDDED_CLUSTERS,
    EMBEDDED_MACHINES,
    EMBEDDED_TEMPLATES,
    LOGICAL_CLUSTERS,
)
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from shoal.capi.providers.kind.controllers import KindSettings, kind_provider, new_kind_controllers
from shoal.client.fencing import IsLeader, fence_client
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import load, load_rest_config, new_client, rest_config_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig
from shoal.clock import Clock, SystemClock
from shoal.fleet import resources as fleet
from shoal.fleet.controllers import new_hub_controllers, new_supervisor_controllers
from shoal.objects.errors import NotFound, ShoalError, StoreError
from shoal.runtime.leader_election import LeaderElector
from shoal.runtime.manager import Runnable, run_manager
from shoal.sync import resources as sync
from shoal.sync.controllers import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.controllers import SyncSettings, new_sync_controllers

USER_AGENT = "shoal-controllers"
ROOT = "root"
SERVED_TIMEOUT_SECONDS, POLL_SECONDS = 30.0, 0.25
"""How long a newly defined kind may take to be served."""


@dataclass(frozen=True, slots=True)
class ControllersConfig:
    controllers: tuple[str, ...]
    resources_to_sync: tuple[str, ...] = DEFAULT_RESOURCES
    auto_publish: bool = False
    sync_mode: str = ""
    """Empty: push with the syncer, none without it."""
    leader_elect: bool = True
    lease_namespace: str = "kube-system"
    """The namespace of the Leases."""
    health_address: tuple[str, int] | None = None
    """The address of /healthz, /readyz and /metrics."""


@dataclass(frozen=True, slots=True)
class HostingServer:
    """The server that hosts the clusters of the embedded provider."""

    client: Client
    """A client of its root."""
    url: str
    authority: str
    """PEM."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The dependencies of controllers."""

    client: Client
    clock: Clock
    hosting: HostingServer | None
    config: ControllersConfig
    lease_check: IsLeader | None = None
    """They may write while it returns True; None: always."""

    def fenced_by(self, lease_check: IsLeader) -> ControllerContext:
        hosting = self.hosting and replace(self.hosting, client=fence_client(self.hosting.client, lease_check))
        return replace(self, client=fence_client(self.client, lease_check), hosting=hosting, lease_check=lease_check)


@dataclass(frozen=True, slots=True)
class ControllerDescriptor:
    """A named set of controllers."""

    required_kinds: tuple[GroupVersionResource, ...]
    """Kinds that must be served."""
    new_controllers: Callable[[ControllerContext], list[Runnable]]


class NotServed(ShoalError):
    def __init__(self, kind: GroupVersionResource) -> None:
        super().__init__(f"the server does not serve {kind.resource}.{kind.group}/{kind.version}")


class ControllersEmbedded(ShoalError):
    hint = "shoal controllers is for other API servers"

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"this Shoal server runs {', '.join(names)} itself")


class HubOnlyController(ShoalError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} runs inside a Shoal hub only")


class NotShoalServer(ShoalError):
    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is not the root of a Shoal server: it cannot host clusters")


def _new_capi_controllers(context: ControllerContext) -> list[Runnable]:
    hosting = context.hosting
    embedded: Provider = unhosted_provider
    if hosting is not None:
        embedded = embedded_provider(hosting.client, hosting.url, hosting.authority)
    return [*new_capi_controllers(context.client, context.clock, embedded, kind_provider)]


def _new_kind_controllers(context: ControllerContext) -> list[Runnable]:
    return [*new_kind_controllers(context.client, context.clock, KindSettings(), KindCommand())]


def _new_sync_controllers(context: ControllerContext) -> list[Runnable]:
    def connect(kubeconfig: dict[str, Any]) -> Client:
        return fence_client(
            new_client(rest_config_of(kubeconfig, source="the kubeconfig"), USER_AGENT), context.lease_check
        )

    config = context.config
    mode = config.sync_mode or ("push" if "syncer" in config.controllers else "none")
    settings = SyncSettings(config.resources_to_sync, config.auto_publish, mode)
    return [*new_sync_controllers(context.client, context.clock, connect, settings)]


def _new_fleet_controllers(context: ControllerContext) -> list[Runnable]:
    return [
        *new_hub_controllers(context.client, context.clock),
        *new_supervisor_controllers(context.client, context.clock, None),
    ]


DESCRIPTORS = {
    "capi": ControllerDescriptor(
        (
            *(capi.CLUSTERS, capi.MACHINE_DEPLOYMENTS, capi.MACHINE_SETS, capi.MACHINES, capi.MACHINE_HEALTH_CHECKS),
            *(EMBEDDED_CLUSTERS, EMBEDDED_MACHINES, EMBEDDED_TEMPLATES, KIND_CLUSTERS),
        ),
        _new_capi_controllers,
    ),
    "kind": ControllerDescriptor((KIND_CLUSTERS, capi.CLUSTERS), _new_kind_controllers),
    "importer": ControllerDescriptor(
        (sync.CLUSTERS, sync.IMPORTS, sync.NEGOTIATED, sync.SCHEMAS, sync.MANAGED_CLUSTERS), _new_sync_controllers
    ),
    "fleet": ControllerDescriptor((fleet.MANAGED_CLUSTERS, fleet.WORKERS), _new_fleet_controllers),
}
CONTROLLER_NAMES = (*DESCRIPTORS, "syncer", "splitter")
"""The syncer runs with the importer's controllers."""


class ControllersProcess:
    """Runs from `start` until `stop`."""

    def __init__(self) -> None:
        self.leases: dict[str, LeaderElector] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._health: HealthServer | None = None
        self.health_port = 0
        self._clients: list[Client] = []
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(
        cls, client: Client, config: ControllersConfig, hosting: HostingServer | None = None, clock: Clock | None = None
    ) -> ControllersProcess:
        """`client` is a client of the API server. `stop` closes both clients."""
        context = ControllerContext(client, clock or SystemClock(), hosting, config)
        running = cls()
        running._clients = [client, *([hosting.client] if hosting is not None else ())]
        for each in running._clients:
            each.informers = {}
        if await is_shoal_root(client):
            raise ControllersEmbedded(config.controllers)
        if "splitter" in config.controllers:
            raise HubOnlyController("splitter")
        if hosting is not None and not await is_shoal_root(hosting.client):
            raise NotShoalServer(hosting.url)
        names = [name for name in config.controllers if name in DESCRIPTORS]
        for name in names:
            for kind in DESCRIPTORS[name].required_kinds:
                await wait_until_served(client, kind, context.clock)
        identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        for name in names:
            running._start_controller(name, context, identity)
        if config.health_address is not None:
            running._health = HealthServer()
            running.health_port = await running._health.start(*config.health_address)
        return running

    def _start_controller(self, name: str, context: ControllerContext, identity: str) -> None:
        lease: LeaderElector | None = None
        if context.config.leader_elect:
            lease = LeaderElector(
                context.client, context.clock, context.config.lease_namespace, f"shoal-controllers-{name}", identity
            )
            self.leases[name] = lease
            context = context.fenced_by(lease.is_lease_valid)

        async def run_controller() -> None:
            await run_manager(DESCRIPTORS[name].new_controllers(context), context.clock)

        running = lease.run(run_controller) if lease is not None else run_controller()
        self._tasks.append(asyncio.create_task(running, name=name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        for client in self._clients:
            await client.close()


async def is_shoal_root(client: Client) -> bool:
    """The root of a Shoal server is a logical cluster; elsewhere the kind is unknown, or there is none named root."""
    try:
        await client.get(LOGICAL_CLUSTERS, ROOT)
    except NotFound:
        return False
    return True


async def wait_until_served(client: Client, kind: GroupVersionResource, clock: Clock) -> None:
    """Waits if the definition exists already, because a server takes time to serve it."""
    deadline = clock.monotonic() + SERVED_TIMEOUT_SECONDS
    while True:
        try:
            await client.request("GET", client.resource_path(kind), {"limit": "1"})
        except NotFound:
            if clock.monotonic() > deadline or not await _is_defined(client, kind):
                raise NotServed(kind) from None
            await clock.sleep(POLL_SECONDS)
        else:
            return


async def _is_defined(client: Client, kind: GroupVersionResource) -> bool:
    try:
        await client.get(sync.CRDS, f"{kind.resource}.{kind.group}")
    except NotFound:
        return False
    return True


def hosting_server_of(endpoint: RESTConfig) -> HostingServer:
    """A kubeconfig of root may name it by its path."""
    url = endpoint.server.rstrip("/").removesuffix(f"/clusters/{ROOT}")
    client = Client(HttpsTransport(url, endpoint.tls_context), endpoint.token, USER_AGENT, cluster=ROOT)
    return HostingServer(client, url, endpoint.ca_pem)


def run_controllers(
    kubeconfig: Path,
    context: str,
    hosting_kubeconfig: Path | None,
    config: ControllersConfig,
    on_ready: Callable[[ControllersProcess], None],
) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> ControllersProcess:
        client = load(kubeconfig, context, user_agent=USER_AGENT)
        hosting_server = (
            hosting_server_of(load_rest_config(hosting_kubeconfig)) if hosting_kubeconfig is not None else None
        )
        try:
            running = await ControllersProcess.start(client, config, hosting_server)
        except BaseException:
            await client.close()
            if hosting_server is not None:
                await hosting_server.client.close()
            raise
        on_ready(running)
        return running

    run_until_stopped(start)
