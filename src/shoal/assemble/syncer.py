"""`shoal syncer`: the syncer of one cluster, in the cluster or anywhere that reaches both it and the hub."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from shoal.assemble.health import Health
from shoal.assemble.process import serve
from shoal.assemble.running import Runnable, run_all
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import client_to, load, load_endpoint
from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.clock import Clock, SystemClock
from shoal.objects.errors import ShoalError, StoreError
from shoal.sync.loops import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.sync.loops import pull_loops

AGENT = "shoal-syncer"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_SECONDS = 60.0


class NotInACluster(ShoalError):
    hint = "name one: shoal syncer --to-kubeconfig FILE, shoal provisioner --kubeconfig FILE"

    def __init__(self) -> None:
        super().__init__("this process does not run in a cluster, and no other is named")


class FromFile:
    """A transport that rereads its token from a file: in a cluster it is replaced every hour."""

    def __init__(self, transport: Transport, file: Path) -> None:
        self._transport, self._file = transport, file
        self._token, self._read = "", 0.0

    def _with_token(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        if not self._token or time.monotonic() - self._read > REREAD_SECONDS:
            self._token, self._read = self._file.read_text().strip(), time.monotonic()
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


def inside(account: Path = ACCOUNT, environment: Mapping[str, str] = os.environ) -> Client:
    """A client of the cluster this process runs in, as its pod's service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").exists():
        raise NotInACluster
    trusted = ssl.create_default_context(cafile=str(account / "ca.crt"))
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Client(FromFile(HttpsTransport(server, trusted), account / "token"), agent=AGENT)


class PullProcess:
    """Runs from `start` until `stop`."""

    def __init__(self, hub: Client) -> None:
        self._hub = hub
        self._task: asyncio.Task[None] | None = None
        self.failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Never resolves: there is no store."""
        self._health: Health | None = None

    async def serve_health(self, host: str, port: int) -> int:
        """Returns the port it listens on."""
        self._health = Health()
        return await self._health.start(host, port)

    @classmethod
    async def start(
        cls,
        name: str,
        hub: Client,
        local: Callable[[], Client],
        resources: tuple[str, ...],
        clock: Clock | None = None,
    ) -> PullProcess:
        """`new_local_client` creates a client of the cluster."""
        running, clock = cls(hub), clock or SystemClock()

        def loops() -> list[Runnable]:
            return [*pull_loops(name, hub, local, clock, resources)]

        running._task = asyncio.create_task(run_all(loops, clock), name=f"syncer of {name}")
        return running

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._health is not None:
            await self._health.stop()
        await self._hub.close()


def run_syncer(
    hub: Path,
    cluster: Path | None,
    context: str,
    name: str,
    resources: tuple[str, ...],
    ready: Callable[[], None],
    health: tuple[str, int] | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT."""

    async def start() -> PullProcess:
        if cluster is None:
            inside()  # raises configuration errors now
            local: Callable[[], Client] = inside
        else:
            endpoint = load_endpoint(cluster, context)

            def local() -> Client:
                return client_to(endpoint, AGENT)

        running = await PullProcess.start(name, load(hub, agent=AGENT), local, resources)
        if health is not None:
            await running.serve_health(*health)
        ready()
        return running

    serve(start)
