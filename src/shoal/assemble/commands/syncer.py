"""`shoal syncer`: the syncer of one cluster, in the cluster or anywhere that reaches both it and the hub."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from shoal.assemble.server.health import HealthServer
from shoal.assemble.server.process import run_until_stopped
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import load, load_rest_config, new_client
from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import ShoalError, StoreError
from shoal.runtime.manager import Runnable, run_manager
from shoal.sync.controllers import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.controllers import new_pull_controllers

USER_AGENT = "shoal-syncer"
SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REREAD_SECONDS = 60.0


class NotInCluster(ShoalError):
    hint = "give a kubeconfig: shoal syncer --to-kubeconfig FILE, shoal provisioner --kubeconfig FILE"

    def __init__(self) -> None:
        super().__init__("this process does not run in a cluster, and no kubeconfig was given")


class TokenFileTransport:
    """A transport that rereads its token from a file: in a cluster it is replaced every hour."""

    def __init__(self, transport: Transport, file: Path) -> None:
        self._transport, self._file = transport, file
        self._token, self._read_at = "", 0.0

    def _with_token(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        if not self._token or time.monotonic() - self._read_at > TOKEN_REREAD_SECONDS:
            self._token, self._read_at = self._file.read_text().strip(), time.monotonic()
        return {**headers, "authorization": f"Bearer {self._token}"}

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return await self._transport.request(method, path, query, self._with_token(headers), body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._transport.stream(method, path, query, self._with_token(headers))

    async def close(self) -> None:
        await self._transport.close()


def in_cluster_client(
    service_account_dir: Path = SERVICE_ACCOUNT_DIR, environment: Mapping[str, str] = os.environ
) -> Client:
    """A client of the cluster this process runs in, as its pod's service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (service_account_dir / "token").exists():
        raise NotInCluster
    tls = ssl.create_default_context(cafile=str(service_account_dir / "ca.crt"))
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Client(TokenFileTransport(HttpsTransport(server, tls), service_account_dir / "token"), user_agent=USER_AGENT)


class SyncerProcess:
    """Runs from `start` until `stop`."""

    def __init__(self, hub: Client) -> None:
        self._hub = hub
        self._task: asyncio.Task[None] | None = None
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""
        self._health: HealthServer | None = None

    async def serve_health(self, host: str, port: int) -> int:
        """Returns the port it listens on."""
        self._health = HealthServer()
        return await self._health.start(host, port)

    @classmethod
    async def start(
        cls,
        name: str,
        hub: Client,
        new_local_client: Callable[[], Client],
        resources: tuple[str, ...],
        clock: Clock | None = None,
    ) -> SyncerProcess:
        """`new_local_client` creates a client of the cluster."""
        running, clock = cls(hub), clock or SystemClock()

        def new_controllers() -> list[Runnable]:
            return [*new_pull_controllers(name, hub, new_local_client, clock, resources)]

        running._task = asyncio.create_task(run_manager(new_controllers(), clock), name=f"syncer of {name}")
        return running

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        await self._hub.close()


def run_syncer(
    hub_kubeconfig: Path,
    cluster_kubeconfig: Path | None,
    context: str,
    name: str,
    resources: tuple[str, ...],
    on_ready: Callable[[], None],
    health_address: tuple[str, int] | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> SyncerProcess:
        if cluster_kubeconfig is None:
            in_cluster_client()  # raises configuration errors now
            new_local_client: Callable[[], Client] = in_cluster_client
        else:
            endpoint = load_rest_config(cluster_kubeconfig, context)

            def new_local_client() -> Client:
                return new_client(endpoint, USER_AGENT)

        running = await SyncerProcess.start(
            name, load(hub_kubeconfig, user_agent=USER_AGENT), new_local_client, resources
        )
        if health_address is not None:
            await running.serve_health(*health_address)
        on_ready()
        return running

    run_until_stopped(start)
