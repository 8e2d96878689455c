"""The list of controllers that run beside an API server."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.inprocess import InProcessTransport
from shoal.apiserver.pki.cluster_keys import ClusterKeys
from shoal.apiserver.request.info import ROOT
from shoal.assemble.server.controller_health import ControllerHealth
from shoal.assemble.server.remote_clients import connector_for
from shoal.capi.controllers import new_capi_controllers
from shoal.capi.providers.embedded.controllers import embedded_provider
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controllers import KindSettings, kind_provider, new_kind_controllers
from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.clock import Clock, SystemClock
from shoal.controlplane.clusterroleaggregation.controller import new_cluster_role_aggregation_controller
from shoal.controlplane.controllers import new_workload_controllers
from shoal.controlplane.crdfinalizer.controller import new_crd_finalizer_controller
from shoal.controlplane.csrsigning.controller import new_csr_signing_controller
from shoal.controlplane.eventttl.controller import EventTTLController
from shoal.controlplane.flowschemas.controller import new_flow_schema_controller
from shoal.controlplane.garbagecollector.controller import new_garbage_collector
from shoal.controlplane.keyrotation.controller import RotatableKeys, new_key_rotation_controller
from shoal.controlplane.logicalclusters.controller import new_logical_cluster_controller
from shoal.controlplane.namespaces.controller import new_namespace_controller
from shoal.controlplane.node_controllers import new_node_controllers
from shoal.controlplane.resourcequota.controller import ResourceQuotaController
from shoal.controlplane.scheduler.controller import new_scheduler_controllers
from shoal.controlplane.serviceaccounts.controller import new_service_account_controllers
from shoal.fleet.bundle.controller import BundleSettings, new_bundle_controllers
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import (
    DEFAULT_ENDPOINTS,
    WATCH_BUS,
    EndpointSettings,
    new_hub_controllers,
    new_supervisor_controllers,
)
from shoal.fleet.workerprocesses.interface import WorkerProcesses
from shoal.kinds.rbac.controller_accounts import GROUPS as CONTROLLER_GROUPS
from shoal.kinds.rbac.controller_accounts import controller_accounts
from shoal.kinds.rbac.controller_accounts import user_name as controller_user_name
from shoal.placement.splitter.controller import new_splitter_controllers
from shoal.placement.splitter.events import new_event_controller
from shoal.provision.controllers import new_provision_controllers
from shoal.runtime.informer_store import INFORMER_ACCOUNT
from shoal.runtime.leader_election import LeaderElector
from shoal.runtime.manager import Runnable, run_manager
from shoal.sync.controllers import SyncSettings, new_sync_controllers
from shoal.sync.remote_cluster import NewClient

USER_AGENT = "shoal-loops"
"""The field manager of what controllers write."""


def controller_user(account: str) -> User:
    return User(controller_user_name(account), CONTROLLER_GROUPS, cluster=ROOT, embedded=True)


def new_controllers(client: Client, clock: Clock, keys: ClusterKeys, url: str) -> list[Runnable]:
    """`url` is the address at which clients reach the server."""
    embedded = embedded_provider(client.as_controller("embedded-provider"), url, lambda: keys.server_ca)
    return [
        new_namespace_controller(client.as_controller("namespace-controller"), clock),
        new_crd_finalizer_controller(client.as_controller("crd-finalizer"), clock),
        new_logical_cluster_controller(client.as_controller("logicalcluster-controller"), clock),
        new_garbage_collector(client.as_controller("generic-garbage-collector"), clock),
        *new_service_account_controllers(client, clock, keys.ensure_root_ca),
        new_cluster_role_aggregation_controller(client.as_controller("clusterrole-aggregation-controller"), clock),
        new_flow_schema_controller(client.as_controller("flowschema-controller"), clock),
        new_csr_signing_controller(client.as_controller("certificate-controller"), clock, keys.sign_request),
        new_key_rotation_controller(
            client.as_controller("key-rotation"),
            clock,
            RotatableKeys(keys.generation, keys.has_former, keys.rotate, keys.drop_former),
        ),
        EventTTLController(client.as_controller("event-ttl-controller"), clock),
        ResourceQuotaController(client.as_controller("resourcequota-controller"), clock),
        *new_workload_controllers(client, clock),
        *new_scheduler_controllers(client, clock),
        *new_node_controllers(client, clock),
        *new_capi_controllers(client.as_controller("cluster-api"), clock, embedded, kind_provider),
        *new_kind_controllers(client.as_controller("kind-provider"), clock, KindSettings(), KindCommand()),
        *new_provision_controllers(client.as_controller("karpenter"), clock),
    ]


def new_multicluster_controllers(
    client: Client,
    clock: Clock,
    connect: NewClient,
    bus: BusSettings = WATCH_BUS,
    sync: SyncSettings | None = None,
    endpoints: EndpointSettings = DEFAULT_ENDPOINTS,
) -> list[Runnable]:
    """The controllers that run beside a hub's server and not beside a worker's."""
    return [
        *new_hub_controllers(client, clock, bus, endpoints),
        *new_sync_controllers(client, clock, connect, sync or SyncSettings()),
        *new_splitter_controllers(client.as_controller("splitter"), clock),
        new_event_controller(client.as_controller("event-recorder"), clock),
    ]


class EmbeddedControllers:
    def __init__(self) -> None:
        self._tokens = {account: secrets.token_urlsafe(32) for account in controller_accounts()}
        """Tokens of the controllers' accounts, valid for the life of this process."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def tokens(self) -> dict[str, User]:
        """The users of the controllers, by token."""
        return {token: controller_user(account) for account, token in self._tokens.items()}

    def client(self, transport: Transport, account: str) -> Client:
        """A client of root with the account. `as_controller` of the client gives clients with other accounts."""
        client = Client(transport, self._tokens[account], user_agent=USER_AGENT, cluster="root")
        client.token_source = self._tokens.__getitem__
        return client

    def start(
        self,
        transport: Transport,
        keys: ClusterKeys,
        clock: Clock | None = None,
        *,
        lease_identity: str = "",
        is_hub: bool = True,
        url: str = "https://127.0.0.1:6443",
        bus: BusSettings = WATCH_BUS,
        sync: SyncSettings | None = None,
        worker_processes: WorkerProcesses | None = None,
        worker_image: str = "",
        endpoints: EndpointSettings = DEFAULT_ENDPOINTS,
    ) -> None:
        """`is_hub`: the server is a hub, not a worker. `url` is the address at which clients reach it. `lease_identity`
        names this process among several on one store; only the lease holder runs the controllers. `worker_processes`
        are the worker processes of this hub, which nobody else can supervise. `worker_image` is the image of
        bundles; empty: that of the release. `endpoints` are the addresses that a hub gives to clusters.
        """
        clock = clock or SystemClock()
        lease: LeaderElector | None = None
        supervisor_client = self.client(transport, "worker-process-supervisor")
        if lease_identity:
            lease = LeaderElector(
                self.client(transport, "leader-election"), clock, "kube-system", "shoal-loops", lease_identity
            )
            assert isinstance(transport, InProcessTransport), "a lease fences writes of this server only"
            transport = transport.with_fence(lease.is_lease_valid)
        client = self.client(transport, INFORMER_ACCOUNT)
        client.informers = {}

        health = ControllerHealth(client.as_controller("controller-health"), clock)

        def build_controllers() -> list[Runnable]:
            common = [health, *new_controllers(client, clock, keys, url)]
            if not is_hub:
                return common
            connect = partial(
                connector_for, url, transport, lease_check=lease.is_lease_valid if lease is not None else None
            )
            hub_only = new_multicluster_controllers(client, clock, connect(), bus, sync, endpoints)
            bundles = BundleSettings(url, keys.server_ca, worker_image)
            hub_only += new_bundle_controllers(
                client.as_controller("worker-bundle"), clock, connect("shoal-bundle"), bundles
            )
            return [
                *common,
                *hub_only,
                *(
                    new_supervisor_controllers(client.as_controller("worker-process-supervisor"), clock, None)
                    if worker_processes is None
                    else ()
                ),
            ]

        async def run_controllers() -> None:
            await run_manager(build_controllers(), clock, health.report)

        if lease is not None:
            self._tasks.append(asyncio.create_task(lease.run(run_controllers), name="lease"))
        else:
            self._tasks.append(asyncio.create_task(run_controllers(), name="loops"))
        if worker_processes is not None:
            supervisor_client.informers = client.informers
            supervision = run_manager(new_supervisor_controllers(supervisor_client, clock, worker_processes), clock)
            self._tasks.append(asyncio.create_task(supervision, name="worker processes"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
