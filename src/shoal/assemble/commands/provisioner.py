"""`shoal provisioner`: nodes for one cluster of any API server, from Machines on it or on another server.

Of several such processes one acts, the holder of a Lease in the cluster. A Shoal server provisions for the clusters it
hosts itself, so these are refused here. It may have the Machines of a cluster that is hosted elsewhere.
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

from shoal.assemble.commands.controllers import NotServed, wait_until_served
from shoal.assemble.in_cluster import in_cluster_client
from shoal.assemble.server.health import HealthServer
from shoal.assemble.server.process import run_until_stopped
from shoal.capi.informers import CLUSTERS
from shoal.client.fencing import fence_client
from shoal.client.kubeconfig import load
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, SystemClock
from shoal.kinds.clusterapi import embedded
from shoal.kinds.shoal_crds import crd_manifests
from shoal.objects.errors import AlreadyExists, NotFound, ShoalError, StoreError
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS, MACHINES
from shoal.provision.controllers import new_provision_controllers
from shoal.provision.management import SingleCluster
from shoal.provision.settings import PLANNERS, ProvisionerSettings
from shoal.provision.simulation.model import BEST_EFFORT, IGNORE, RESPECT, STRICT
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS
from shoal.runtime.leader_election import LeaderElector
from shoal.runtime.manager import run_manager

__all__ = ["BEST_EFFORT", "IGNORE", "PLANNERS", "RESPECT", "STRICT", "NotServed", "ProvisionerSettings"]

USER_AGENT = "shoal-provisioner"
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)


@dataclass(frozen=True, slots=True)
class ProvisionerConfig:
    namespace: str
    name: str
    """The Cluster API Cluster whose Machines become the nodes."""
    settings: ProvisionerSettings = field(default_factory=ProvisionerSettings)
    install_crds: bool = False
    """Create CustomResourceDefinitions that the cluster lacks."""
    leader_elect: bool = True
    lease_namespace: str = "kube-system"
    health_address: tuple[str, int] | None = None
    """The address of /healthz, /readyz and /metrics."""


class ClusterNotFound(ShoalError):
    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(f"there is no Cluster {namespace}/{name} in the management cluster")


class ProvisionedByShoal(ShoalError):
    hint = "apply a NodePool in that cluster; no separate provisioner is needed"

    def __init__(self, subject: str) -> None:
        super().__init__(f"{subject} is hosted by a Shoal server, which provisions its nodes")


class ProvisionerProcess:
    """Runs from `start` until `stop`."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients
        self.lease: LeaderElector | None = None
        self._task: asyncio.Task[None] | None = None
        self._health: HealthServer | None = None
        self.health_port = 0
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""

    @classmethod
    async def start(
        cls, hosted: Client, management: Client, config: ProvisionerConfig, clock: Clock | None = None
    ) -> ProvisionerProcess:
        """`hosted` has pods and nodes, `management` has Machines; they may be the same. `stop` closes both."""
        clock = clock or SystemClock()
        running = cls([hosted] if hosted is management else [hosted, management])
        for client in running._clients:
            client.informers = {}
        if config.install_crds:
            await install_missing_crds(hosted)
        for kind in (NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS):
            await wait_until_served(hosted, kind, clock)
        for kind in (MACHINE_DEPLOYMENTS, MACHINES):
            await wait_until_served(management, kind, clock)
        try:
            await management.get(CLUSTERS, config.name, config.namespace)
        except NotFound:
            raise ClusterNotFound(config.namespace, config.name) from None
        running._start_controllers(hosted, management, config, clock)
        if config.health_address is not None:
            running._health = HealthServer()
            running.health_port = await running._health.start(*config.health_address)
        return running

    def _start_controllers(self, hosted: Client, management: Client, config: ProvisionerConfig, clock: Clock) -> None:
        if config.leader_elect:
            identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
            self.lease = LeaderElector(hosted, clock, config.lease_namespace, USER_AGENT, identity)
            hosted, management = (
                fence_client(hosted, self.lease.is_lease_valid),
                fence_client(management, self.lease.is_lease_valid),
            )
        management_resolver = SingleCluster(hosted, management, config.namespace, config.name)

        async def run_controllers() -> None:
            await run_manager(new_provision_controllers(hosted, clock, management_resolver, config.settings), clock)

        running = self.lease.run(run_controllers) if self.lease is not None else run_controllers()
        self._task = asyncio.create_task(running, name="provisioner")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        for client in self._clients:
            await client.close()


async def install_missing_crds(client: Client) -> None:
    """Creates missing definitions. Existing ones may be another project's, and newer."""
    for text in crd_manifests("cluster"):
        with suppress(AlreadyExists):
            await client.create(CRDS, yaml.safe_load(text))


async def reject_hosted_cluster(hosted: Client, management: Client, config: ProvisionerConfig) -> None:
    """Two provisioners for one cluster would undo each other's work. A cluster of a Shoal server has one if it belongs
    to an EmbeddedCluster: its administrator's account is there, and its Cluster refers to it.
    """
    if await _is_shoal_server(hosted):
        with suppress(NotFound):
            await hosted.get(SERVICE_ACCOUNTS, embedded.ADMIN_SERVICE_ACCOUNT, embedded.ADMIN_NAMESPACE)
            raise ProvisionedByShoal("the cluster with the pods")
    if await _is_shoal_server(management):
        try:
            cluster = await management.get(CLUSTERS, config.name, config.namespace)
        except NotFound:
            raise ClusterNotFound(config.namespace, config.name) from None
        reference = (cluster.get("spec") or {}).get("infrastructureRef") or {}
        if (reference.get("apiGroup"), reference.get("kind")) == (embedded.GROUP, embedded.CLUSTER):
            raise ProvisionedByShoal(f"Cluster {config.namespace}/{config.name}")


async def _is_shoal_server(client: Client) -> bool:
    version = await client.request("GET", "/version")
    return "+shoal" in str(version.get("gitVersion"))


def run_provisioner(
    kubeconfig: Path | None,
    context: str,
    machines_kubeconfig: Path | None,
    machines_context: str,
    config: ProvisionerConfig,
    on_ready: Callable[[], None],
) -> None:
    """Runs until SIGTERM or SIGINT. Without a kubeconfig, the cluster this process runs in is used; without one for the
    Machines, they are in the same cluster.
    """

    async def start() -> ProvisionerProcess:
        if kubeconfig is not None:
            hosted = load(kubeconfig, context, user_agent=USER_AGENT)
        else:
            hosted = in_cluster_client(USER_AGENT)
        management = (
            load(machines_kubeconfig, machines_context, user_agent=USER_AGENT)
            if machines_kubeconfig is not None
            else hosted
        )
        try:
            await reject_hosted_cluster(hosted, management, config)
            running = await ProvisionerProcess.start(hosted, management, config)
        except BaseException:
            await hosted.close()
            await management.close()
            raise
        on_ready()
        return running

    run_until_stopped(start)
