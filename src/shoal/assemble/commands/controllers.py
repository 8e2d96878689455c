"""`shoal controllers`: loops alone, for a hub that does not run them itself, or at any API server that serves their
kinds.

Each loop has its own Lease, so several of these processes share the work and one acts at a time. At a hub a loop acts
with the ServiceAccount of the loop, if the kubeconfig has a context for it, and with the settings of the hub.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shoal.assemble.server.controller_health import ControllerHealth
from shoal.assemble.server.embedded_controllers import USER_AGENT as HUB_AGENT
from shoal.assemble.server.health import HealthServer
from shoal.assemble.server.loops import DESCRIPTORS, HostingServer, LoopContext, new_loop_controllers
from shoal.assemble.server.process import run_until_stopped
from shoal.assemble.server.remote_clients import connector_for
from shoal.capi.providers.embedded.informers import LOGICAL_CLUSTERS
from shoal.client.egress import Egress, EgressPolicy
from shoal.client.fencing import IsLeader, fence_client
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import has_context, load, load_rest_config, new_client, rest_config_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig, Unreachable
from shoal.clock import Clock, SystemClock
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import WATCH_BUS, EndpointSettings, check_bus, new_supervisor_controllers
from shoal.kinds.rbac.controller_accounts import NAMESPACE
from shoal.kinds.rbac.loop_accounts import (
    HUB_ONLY_LOOPS,
    SETTINGS_CONFIG_MAP,
    account_of,
    health_condition_of,
    lease_of,
)
from shoal.kinds.rbac.loop_settings import LoopSettings, parse_settings
from shoal.objects.egress import EgressSettings
from shoal.objects.errors import NotFound, ShoalError, StatusError, StoreError, Unauthorized
from shoal.runtime.leader_election import LeaderElector
from shoal.runtime.manager import Runnable, run_manager
from shoal.sync import resources as sync
from shoal.sync.controllers import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.controllers import SyncSettings

log = logging.getLogger("shoal.assemble")

USER_AGENT = "shoal-controllers"
ROOT = "root"
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
SERVED_TIMEOUT_SECONDS, POLL_SECONDS = 30.0, 0.25
"""How long a newly defined kind may take to be served."""
SETTINGS_SECONDS = 5.0
"""Between reads of the settings of a hub: how long a loop may run twice after it has returned to the hub."""


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
    egress: EgressSettings = field(default_factory=EgressSettings)
    """Which addresses kubeconfigs of workload Clusters may name."""
    bus: BusSettings = WATCH_BUS
    """The bus of a hub, for the loop fleet."""
    hub_flags: tuple[str, ...] = ()
    """Flags that were given and belong to the hub, if the server is one."""


LoopClient = Callable[[str], Client]
"""Returns the client of a loop, by its name."""
RunLoop = Callable[[str, Client, IsLeader | None], Awaitable[None]]
"""Runs the loop of that name. It may write while the check returns True; None: always."""


class NotServed(ShoalError):
    def __init__(self, kind: GroupVersionResource) -> None:
        super().__init__(f"the server does not serve {kind.resource}.{kind.group}/{kind.version}")


class LoopsInside(ShoalError):
    def __init__(self, names: list[str]) -> None:
        super().__init__(f"this Shoal server runs {', '.join(names)} itself")
        self.hint = f"a hub leaves loops to this command: shoal hub --no-loops {','.join(names)}"


class HubOnlyLoop(ShoalError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} runs at a Shoal hub only")
        self.hint = "use shoal provisioner" if name == "provisioner" else "this API server is not a Shoal hub"


class FlagOfHub(ShoalError):
    def __init__(self, flags: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(flags)}: the API server is a Shoal hub, which has this setting itself")
        self.hint = "give the flag to shoal hub; its loops follow it"


class OtherBus(ShoalError):
    hint = "give --bus and --bus-creds as to the hub"

    def __init__(self) -> None:
        super().__init__("the hub and this process use different buses to the workers")


class NotShoalServer(ShoalError):
    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is not the root of a Shoal server: it cannot host clusters")


class ControllersProcess:
    """Runs from `start` until `stop`."""

    def __init__(self, config: ControllersConfig, clock: Clock) -> None:
        self.leases: dict[str, LeaderElector] = {}
        self._config, self._clock = config, clock
        self._tasks: list[asyncio.Task[None]] = []
        self._health: HealthServer | None = None
        self.health_port = 0
        self._clients: list[Client] = []
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(
        cls,
        client: Client,
        config: ControllersConfig,
        hosting: HostingServer | None = None,
        clock: Clock | None = None,
        new_loop_client: LoopClient | None = None,
    ) -> ControllersProcess:
        """`client` is a client of the API server. If it is a hub, `new_loop_client` returns a client of root for each
        loop; without it, loops have the identity of `client`. All clients are closed by `stop`, or if this fails.
        """
        running = cls(config, clock or SystemClock())
        running._clients = [client, *([hosting.client] if hosting is not None else ())]
        try:
            await running._start(hosting, new_loop_client or (lambda name: client.in_cluster(ROOT)))
        except BaseException:
            await running.stop()
            raise
        return running

    async def _start(self, hosting: HostingServer | None, new_loop_client: LoopClient) -> None:
        client, config = self._clients[0], self._config
        is_hub = await is_shoal_root(client)
        if is_hub:
            if hosting is not None:
                raise FlagOfHub(("--hosting-kubeconfig",))
            clients = {name: new_loop_client(name) for name in config.controllers}
            self._clients += clients.values()
            await self._check_hub(clients)
            run: RunLoop = self._run_at_hub
        else:
            await self._check_other_server(client, hosting)
            clients, run = dict.fromkeys(config.controllers, client), self._at_other_server(hosting)
        identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        for name, loop_client in clients.items():
            self._start_loop(name, loop_client, identity, run, is_hub=is_hub)
        if config.health_address is not None:
            self._health = HealthServer(self.unready_reason)
            self.health_port = await self._health.start(*config.health_address)

    def unready_reason(self) -> str:
        return "; ".join(f"{lease.name}: {lease.error}" for lease in self.leases.values() if lease.error)

    async def _check_hub(self, clients: dict[str, Client]) -> None:
        if self._config.hub_flags:
            raise FlagOfHub(self._config.hub_flags)
        settings = {name: await hub_settings(client) for name, client in clients.items()}
        inside = [name for name, each in settings.items() if each is None or name not in each.outside]
        if inside:
            raise LoopsInside(inside)
        fleet = settings.get("fleet")
        if fleet is not None:
            if (fleet.bus == "nats") != self._config.bus.is_nats:
                raise OtherBus
            await check_bus(self._config.bus)

    async def _check_other_server(self, client: Client, hosting: HostingServer | None) -> None:
        for name in self._config.controllers:
            if name in HUB_ONLY_LOOPS:
                raise HubOnlyLoop(name)
        if hosting is not None and not await is_shoal_root(hosting.client):
            raise NotShoalServer(hosting.url)
        for name in self._config.controllers:
            for kind in DESCRIPTORS[name].required_kinds:
                await wait_until_served(client, kind, self._clock)

    def _start_loop(self, name: str, client: Client, identity: str, run: RunLoop, *, is_hub: bool) -> None:
        elects = self._config.leader_elect
        lease: LeaderElector | None = None
        if elects or is_hub:
            lease = LeaderElector(client, self._clock, self._config.lease_namespace, lease_of(name), identity)
            self.leases[name] = lease

        async def hold_lease() -> None:
            await asyncio.Event().wait()

        async def run_loop() -> None:
            await run(name, client, lease.is_lease_valid if lease is not None and elects else None)

        if lease is not None:
            # Without election the Lease only tells the hub that the loop runs.
            leading = lease.run(run_loop if elects else hold_lease)
            self._tasks.append(asyncio.create_task(leading, name=name))
        if not elects:
            self._tasks.append(asyncio.create_task(run_loop(), name=name))

    def _at_other_server(self, hosting: HostingServer | None) -> RunLoop:
        config = self._config
        sync_mode = config.sync_mode or ("push" if "syncer" in config.controllers else "none")
        settings = SyncSettings(config.resources_to_sync, config.auto_publish, sync_mode)

        async def run(name: str, client: Client, lease_check: IsLeader | None) -> None:
            shared = new_shared_client(client, lease_check)
            host = hosting and replace(hosting, client=new_shared_client(hosting.client, lease_check))
            egress = self._egress()

            def connect(kubeconfig: dict[str, Any]) -> Client:
                endpoint = rest_config_of(kubeconfig, source="the kubeconfig")
                return fence_client(new_client(endpoint, USER_AGENT, egress=egress), lease_check)

            context = LoopContext(shared, self._clock, lambda agent: connect, host, settings)
            controllers = new_loop_controllers([name], context)
            if name == "fleet":
                controllers += new_supervisor_controllers(shared, self._clock, None)
            await run_manager(controllers, self._clock)

        return run

    async def _run_at_hub(self, name: str, client: Client, lease_check: IsLeader | None) -> None:
        """Runs the loop while the hub leaves it to other processes, and anew when the hub has other settings."""
        waits = False
        while True:
            settings = await self._current_settings(client)
            if settings is None or name not in settings.outside:
                if not waits:
                    log.warning("the hub runs the loop %s itself: this process waits", name)
                waits = True
                await self._clock.sleep(SETTINGS_SECONDS)
                continue
            waits = False
            controllers = self._controllers_at_hub(name, client, lease_check, settings)
            health = ControllerHealth(fence_client(client, lease_check), self._clock, health_condition_of(name))
            running = asyncio.ensure_future(run_manager([health, *controllers], self._clock, health.report))
            try:
                while not running.done() and await self._current_settings(client) == settings:
                    await self._clock.sleep(SETTINGS_SECONDS)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    def _controllers_at_hub(
        self, name: str, client: Client, lease_check: IsLeader | None, settings: LoopSettings
    ) -> list[Runnable]:
        shared = new_shared_client(client, lease_check)
        context = LoopContext(
            shared,
            self._clock,
            lambda agent: connector_for(settings.url, shared.transport, agent, lease_check, self._egress()),
            HostingServer(shared, settings.url, settings.authority),
            SyncSettings(settings.resources_to_sync, settings.auto_publish_apis, settings.sync_mode),
            bus=self._config.bus,
            endpoints=EndpointSettings(settings.host, settings.cluster_ports),
            worker_image=settings.worker_image,
        )
        return new_loop_controllers([name], context)

    async def _current_settings(self, client: Client) -> LoopSettings | None:
        """None: the hub runs all loops, or does not accept the account of the loop any more."""
        while True:
            try:
                return await hub_settings(client)
            except Unauthorized:
                return None
            except (StatusError, Unreachable) as error:
                log.info("cannot read the settings of the hub: %s", error)
                await self._clock.sleep(SETTINGS_SECONDS)

    def _egress(self) -> EgressPolicy:
        return Egress(self._config.egress).policy_for(ROOT)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        for client in self._clients:
            await client.close()


def new_shared_client(client: Client, lease_check: IsLeader | None) -> Client:
    """A client of the same identity that writes only with the Lease, and whose informers are shared."""
    shared = fence_client(client.with_transport(lambda transport: transport), lease_check)
    shared.informers = {}
    return shared


async def hub_settings(client: Client) -> LoopSettings | None:
    try:
        return parse_settings(await client.get(CONFIG_MAPS, SETTINGS_CONFIG_MAP, NAMESPACE))
    except NotFound:
        return None


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


def hosting_server_of(endpoint: RESTConfig, user_agent: str = USER_AGENT) -> HostingServer:
    """A kubeconfig of root may name it by its path."""
    url = endpoint.server.rstrip("/").removesuffix(f"/clusters/{ROOT}")
    client = Client(HttpsTransport(url, endpoint.tls_context), endpoint.token, user_agent, cluster=ROOT)
    return HostingServer(client, url, endpoint.ca_pem)


def run_controllers(
    kubeconfig: Path,
    context: str,
    hosting_kubeconfig: Path | None,
    config: ControllersConfig,
    on_ready: Callable[[ControllersProcess], None],
) -> None:
    """Runs until SIGTERM or SIGINT. Without `context`, a loop uses the context of its account, if there is one."""

    def context_of(loop: str) -> str:
        return account_of(loop) if not context and has_context(kubeconfig, account_of(loop)) else context

    def new_loop_client(loop: str) -> Client:
        return hosting_server_of(load_rest_config(kubeconfig, context_of(loop)), HUB_AGENT).client

    async def start() -> ControllersProcess:
        client = load(kubeconfig, context_of(config.controllers[0]), user_agent=USER_AGENT)
        hosting = hosting_server_of(load_rest_config(hosting_kubeconfig)) if hosting_kubeconfig is not None else None
        running = await ControllersProcess.start(client, config, hosting, new_loop_client=new_loop_client)
        on_ready(running)
        return running

    run_until_stopped(start)
