"""A hub and a worker: two servers with their own stores and certificate authorities, on loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.routes import hub_routes
from shoal.client.https import HttpsTransport
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig
from shoal.clock import SystemClock
from shoal.dashboard import Dashboard
from shoal.fleet.tunnel import TunnelRegistry, hub_dialer, new_tunnel_agent
from shoal.fleet.tunnel.agent import no_hub_requests
from shoal.fleet.tunnel.paths import HostedPath
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.fleet.tunnel.worker_end import WorkerTunnel
from shoal.objects.wire import ByteStream, Handler, Receiver
from shoal.store.sqlite import SqliteStore
from tests.fleet.tunnel.socket_pair import until

Object = dict[str, Any]

SPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
CLUSTERS = GroupVersionResource("core.shoal.dev", "v1alpha1", "logicalclusters", namespaced=False)
MANAGED = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "managedclusters")
RBAC = ("rbac.authorization.k8s.io", "v1")
ROLES, BINDINGS = GroupVersionResource(*RBAC, "roles"), GroupVersionResource(*RBAC, "rolebindings")

RULE = {
    "apiGroups": ["infrastructure.cluster.x-k8s.io"],
    "resources": ["workers/tunnel"],
    "resourceNames": ["w1"],
    "verbs": ["create"],
}


class Fleet:
    def __init__(self, hub: ApiServer, worker: ApiServer, tunnels: TunnelRegistry) -> None:
        self.hub, self.worker, self.tunnels = hub, worker, tunnels
        self.tls = ssl.create_default_context(cadata=hub.authority.certificate.decode())
        self.address = f"{hub.url}/managedclusters/default/east"
        self.worker_tunnels: list[WorkerTunnel] = []
        """The worker's ends of the tunnels that it has dialled."""
        self._clients: list[Client] = []
        self._tasks: list[asyncio.Task[None]] = []

    def client(self, server: str, token: str, tls: ssl.SSLContext | None = None) -> Client:
        self._clients.append(Client(HttpsTransport(server, tls or self.tls), token))
        return self._clients[-1]

    @property
    def admin(self) -> Client:
        return self.client(self.hub.url, "hub-admin")

    @property
    def east(self) -> Client:
        """As somebody with the hosted cluster's kubeconfig."""
        return self.client(self.address, "east-admin")

    async def connect(self, token: str = "w1-token", hub_requests: Handler = no_hub_requests) -> asyncio.Task[None]:
        hub_dial = hub_dialer(RESTConfig(self.hub.url, self.tls, token), "w1")

        async def dial(start: Callable[[ByteStream], Receiver]) -> None:
            self.worker_tunnels.append(start.__self__)  # type: ignore[attr-defined]
            await hub_dial(start)

        server = new_tunnel_agent(
            dial,
            self.worker.app.handle,
            SystemClock(),
            "w1",
            connector=self.connect_hosted,
            hub_requests=hub_requests,
        )
        self._tasks.append(asyncio.create_task(server.run()))
        await until(lambda: self.tunnels.connected_workers() == ["w1"])
        return self._tasks[-1]

    async def connect_hosted(self, target: HostedPath) -> SocketHandler:
        return await self.worker.cluster_addresses.socket_handler(target.logical_cluster)

    async def assign(self, worker: str) -> None:
        patch = {"status": {"assignedWorker": worker}}
        await self.admin.merge_patch(MANAGED, "east", patch, "default", "status")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def server(directory: Path, **settings: Any) -> AsyncIterator[ApiServer]:
    store = await SqliteStore.open(directory)
    made = await ApiServer.start(
        ApiServerSettings(directory / "pki", certificate_names=("localhost",), shutdown_timeout=5.0, **settings), store
    )
    try:
        yield made
    finally:
        await made.stop()
        await store.close()


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    for name in ("hub", "worker"):
        (tmp_path / name).mkdir()
    tunnels = TunnelRegistry()
    hub_tokens = {"hub-admin": admin_user(), "w1-token": User("system:shoal:worker:w1", ()), "bob": User("bob", ())}
    east = User("east-admin", ("system:masters",), cluster="default.east")
    worker_tokens = {
        "worker-admin": admin_user(),
        "east-admin": east,
        "jane": User("jane", (), cluster=east.cluster),
    }
    routes = hub_routes(tunnels, tmp_path / "hub" / "pki" / "ca.crt", Dashboard())
    async with (
        server(tmp_path / "hub", tokens=hub_tokens, routes=routes) as hub,
        server(tmp_path / "worker", tokens=worker_tokens) as worker,
    ):
        made = Fleet(hub, worker, tunnels)
        try:
            await prepare(made)
            yield made
        finally:
            await made.close()


def typed(api: str, kind: str, name: str, **fields: object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


async def prepare(fleet: Fleet) -> None:
    admin, rbac = fleet.admin, "rbac.authorization.k8s.io"
    await admin.create(SPACES, typed("v1", "Namespace", "shoal-system"))
    await admin.create(ROLES, typed(f"{rbac}/v1", "Role", "w1", rules=[RULE]), "shoal-system")
    subject = {"kind": "User", "name": "system:shoal:worker:w1", "apiGroup": rbac}
    role = {"kind": "Role", "name": "w1", "apiGroup": rbac}
    binding = typed(f"{rbac}/v1", "RoleBinding", "w1", subjects=[subject], roleRef=role)
    await admin.create(BINDINGS, binding, "shoal-system")
    api = "infrastructure.cluster.x-k8s.io/v1alpha1"
    await admin.create(MANAGED, typed(api, "ManagedCluster", "east", spec={}), "default")
    hosted = typed("core.shoal.dev/v1alpha1", "LogicalCluster", "default.east", spec={"profile": "cluster"})
    await Client(fleet.worker.transport(), "worker-admin").create(CLUSTERS, hosted)
    await fleet.assign("w1")
