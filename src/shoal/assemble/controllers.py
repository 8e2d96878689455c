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

from shoal.assemble.health import Health
from shoal.assemble.process import serve
from shoal.assemble.running import Runnable, run_all
from shoal.capi import resources as capi
from shoal.capi.loops import Provider, capi_loops
from shoal.capi.providers.embedded.loops import embedded_provider
from shoal.capi.providers.embedded.resources import (
    EMBEDDED_CLUSTERS,
    EMBEDDED_MACHINES,
    EMBEDDED_TEMPLATES,
    LOGICAL_CLUSTERS,
)
from shoal.capi.providers.embedded.unhosted import unhosted_provider
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from shoal.capi.providers.kind.loops import KindSettings, kind_loops, kind_provider
from shoal.client.fenced import Holds, fenced
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import client_to, endpoint_of, load, load_endpoint
from shoal.client.requests import Client, Kind
from shoal.client.transport import Endpoint
from shoal.clock import Clock, SystemClock
from shoal.fleet import resources as fleet
from shoal.fleet.loops import fleet_hub_loops, supervisor_loops
from shoal.objects.errors import NotFound, ShoalError, StoreError
from shoal.runtime.lease import Lease
from shoal.sync import resources as sync
from shoal.sync.loops import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.loops import SyncSettings, sync_loops

AGENT = "shoal-controllers"
ROOT = "root"
SERVED_SECONDS, LOOK_SECONDS = 30.0, 0.25
"""How long a newly defined kind may take to be served."""


@dataclass(frozen=True, slots=True)
class Wanted:
    loops: tuple[str, ...]
    resources_to_sync: tuple[str, ...] = DEFAULT_RESOURCES
    auto_publish: bool = False
    sync_mode: str = ""
    """Empty: push with the syncer, none without it."""
    leader_elect: bool = True
    namespace: str = "kube-system"
    """The namespace of the Leases."""
    health: tuple[str, int] | None = None
    """The address of /healthz, /readyz and /metrics."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """The server that hosts the clusters of the embedded provider."""

    client: Client
    """A client of its root."""
    url: str
    authority: str
    """PEM."""


@dataclass(frozen=True, slots=True)
class Place:
    """The dependencies of controllers."""

    client: Client
    clock: Clock
    hosting: Hosting | None
    wanted: Wanted
    holds: Holds | None = None
    """They may write while it returns True; None: always."""

    def only_while(self, holds: Holds) -> Place:
        hosting = self.hosting and replace(self.hosting, client=fenced(self.hosting.client, holds))
        return replace(self, client=fenced(self.client, holds), hosting=hosting, holds=holds)


@dataclass(frozen=True, slots=True)
class Part:
    """A named set of controllers."""

    kinds: tuple[Kind, ...]
    """Kinds that must be served."""
    make: Callable[[Place], list[Runnable]]


class NotServed(ShoalError):
    def __init__(self, kind: Kind) -> None:
        super().__init__(f"the server does not serve {kind.plural}.{kind.group}/{kind.version}")


class NothingToRun(ShoalError):
    hint = "shoal controllers is for other API servers"

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"this Shoal server runs {', '.join(names)} itself")


class OnlyInside(ShoalError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} runs inside a Shoal hub only")


class NotAShoal(ShoalError):
    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is not the root of a Shoal server: nothing can be hosted there")


def _capi(place: Place) -> list[Runnable]:
    hosting = place.hosting
    embedded: Provider = unhosted_provider
    if hosting is not None:
        embedded = embedded_provider(hosting.client, hosting.url, hosting.authority)
    return [*capi_loops(place.client, place.clock, embedded, kind_provider)]


def _kind(place: Place) -> list[Runnable]:
    return [*kind_loops(place.client, place.clock, KindSettings(), KindCommand())]


def _sync(place: Place) -> list[Runnable]:
    def connect(kubeconfig: dict[str, Any]) -> Client:
        return fenced(client_to(endpoint_of(kubeconfig, where="the kubeconfig"), AGENT), place.holds)

    wanted = place.wanted
    mode = wanted.sync_mode or ("push" if "syncer" in wanted.loops else "none")
    settings = SyncSettings(wanted.resources_to_sync, wanted.auto_publish, mode)
    return [*sync_loops(place.client, place.clock, connect, settings)]


def _fleet(place: Place) -> list[Runnable]:
    return [*fleet_hub_loops(place.client, place.clock), *supervisor_loops(place.client, place.clock, None)]


PARTS = {
    "capi": Part(
        (
            *(capi.CLUSTERS, capi.MACHINE_DEPLOYMENTS, capi.MACHINE_SETS, capi.MACHINES, capi.MACHINE_HEALTH_CHECKS),
            *(EMBEDDED_CLUSTERS, EMBEDDED_MACHINES, EMBEDDED_TEMPLATES, KIND_CLUSTERS),
        ),
        _capi,
    ),
    "kind": Part((KIND_CLUSTERS, capi.CLUSTERS), _kind),
    "importer": Part((sync.CLUSTERS, sync.IMPORTS, sync.NEGOTIATED, sync.SCHEMAS, sync.MANAGED_CLUSTERS), _sync),
    "fleet": Part((fleet.MANAGED_CLUSTERS, fleet.WORKERS), _fleet),
}
LOOPS = (*PARTS, "syncer", "splitter")
"""The syncer runs with the importer's controllers."""


