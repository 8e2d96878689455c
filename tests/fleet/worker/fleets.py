"""A hub and its workers in this event loop, each a whole server with all its controllers; the test plays the hub's
migrations.

A worker reaches its hub through a `Line`, which a test can cut: then neither receives anything from the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from shoal.assemble.server.api_server import worker_user
from shoal.assemble.server.hosted_storage import HostedClusterStorage
from shoal.assemble.server.shoal_server import ShoalServer, ShoalServerSettings
from shoal.assemble.server.worker import WorkerServer, worker_server_settings
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Transport, Unreachable
from shoal.clock import SystemClock
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.fleet.resources import WORKERS as WORKERS
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import cluster_log, migration
from shoal.objects.errors import Conflict, NotFound, StatusError

Object = dict[str, Any]
T = TypeVar("T")

LOOKS = 12_000
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS = GroupVersionResource("", "v1", "pods")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
MACHINES = GroupVersionResource("cluster.x-k8s.io", "v1beta2", "machines")


class Line:
    """A transport that can be cut: what is under way ends, and nothing more comes through."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._cut = asyncio.Event()

    def cut(self) -> None:
        self._cut.set()

    def mend(self) -> None:
        self._cut = asyncio.Event()

    async def _until_cut(self, work: Awaitable[T]) -> T:
        cut = asyncio.ensure_future(self._cut.wait())
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((cut, task), return_when=asyncio.FIRST_COMPLETED)
            if cut.done():
                raise Unreachable("the line is cut")
            return task.result()
        finally:
            cut.cancel()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return await self._until_cut(self._transport.request(method, path, query, headers, body))

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        status, pieces = await self._until_cut(self._transport.stream(method, path, query, headers))
        return status, self._pieces(pieces)

    async def _pieces(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            while True:
                yield await self._until_cut(anext(pieces))
        except StopAsyncIteration:
            return
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        await self._transport.close()


class Shift:
    """The system's time, and what a test adds to it."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.added = 0.0

    def now(self) -> float:
        return self._clock.now() + self.added

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.added

    since_boot = monotonic

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class Fleet:
    def __init__(self, directory: Path, hub: ShoalServer) -> None:
        self._directory, self.hub_server = directory, hub
        self.hub = hub.client("test")
        self.workers: dict[str, WorkerServer] = {}
        self.lines: dict[str, Line] = {}
        self.clocks: dict[str, Shift] = {}

    async def start(self, name: str, *, cut: bool = False) -> WorkerServer:
        """On what it left there, if it was there before. `cut`: it does not reach the hub."""
        clock = self.clocks.setdefault(name, Shift())
        own = worker_server_settings(self._directory / name)
        shoal = await ShoalServer.start(
            ShoalServerSettings(own.data_dir, own.host, own.port, is_hub=False, clock=clock)
        )
        hub = self.hub_server
        token = f"worker-{name}"
        hub.server.core.authenticator.add_static_token(token, worker_user(name))
        line = self.lines[name] = Line(hub.server.transport())
        if cut:
            line.cut()
        client = Client(line, token, user_agent="shoal-worker", cluster="root")
        authority = hub.server.authority.certificate.decode()
        settings = WorkerSettings(name, 10, "", "v1.36.4", hub.server.url, authority)
        worker = self.workers[name] = await WorkerServer.start(shoal, settings, client, hub.tunnels, clock)
        return worker

    async def stop(self, name: str) -> None:
        await self.workers.pop(name).stop()

    def root(self, name: str) -> Client:
        return self.workers[name].shoal.client("test")

    def inside(self, name: str, cluster: str = "default.east") -> Client:
        """The hosted cluster at that worker, as its administrator."""
        return self.root(name).in_cluster(cluster)

    async def get(self, name: str = "east") -> Object:
        return await self.hub.get(MANAGED_CLUSTERS, name, "default")

    async def create(self, worker: str, name: str = "east", **spec: Any) -> Object:
        """On that worker, as soon as it runs."""
        body = {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "ManagedCluster",
            "metadata": {"name": name},
            "spec": {"workerSelector": {"matchLabels": {"name": worker}}, **spec},
        }
        await self.label(worker)
        await self.hub.create(MANAGED_CLUSTERS, body, "default")
        return await self.until(lambda obj: phase(obj) == "Running", name)

    async def label(self, worker: str) -> None:
        async def labelled() -> bool:
            try:
                await self.hub.merge_patch(WORKERS, worker, {"metadata": {"labels": {"name": worker}}}, "shoal-system")
            except NotFound:
                return False
            return True

        await eventually(labelled)

    async def until(self, look: Callable[[Object], Any], name: str = "east") -> Object:
        async def found() -> Object | None:
            obj = await self.get(name)
            return obj if look(obj) else None

        return await eventually(found)

    async def change(self, change: Callable[[Object], Object], name: str = "east") -> Object:
        """The status, as the hub writes it."""
        while True:
            managed = await self.get(name)
            try:
                return await self.hub.update(MANAGED_CLUSTERS, {**managed, "status": change(managed)}, "status")
            except Conflict:
                continue

    async def move(self, to: str, name: str = "east") -> Object:
        return await self.change(lambda managed: given(managed, to), name)

    async def segments(self, name: str = "east") -> list[str]:
        """The Secrets of its log, which is also that of an earlier one of the name."""
        found, _ = await self.hub.list_all(SECRETS, cluster_log.NAMESPACE, labels=cluster_log.SECRET_TYPE)
        return sorted(each["metadata"]["name"] for each in found if f".{name}." in each["metadata"]["name"])

    async def log_key(self, epoch: int = 1, name: str = "east") -> cluster_log.LogKey:
        return cluster_log.LogKey("default", name, (await self.get(name))["metadata"]["uid"], epoch)

    async def backed_up(self, worker: str, name: str = "east") -> Object:
        """As soon as all there is at that worker is in the log."""
        hosted = f"default.{name}"
        data = self.workers[worker].shoal.cluster_moves.storage  # type: ignore[union-attr]
        assert isinstance(data, HostedClusterStorage)
        # What was deleted last is seen by what comes after it.
        mark = config_map(f"mark-{data.revision}")
        await self.inside(worker, hosted).create(CONFIG_MAPS, mark, "default")

        async def shipped() -> Object | None:
            managed = await self.get(name)
            said, newest = (
                migration.backup_status(managed),
                max(revision for _, revision in data._stored_entries(hosted).values()),
            )
            whole = said.get("worker") == worker and said.get("complete") and said["revision"] >= newest
            return managed if whole else None

        return await eventually(shipped)


def given(managed: Object, to: str) -> Object:
    """As the hub gives a ManagedCluster to another worker: what the last one told of it is gone."""
    status = migration.reassigned_status(managed, to)
    status.pop("held", None)
    told = ("Ready", "InfrastructureReady", "NodesReady", "Upgraded", migration.RESTORED, "WorkerReady")
    status["conditions"] = [each for each in status["conditions"] if each["type"] not in told]
    return {**status, "phase": "Scheduled"}


@asynccontextmanager
async def fleet(directory: Path, *workers: str) -> AsyncIterator[Fleet]:
    hub = await ShoalServer.start(ShoalServerSettings(directory / "hub", port=0))
    made = Fleet(directory, hub)
    try:
        await ensure_worker_namespace(made.hub)
        for name in workers:
            await made.start(name)
        yield made
    finally:
        for name in list(made.workers):
            await made.stop(name)
        await hub.stop()


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str, replicas: int) -> Object:
    container = {"name": "c", "image": "nginx"}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def condition(obj: Object, type_: str) -> Object:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one["type"] == type_:
            found: Object = one
            return found
    return {}


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    for _ in range(LOOKS):
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"still {await look()!r}")


async def refused(write: Awaitable[object]) -> StatusError:
    try:
        await write
    except StatusError as error:
        return error
    raise AssertionError("it was written")
