"""The list of controllers that run beside an API server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.inprocess import InProcessTransport
from shoal.apiserver.pki.cluster_keys import ClusterKeys
from shoal.apiserver.request.info import ROOT
from shoal.assemble.server.controller_health import ControllerHealth
from shoal.assemble.server.limit_conditions import LimitConditions, UsageSource
from shoal.assemble.server.loop_publisher import LoopPublisher
from shoal.assemble.server.loops import HostingServer, LoopContext, new_loop_controllers
from shoal.assemble.server.outside_loops import OutsideLoopMonitor
from shoal.assemble.server.remote_clients import connector_for
from shoal.client.egress import EgressPolicy
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
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import DEFAULT_ENDPOINTS, WATCH_BUS, EndpointSettings, new_supervisor_controllers
from shoal.fleet.join.join_secrets import HubIdentity, JoinSecretReconciler, JoinSecretSettings
from shoal.fleet.workerprocesses.interface import WorkerProcesses
from shoal.kinds.rbac.controller_accounts import GROUPS as CONTROLLER_GROUPS
from shoal.kinds.rbac.controller_accounts import controller_accounts
from shoal.kinds.rbac.controller_accounts import user_name as controller_user_name
from shoal.kinds.rbac.loop_accounts import LOOPS, SERVER_LOOPS
from shoal.kinds.rbac.loop_settings import LoopSettings
from shoal.runtime.informer_store import INFORMER_ACCOUNT
from shoal.runtime.leader_election import LeaderElector
from shoal.runtime.manager import Runnable, run_manager
from shoal.sync.controllers import SyncSettings
from shoal.sync.remote_cluster import NewClient

USER_AGENT = "shoal-loops"
"""The field manager of what controllers write."""


def controller_user(account: str) -> User:
    return User(controller_user_name(account), CONTROLLER_GROUPS, cluster=ROOT, embedded=True)


def new_core_controllers(client: Client, clock: Clock, keys: ClusterKeys) -> list[Runnable]:
    """The controllers of logical clusters, which belong to the process of their server: it has the keys."""
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
    ]


def new_controllers(client: Client, clock: Clock, keys: ClusterKeys, url: str) -> list[Runnable]:
    """The controllers of a server that is no hub. `url` is the address at which clients reach it."""
    hosting = HostingServer(client, url, lambda: keys.server_ca)
    context = LoopContext(client, clock, partial(connector_for, url, client.transport), hosting)
    return [*new_core_controllers(client, clock, keys), *new_loop_controllers(SERVER_LOOPS, context)]


class EmbeddedControllers:
    def __init__(self) -> None:
        self._tokens = {account: secrets.token_urlsafe(32) for account in controller_accounts()}
        """Tokens of the controllers' accounts, valid for the life of this process."""
        self._tasks: list[asyncio.Task[None]] = []
        self.error: Callable[[], str] = lambda: ""
        """Returns the errors of controllers that fail."""

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
        egress: EgressPolicy | None = None,
        limit_usage: UsageSource | None = None,
        outside_loops: frozenset[str] = frozenset(),
        join_secrets: JoinSecretSettings | None = None,
        server_name: Callable[[], str] = lambda: "",
    ) -> None:
        """`is_hub`: the server is a hub, not a worker. `url` is the address at which clients reach it. `lease_identity`
        names this process among several on one store; only the lease holder runs the controllers. `worker_processes`
        are the worker processes of this hub, which nobody else can supervise. `worker_image` is the image of
        bundles; empty: that of the release. `endpoints` are the addresses that a hub gives to clusters.
        `egress` is the policy for kubeconfigs of root. `limit_usage` is what the clusters of the server use.
        `outside_loops` are left to `shoal controllers`. `join_secrets` are kept for workers beside the hub.
        `server_name` is the name in the serving certificate that clients ask for.
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
        self.error = health.error

        sync = sync or SyncSettings()

        def identity() -> HubIdentity:
            return HubIdentity(keys.server_ca, server_name())

        def loop_settings() -> LoopSettings:
            resources, automatic = sync.resources_to_sync, sync.auto_publish
            addresses = url, keys.server_ca, endpoints.host, endpoints.ports
            bus_name = "nats" if bus.is_nats else "watch"
            return LoopSettings(outside_loops, *addresses, sync.mode, resources, automatic, worker_image, bus_name)

        def build_controllers() -> list[Runnable]:
            common = [health, *new_core_controllers(client, clock, keys)]
            if limit_usage is not None:
                common.append(LimitConditions(client.as_controller("cluster-limits"), clock, limit_usage))
            lease_check = lease.is_lease_valid if lease is not None else None

            def connect(user_agent: str) -> NewClient:
                return connector_for(url, transport, user_agent, lease_check, egress)

            hosting = HostingServer(client, url, lambda: keys.server_ca, server_name)
            context = LoopContext(
                client, clock, connect, hosting, sync, bus=bus, endpoints=endpoints, worker_image=worker_image
            )
            if not is_hub:
                return [*common, *new_loop_controllers(SERVER_LOOPS, context)]
            if worker_processes is None:
                supervisor = client.as_controller("worker-process-supervisor")
                common += new_supervisor_controllers(supervisor, clock, None)
            if join_secrets is not None:
                joining = client.as_controller("worker-join-secrets")
                common.append(JoinSecretReconciler(joining, clock, join_secrets, identity).controller)
            loop_accounts = client.as_controller("loop-accounts")
            common.append(LoopPublisher(loop_accounts, clock, loop_settings))
            if outside_loops:
                common.append(OutsideLoopMonitor(loop_accounts, clock, outside_loops, health.report))
            return [*common, *new_loop_controllers((name for name in LOOPS if name not in outside_loops), context)]

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
