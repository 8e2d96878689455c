"""The loops are cut off after any number of writes; fresh ones end where uncut ones would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.loops import Loops
from shoal.assemble.server import ApiServer, ServerSettings, administrator
from shoal.capi.resources import CLUSTERS, EMBEDDED_MACHINES, LOGICAL_CLUSTERS, MACHINE_SETS, MACHINES, NODES
from shoal.client.requests import Client
from shoal.client.transport import Transport, Unreachable
from shoal.objects.errors import NotFound
from shoal.store.sqlite import SqliteStore
from tests.capi.management import ONE_FILE
from tests.capi.test_time import KINDS

Object = dict[str, Any]

LOOKS = 3000


class Cut:
    """A transport that ends after a number of writes: from then on nothing is answered."""

    def __init__(self, transport: Transport, writes: int) -> None:
        self._transport, self._left = transport, writes
        self.ended = asyncio.Event()

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method != "GET":
            if self._left <= 0:
                self.ended.set()
                raise Unreachable("cut off")
            self._left -= 1
        return await self._transport.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._transport.stream(method, path, query, headers)

    async def close(self) -> None:
        await self._transport.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Client]]:
    store = await SqliteStore.open(tmp_path)
    tokens = {"admin": administrator(), "loops": administrator("system:shoal:loops")}
    server = await ApiServer.start(ServerSettings(directory=tmp_path / "pki", tokens=tokens), store)
    yield server, Client(server.transport(), "admin", cluster="root")
    await server.stop()
    await store.close()


async def run_until_cut(server: ApiServer, writes: int) -> None:
    loops, transport = Loops(), Cut(server.transport(), writes)
    loops.token = "loops"
    loops.start(transport, server.authority)
    with suppress(TimeoutError):  # all was done with fewer writes
        await asyncio.wait_for(transport.ended.wait(), 2)
    await loops.stop()


async def eventually(look: Any) -> None:
    for _ in range(LOOKS):
        if await look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not converge")


@pytest.mark.anyio
@pytest.mark.parametrize("writes", [0, 3, 7, 12, 18, 25, 33, 42])
async def test_creation_ends_converged(server: tuple[ApiServer, Client], writes: int) -> None:
    host, client = server
    for obj in yaml.safe_load_all(ONE_FILE):
        await client.create(
            KINDS[obj["kind"]], {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}, "default"
        )
    await run_until_cut(host, writes)
    loops = Loops()
    loops.token = "loops"
    loops.start(host.transport(), host.authority)

    async def converged() -> bool:
        machines, _ = await client.list_all(MACHINES, "default")
        if [(machine.get("status") or {}).get("phase") for machine in machines] != ["Running"] * 3:
            return False
        names = [machine["metadata"]["name"] for machine in machines]
        nodes, _ = await client.at("default.east").list_all(NODES)
        clones, _ = await client.list_all(EMBEDDED_MACHINES, "default")
        same = [sorted(obj["metadata"]["name"] for obj in found) == sorted(names) for found in (nodes, clones)]
        return all(same) and len((await client.list_all(MACHINE_SETS, "default"))[0]) == 1

    await eventually(converged)
    await loops.stop()


@pytest.mark.anyio
@pytest.mark.parametrize("writes", [1, 4, 9, 15, 22])
async def test_deletion_ends_with_nothing(server: tuple[ApiServer, Client], writes: int) -> None:
    host, client = server
    loops = Loops()
    loops.token = "loops"
    loops.start(host.transport(), host.authority)
    for obj in yaml.safe_load_all(ONE_FILE):
        await client.create(
            KINDS[obj["kind"]], {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}, "default"
        )

    async def running() -> bool:
        machines, _ = await client.list_all(MACHINES, "default")
        return [(machine.get("status") or {}).get("phase") for machine in machines] == ["Running"] * 3

    await eventually(running)
    await loops.stop()
    await client.delete(CLUSTERS, "east", "default")
    await run_until_cut(host, writes)
    loops.start(host.transport(), host.authority)

    async def gone() -> bool:
        try:
            await client.get(CLUSTERS, "east", "default")
        except NotFound:
            left = [(await client.list_all(kind))[0] for kind in (MACHINES, EMBEDDED_MACHINES, MACHINE_SETS)]
            clusters, _ = await client.list_all(LOGICAL_CLUSTERS)
            return not any(left) and [obj["metadata"]["name"] for obj in clusters] == ["root"]
        return False

    await eventually(gone)
    await loops.stop()
