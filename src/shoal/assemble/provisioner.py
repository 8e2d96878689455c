"""`shoal provisioner`: nodes for one cluster of any API server, from Machines on it or on another server.

Of several such processes one acts, the holder of a Lease in the cluster. A Shoal server provisions for the clusters it
hosts itself, so it is refused here.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from shoal.assemble.controllers import NotServed, served
from shoal.assemble.health import Health
from shoal.assemble.process import serve
from shoal.assemble.running import run_all
from shoal.assemble.syncer import inside
from shoal.capi.resources import CLUSTERS
from shoal.client.fenced import fenced
from shoal.client.kubeconfig import load
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, SystemClock
from shoal.kinds.own import definition_texts
from shoal.objects.errors import AlreadyExists, NotFound, ShoalError, StoreError
from shoal.provision.clusterapi.provider import DEPLOYMENTS, MACHINES
from shoal.provision.homes import OneHome
from shoal.provision.loops import provision_loops
from shoal.provision.settings import PLANNERS, Settings
from shoal.provision.simulation.model import BEST_EFFORT, IGNORE, RESPECT, STRICT
from shoal.provision.view import CLAIMS, CLASSES, OVERLAYS, POOLS
from shoal.runtime.lease import Lease

__all__ = ["BEST_EFFORT", "IGNORE", "PLANNERS", "RESPECT", "STRICT", "NotServed", "Settings"]

AGENT = "shoal-provisioner"
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    namespace: str
    name: str
    """The Cluster API Cluster whose Machines become the nodes."""
    settings: Settings = field(default_factory=Settings)
    install: bool = False
    """Create CustomResourceDefinitions that the cluster lacks."""
    leader_elect: bool = True
    lease_namespace: str = "kube-system"
    health: tuple[str, int] | None = None
    """The address of /healthz, /readyz and /metrics."""


class NoCluster(ShoalError):
    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(f"there is no Cluster {namespace}/{name} where the Machines are")


class OfShoal(ShoalError):
    hint = "apply a NodePool there; nothing else is to be started"

    def __init__(self) -> None:
        super().__init__("a Shoal server provisions for the clusters it hosts itself")


class Provisioner:
    """Runs from `start` until `stop`."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients
        self.lease: Lease | None = None
        self._task: asyncio.Task[None] | None = None
        self._health: Health | None = None
        self.health_port = 0
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(cls, hosted: Client, management: Client, wanted: Wanted, clock: Clock | None = None) -> Provisioner:
        """`hosted` has pods and nodes, `management` has Machines; they may be the same. `stop` closes both."""
        clock = clock or SystemClock()
        running = cls([hosted] if hosted is management else [hosted, management])
        for client in running._clients:
            client.copies = {}
        if wanted.install:
            await install(hosted)
        for kind in (POOLS, CLAIMS, CLASSES, OVERLAYS):
            await served(hosted, kind, clock)
        for kind in (DEPLOYMENTS, MACHINES):
            await served(management, kind, clock)
        try:
            await management.get(CLUSTERS, wanted.name, wanted.namespace)
        except NotFound:
            raise NoCluster(wanted.namespace, wanted.name) from None
        running._begin(hosted, management, wanted, clock)
        if wanted.health is not None:
            running._health = Health()
            running.health_port = await running._health.start(*wanted.health)
        return running

    def _begin(self, hosted: Client, management: Client, wanted: Wanted, clock: Clock) -> None:
        if wanted.leader_elect:
            identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
            self.lease = Lease(hosted, clock, wanted.lease_namespace, AGENT, identity)
            hosted, management = fenced(hosted, self.lease.is_valid), fenced(management, self.lease.is_valid)
        homes = OneHome(hosted, management, wanted.namespace, wanted.name)

        async def run() -> None:
            await run_all(lambda: provision_loops(hosted, clock, homes, wanted.settings), clock)

        running = self.lease.run(run) if self.lease is not None else run()
        self._task = asyncio.create_task(running, name="provisioner")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        for client in self._clients:
            await client.close()


async def install(client: Client) -> None:
    """Creates missing definitions. Existing ones may be another project's, and newer."""
    for text in definition_texts("cluster"):
        with suppress(AlreadyExists):
            await client.create(DEFINITIONS, yaml.safe_load(text))


async def refuse_shoal(*clients: Client) -> None:
    """Two provisioners for one cluster would undo each other's work."""
    for client in clients:
        version = await client.call("GET", "/version")
        if "+shoal" in str(version.get("gitVersion")):
            raise OfShoal


def run_provisioner(
    kubeconfig: Path | None,
    context: str,
    machines: Path | None,
    machines_context: str,
    wanted: Wanted,
    ready: Callable[[], None],
) -> None:
    """Runs until SIGTERM or SIGINT. Without a kubeconfig, the cluster this process runs in is used; without one for the
    Machines, they are in the same cluster.
    """

    async def start() -> Provisioner:
        hosted = load(kubeconfig, context, agent=AGENT) if kubeconfig is not None else inside()
        management = load(machines, machines_context, agent=AGENT) if machines is not None else hosted
        try:
            await refuse_shoal(hosted, management)
            running = await Provisioner.start(hosted, management, wanted)
        except BaseException:
            await hosted.close()
            await management.close()
            raise
        ready()
        return running

    serve(start)
