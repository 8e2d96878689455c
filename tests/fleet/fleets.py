"""A hub and its workers, each a server on its own store, called without sockets; only the fleet's controllers run.

The test plays Cluster API: `provision` sets what its provider would.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, SystemClock
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import WATCH_BUS, FleetRunnable, new_hub_controllers, new_worker_controllers
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.join.decide import joined_worker
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS, WORKERS
from shoal.fleet.worker.informers import CLUSTERS
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import NotFound
from shoal.store.sqlite import SqliteStore

Object = dict[str, Any]
T = TypeVar("T")

SYSTEM = "shoal-system"
LOOKS = 9000


@asynccontextmanager
async def server(directory: Path, clock: Clock | None = None) -> AsyncIterator[Client]:
    """A server with no loops; the client is its root's administrator."""
    _ensure(directory)
    store = await SqliteStore.open(directory)
    settings = ApiServerSettings(directory=directory / "pki", tokens={"admin": admin_user()})
    running = await ApiServer.start(settings, store, clock)
    try:
        yield Client(running.transport(), "admin", cluster="root")
    finally:
        await running.stop()
        await store.close()


def as_worker(admin: Client, name: str) -> Client:
    """With the rights of the worker of that name, which its administrator may take on."""
    found = admin.in_cluster("root")
    found._headers = {
        **found._headers,
        "impersonate-user": worker_join.user_name(name),
        "impersonate-group": worker_join.WORKERS_GROUP,
    }
    return found


async def join_worker(admin: Client, name: str) -> None:
    """Creates the Worker of a worker that has joined: without one a worker has hardly any rights."""
    await ensure_worker_namespace(admin)
    await admin.create(WORKERS, joined_worker({"metadata": {"uid": "join"}}, name), SYSTEM)


def _ensure(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)


@asynccontextmanager
async def running(loops: Sequence[FleetRunnable]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop.run(), name=loop.name) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [end for end in ended if isinstance(end, Exception)]
        assert not failed, failed


class Fleet:
    def __init__(self, directory: Path, hub: Client, clock: Clock, stack: AsyncExitStack) -> None:
        self._directory, self.hub, self.clock, self._stack = directory, hub, clock, stack
        self.own: dict[str, Client] = {}
        self._running: dict[str, AsyncExitStack] = {}

    async def join(
        self,
        name: str,
        capacity: int | None = 10,
        location: str | None = "",
        store: str = "",
        bus: BusSettings = WATCH_BUS,
        on_registered: Callable[[Object, Object], None] = lambda before, after: None,
    ) -> Client:
        """A worker with a server of its own (`store` names one that is there), and its loops."""
        store = store or name
        if store not in self.own:
            self.own[store] = await self._stack.enter_async_context(server(self._directory / store, self.clock))
        settings = WorkerSettings(
            *(name, capacity, location, "v1.36.4", "https://hub:6443", "-----CA-----\n"), on_registered=on_registered
        )
        loops = new_worker_controllers(as_worker(self.hub, name), self.own[store], self.clock, settings, bus)
        self._running[name] = stack = AsyncExitStack()
        await stack.enter_async_context(running(loops))
        return self.own[store]

    async def part(self, name: str) -> None:
        """The worker's loops end, as if it was killed; its server stays to be looked at."""
        await self._running.pop(name).aclose()

    async def close(self) -> None:
        for name in list(self._running):
            await self.part(name)

    async def get(self, name: str, namespace: str = "default") -> Object:
        return await self.hub.get(MANAGED_CLUSTERS, name, namespace)

    async def worker(self, name: str) -> Object:
        return await self.hub.get(WORKERS, name, SYSTEM)

    async def create(self, name: str, namespace: str = "default", **spec: Any) -> Object:
        return await self.hub.create(MANAGED_CLUSTERS, managed(name, **spec), namespace)

    async def until(self, name: str, look: Callable[[Object], Any], namespace: str = "default") -> Object:
        """The ManagedCluster, as soon as it is so."""

        async def found() -> Object | None:
            obj = await self.get(name, namespace)
            return obj if look(obj) else None

        return await eventually(found)

    async def until_worker(self, name: str, look: Callable[[Object], Any]) -> Object:
        async def found() -> Object | None:
            try:
                obj = await self.worker(name)
            except NotFound:
                return None
            return obj if look(obj) else None

        return await eventually(found)


@asynccontextmanager
async def fleet(directory: Path, clock: Clock | None = None) -> AsyncIterator[Fleet]:
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(server(directory / "hub", clock))
        await ensure_worker_namespace(hub)
        await stack.enter_async_context(running(new_hub_controllers(hub, clock)))
        made = Fleet(directory, hub, clock, stack)
        stack.push_async_callback(made.close)
        yield made


def managed(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "ManagedCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


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
        await asyncio.sleep(0.005)
    raise AssertionError(f"still {await look()!r}")


async def gone(client: Client, kind: GroupVersionResource, name: str, namespace: str = "default") -> bool:
    try:
        await client.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def there(client: Client, kind: GroupVersionResource, name: str, namespace: str = "default") -> bool:
    return not await gone(client, kind, name, namespace)


async def provision(own: Client, name: str, namespace: str = "default", token: str = "let-me-in") -> None:
    """What Cluster API's loops do once the Cluster is there."""

    async def there() -> bool:
        return not await gone(own, CLUSTERS, name, namespace)

    await eventually(there)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://worker:1/clusters/x"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
        "users": [{"name": "u", "user": {"token": token}}],
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-kubeconfig"},
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(yaml.safe_dump(config).encode()).decode()},
    }
    await own.create(SECRETS, secret, namespace)
    status = {"phase": "Provisioned", "initialization": {"infrastructureProvisioned": True}}
    await own.merge_patch(CLUSTERS, name, {"status": status}, namespace, "status")
