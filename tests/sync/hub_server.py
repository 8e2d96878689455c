"""A hub for a single test: a logical cluster with the kinds of root, and sync controllers with the test's settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shoal.assemble.server.remote_clients import connector_for
from shoal.client.rest import Client
from shoal.client.transport import Transport, Unreachable
from shoal.clock import Clock, SystemClock
from shoal.kinds.shoal_crds import shoal_crds
from shoal.sync.controllers import SyncSettings, new_import_controllers, new_syncer_controllers
from tests.faults.processes import Up
from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster

KINDS = ("workload.kcp.dev", "apiresource.kcp.dev", "infrastructure.cluster.x-k8s.io", "clusters.cluster.x-k8s.io")


@contextmanager
def own_hub(server: Server, settings: SyncSettings, clock: Clock | None = None) -> Iterator[Cluster]:
    hub = make_hub(server)
    try:
        with hub_loops(server, hub, settings, clock):
            yield hub
    finally:
        hub.close()


def make_hub(server: Server) -> Cluster:
    hub = fresh_cluster(server)
    for definition in shoal_crds("root"):
        if definition["metadata"]["name"].endswith(KINDS):
            body = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
            hub.post(DEFINITIONS, {**body, "metadata": {"name": definition["metadata"]["name"]}}).ok()
    return hub


@contextmanager
def hub_loops(
    server: Server,
    hub: Cluster,
    settings: SyncSettings,
    clock: Clock | None = None,
    through: Callable[[Transport], Transport] = lambda transport: transport,
) -> Iterator[None]:
    """Running beside the hub, which they reach `through` something."""

    async def start() -> list[asyncio.Task[None]]:
        transport = server.shoal.server.transport()
        client = Client(through(transport), server.token, cluster=hub.name)
        by_https = connector_for("https://elsewhere", transport)
        given = client, clock or SystemClock(), by_https, settings
        loops = [*new_import_controllers(*given), *new_syncer_controllers(*given)]
        return [asyncio.create_task(loop.run(), name=loop.name) for loop in loops]

    async def stop(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    tasks = server.call(start())
    try:
        yield
    finally:
        server.call(stop(tasks))


class Process(Server):
    """A hub in a process of its own, to be killed; on the same data, it is found where it was."""

    def __init__(self, directory: Path) -> None:
        self._up = Up(directory)
        self.port, self.token, self.context = self._up.port, self._up.token, self._up.context
        self.authority = (directory / "pki" / "ca.crt").read_bytes()

    def kill(self) -> None:
        self._up.close()


class Hurried:
    """A clock for which graces pass fast; its wall time jumps where it is told to."""

    def __init__(self, times: float = 20.0) -> None:
        self._times = times
        self.jump = 0.0

    def now(self) -> float:
        return time.time() + self.jump

    def monotonic(self) -> float:
        return time.monotonic() * self._times

    since_boot = monotonic

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._times)


class Forgetful:
    """A transport by which the lists and watches of some paths are never answered."""

    def __init__(self, transport: Transport, *hidden: str) -> None:
        self._transport, self._hidden = transport, hidden

    def _check(self, path: str) -> None:
        if path.endswith(self._hidden):
            raise Unreachable("this is not shown")

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._check(path)
        return await self._transport.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        self._check(path)
        return await self._transport.stream(method, path, query, headers)

    async def close(self) -> None:
        await self._transport.close()
