"""A separate server with the controllers of a worker that can be killed at any write, and a count of all its
objects.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.embedded_controllers import EmbeddedControllers
from shoal.capi.informers import CLUSTERS, MACHINE_DEPLOYMENTS, MACHINES
from shoal.capi.providers.embedded.informers import LOGICAL_CLUSTERS
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Transport, Unreachable
from shoal.objects.errors import NotFound
from shoal.store.sqlite import SqliteStore
from tests.capi.management_cluster import ONE_FILE, condition
from tests.capi.test_delays import KINDS
from tests.transports import Passing

Object = dict[str, Any]
Counts = Counter[tuple[str, str]]

ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
LOOKS = 9000
QUIET = 2.0
"""Seconds without a write after which nothing more is expected of loops that were not killed."""
PASSING = {"events", "leases", "endpointslices"}
"""What says that something runs, and not what there is."""


class Cut(Passing):
    """A transport that is cut at a write: from then on nothing is sent. `made`: that write is made all the same, and
    nobody hears of it."""

    def __init__(self, transport: Transport, at: int, made: bool = False) -> None:
        super().__init__(transport)
        self._left, self._made = at, made
        self.ended = asyncio.Event()
        self.writes = 0

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.ended.is_set():
            raise Unreachable("cut off")
        if method != "GET":
            self.writes += 1
            self._left -= 1
            if self._left < 0:
                self.ended.set()
                if self._made:
                    await self.inner.request(method, path, query, headers, body)
                raise Unreachable("cut off")
        return await self.inner.request(method, path, query, headers, body)


class Place:
    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server, self.client = server, client
        self._loops: EmbeddedControllers | None = None

    def start(self, transport: Transport | None = None) -> None:
        self._loops = EmbeddedControllers()
        for token, user in self._loops.tokens.items():
            self.server.core.authenticator.add_static_token(token, user)
        # As on a worker, where Clusters are: a hub has more to make at its start.
        self._loops.start(transport or self.server.transport(), self.server.core.keys, is_hub=False)

    async def stop(self) -> None:
        if self._loops is not None:
            await self._loops.stop()

    async def killed(self, at: int, made: bool) -> None:
        """Loops that run until they are killed at that write, or have nothing more to do."""
        cut = Cut(self.server.transport(), at, made)
        self.start(cut)
        seen = -1
        while not cut.ended.is_set() and seen != cut.writes:
            seen = cut.writes
            try:
                await asyncio.wait_for(cut.ended.wait(), QUIET)
            except TimeoutError:
                continue
        await self.stop()

    async def apply(self) -> None:
        for obj in yaml.safe_load_all(ONE_FILE):
            named = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
            await self.client.create(KINDS[obj["kind"]], named, "default")

    async def eventually(self, look: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(LOOKS):
            if await look():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it does not converge")

    async def is_running(self, count: int = 3) -> bool:
        machines, _ = await self.client.list_all(MACHINES, "default")
        if [(machine.get("status") or {}).get("phase") for machine in machines] != ["Running"] * count:
            return False
        cluster = await self.client.get(CLUSTERS, "east", "default")
        deployment = await self.client.get(MACHINE_DEPLOYMENTS, "east-default", "default")
        status = deployment.get("status") or {}
        counts = [status.get(field) for field in ("replicas", "availableReplicas", "upToDateReplicas")]
        return counts == [count] * 3 and (condition(cluster, "Available") or {}).get("status") == "True"

    async def is_gone(self) -> bool:
        try:
            await self.client.get(CLUSTERS, "east", "default")
        except NotFound:
            return True
        return False

    async def has_accounts(self) -> bool:
        """What the loops begin with: an account in every namespace."""
        for namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
            try:
                await self.client.get(ACCOUNTS, "default", namespace)
            except NotFound:
                return False
        return True

    async def counted(self) -> Counts:
        """Every object there is, by logical cluster and kind."""
        clusters, _ = await self.client.list_all(LOGICAL_CLUSTERS)
        found: Counts = Counter()
        for name in (cluster["metadata"]["name"] for cluster in clusters):
            client = self.client.in_cluster(name)
            for kind, verbs in await client.preferred_resources():
                if "list" in verbs and kind.resource not in PASSING:
                    found[name, kind.resource] += len((await client.list_all(kind))[0])
        return +found

    async def comes_to(self, expected: Counts) -> None:
        for _ in range(LOOKS):
            found = await self.counted()
            if found == expected:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"left over: {found - expected}, missing: {expected - found}")


@asynccontextmanager
async def place(directory: Path) -> AsyncIterator[Place]:
    store = await SqliteStore.open(directory)
    tokens = {"admin": admin_user(), "loops": admin_user("system:shoal:loops")}
    server = await ApiServer.start(ApiServerSettings(directory=directory / "pki", tokens=tokens), store)
    found = Place(server, Client(server.transport(), "admin", cluster="root"))
    try:
        yield found
    finally:
        await found.stop()
        await server.stop()
        await store.close()
