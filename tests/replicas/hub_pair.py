"""Two hubs on one etcd and a worker whose tunnel the test gives to one of them, all in this event loop."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from shoal.assemble.server.api_server import worker_user
from shoal.assemble.server.hub import ShoalServer, ShoalServerSettings, StoreSettings
from shoal.assemble.server.worker import WorkerServer, worker_server_settings
from shoal.client.https import HttpsTransport
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig, Unreachable
from shoal.clock import SystemClock
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS
from shoal.fleet.tunnel import hub_dialer
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.endpoint import PortRange
from shoal.kinds.versions import KUBERNETES_VERSION
from shoal.objects.errors import NotFound
from shoal.objects.wire import ByteStream, Receiver
from tests.serving_ports import trust

Object = dict[str, Any]
T = TypeVar("T")

PATIENCE = 60.0
SECRETS = GroupVersionResource("", "v1", "secrets")
WORKER = "w1"
WORKER_TOKEN = "token of w1"
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two machines would be one port each: a cluster has the same port at both."""


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.02)


class HubPair:
    """Hub 0 has the controllers. Hub 1 may be stopped."""

    def __init__(self, hubs: list[ShoalServer]) -> None:
        self.hubs = hubs
        self.client = hubs[0].client("test")
        self.tls = ssl.create_default_context(cadata=hubs[0].server.authority.certificate.decode())
        self.connect_to: int | None = None
        """The hub that the worker dials."""
        self.worker: WorkerServer | None = None
        self.token = ""
        self._clients: list[Client] = []

    def url(self, hub: int) -> str:
        return f"https://{HOSTS[hub]}:{self.hubs[hub].server.port}"

    async def start_worker(self, directory: Path) -> None:
        shoal = await ShoalServer.start(worker_server_settings(directory))
        for each in self.hubs:
            each.server.core.authenticator.add_static_token(WORKER_TOKEN, worker_user(WORKER))
        hub = self.hubs[0].server
        client = Client(hub.transport(), WORKER_TOKEN, user_agent="shoal-worker", cluster="root")
        settings = WorkerSettings(
            WORKER, 10, "", KUBERNETES_VERSION, hub.url, hub.authority.certificate.decode(), hub.server_name
        )
        self.worker = await WorkerServer.start(shoal, settings, client, self._dial, SystemClock())

    async def _dial(self, start: Callable[[ByteStream], Receiver]) -> None:
        if self.connect_to is None:
            raise Unreachable("the test has not chosen a hub")
        await hub_dialer(RESTConfig(self.url(self.connect_to), self.tls, WORKER_TOKEN), WORKER)(start)

    async def connect(self, hub: int) -> None:
        """Gives the worker's tunnel to that hub."""
        before, self.connect_to = self.connect_to, hub
        if before is not None and before != hub:
            self.hubs[before].tunnels.disconnect(WORKER)
        await self.until_hub(self.url(hub))

    async def until_hub(self, url: str) -> None:
        """Until all hubs see that the worker is connected to that one."""

        async def is_recorded() -> bool:
            try:
                lease = await self.client.get(LEASES, infrav1.lease_name(WORKER), infrav1.NAMESPACE)
            except NotFound:
                return False
            return infrav1.tunnel_hub(lease) == url

        await eventually(is_recorded)
        # A read at a hub is not older than the answer of the other one.
        for hub in self.hubs:
            await hub.client("test").get(LEASES, infrav1.lease_name(WORKER), infrav1.NAMESPACE)

    async def create_east(self) -> int:
        """Creates a cluster with a port, and returns that."""
        spec = {"nodes": 0, "register": False, "endpoint": {"type": "Port"}}
        obj = {"apiVersion": infrav1.API_VERSION, "kind": "ManagedCluster", "metadata": {"name": "east"}, "spec": spec}
        await self.client.create(MANAGED_CLUSTERS, obj, "default")

        async def running() -> Object | None:
            status: Object = (await self.client.get(MANAGED_CLUSTERS, "east", "default")).get("status") or {}
            return status if status.get("phase") == "Running" and status.get("endpoint") else None

        status = await eventually(running)
        secret = await self.client.get(SECRETS, "east-kubeconfig", "default")
        text = base64.b64decode(secret["data"]["value"]).decode()
        self.token = text.partition("token: ")[2].split()[0].strip("\"'")
        port = int(status["endpoint"]["port"])

        async def listening() -> bool:
            return all(hub.cluster_ports is not None and hub.cluster_ports.is_listening(port) for hub in self.hubs)

        await eventually(listening)
        return port

    def east(self, hub: int, token: str = "") -> Client:
        """A client of the cluster at its path of that hub."""
        address = f"{self.url(hub)}/managedclusters/default/east"
        self._clients.append(Client(HttpsTransport(address, self.tls), token or self.token))
        return self._clients[-1]

    async def cluster_tls(self) -> ssl.SSLContext:
        assert self.worker is not None
        return trust(await self.worker.shoal.server.core.keys.ensure_root_ca("default.east"))

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        if self.worker is not None:
            await self.worker.stop()
        for hub in self.hubs:
            await hub.stop()


@asynccontextmanager
async def hub_pair(directory: Path, store: StoreSettings, ports: PortRange) -> AsyncIterator[HubPair]:
    hubs = [
        await ShoalServer.start(
            ShoalServerSettings(
                directory / f"hub-{number}",
                host,
                0,
                store=store,
                advertise_address=HOSTS[0],
                cluster_ports=ports,
            )
        )
        for number, host in enumerate(HOSTS)
    ]
    pair = HubPair(hubs)
    try:
        await ensure_worker_namespace(pair.client)
        await pair.start_worker(directory / "worker")
        yield pair
    finally:
        await pair.close()