class Controllers:
    """Runs from `start` until `stop`."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._health: Health | None = None
        self.health_port = 0
        self._clients: list[Client] = []
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(
        cls, client: Client, wanted: Wanted, hosting: Hosting | None = None, clock: Clock | None = None
    ) -> Controllers:
        """`client` is a client of the API server. `stop` closes both clients."""
        place = Place(client, clock or SystemClock(), hosting, wanted)
        running = cls()
        running._clients = [client, *([hosting.client] if hosting is not None else ())]
        for each in running._clients:
            each.copies = {}
        if await is_shoal_root(client):
            raise NothingToRun(wanted.loops)
        if "splitter" in wanted.loops:
            raise OnlyInside("splitter")
        if hosting is not None and not await is_shoal_root(hosting.client):
            raise NotAShoal(hosting.url)
        names = [name for name in wanted.loops if name in PARTS]
        for name in names:
            for kind in PARTS[name].kinds:
                await served(client, kind, place.clock)
        identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        for name in names:
            running._begin(name, place, identity)
        if wanted.health is not None:
            running._health = Health()
            running.health_port = await running._health.start(*wanted.health)
        return running

    def _begin(self, name: str, place: Place, identity: str) -> None:
        lease: Lease | None = None
        if place.wanted.leader_elect:
            lease = Lease(place.client, place.clock, place.wanted.namespace, f"shoal-controllers-{name}", identity)
            self.leases[name] = lease
            place = place.only_while(lease.is_valid)

        async def run() -> None:
            await run_all(lambda: PARTS[name].make(place), place.clock)

        running = lease.run(run) if lease is not None else run()
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


async def served(client: Client, kind: Kind, clock: Clock) -> None:
    """Waits if the definition exists already, because a server takes time to serve it."""
    until = clock.monotonic() + SERVED_SECONDS
    while True:
        try:
            await client.call("GET", client.path(kind), {"limit": "1"})
        except NotFound:
            if clock.monotonic() > until or not await _is_defined(client, kind):
                raise NotServed(kind) from None
            await clock.sleep(LOOK_SECONDS)
        else:
            return


async def _is_defined(client: Client, kind: Kind) -> bool:
    try:
        await client.get(sync.DEFINITIONS, f"{kind.plural}.{kind.group}")
    except NotFound:
        return False
    return True


def hosting_at(endpoint: Endpoint) -> Hosting:
    """A kubeconfig of root may name it by its path."""
    url = endpoint.server.rstrip("/").removesuffix(f"/clusters/{ROOT}")
    client = Client(HttpsTransport(url, endpoint.tls), endpoint.token, AGENT, cluster=ROOT)
    return Hosting(client, url, endpoint.authority)


def run_controllers(
    kubeconfig: Path, context: str, hosting: Path | None, wanted: Wanted, ready: Callable[[Controllers], None]
) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> Controllers:
        client = load(kubeconfig, context, agent=AGENT)
        host = hosting_at(load_endpoint(hosting)) if hosting is not None else None
        try:
            running = await Controllers.start(client, wanted, host)
        except BaseException:
            await client.close()
            if host is not None:
                await host.client.close()
            raise
        ready(running)
        return running

    serve(start)
