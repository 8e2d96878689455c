"""RemoteWatches on a fake clock: one watch without a cache in each cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.objects.errors import Expired, Forbidden
from shoal.sync.remote_cluster import NoKubeconfig, RemoteCluster
from shoal.sync.remote_watches import REFUSED_RETRY_SECONDS, RemoteWatches

Object = dict[str, Any]

pytestmark = pytest.mark.anyio

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
EAST = {"metadata": {"name": "east", "uid": "u", "generation": 1}}


class Far(Client):
    """A cluster whose list is what a test says, and whose watch is a queue."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Object | Exception] = asyncio.Queue()
        self.listed: list[Object] | Exception = []
        self.lists = self.closed = 0

    async def list_all(
        self, gvr: GroupVersionResource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        self.lists += 1
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed, "7"

    async def watch(self, *_: object, **__: object) -> AsyncIterator[Object]:
        while True:
            event = await self.events.get()
            if isinstance(event, Exception):
                raise event
            yield event

    async def close(self) -> None:
        self.closed += 1


class World:
    def __init__(self) -> None:
        self.far, self.clock, self.told = Far(), FakeClock(), list[str]()
        self.unreached: Exception | None = None
        self.following = RemoteWatches(
            self.clock,
            self.reach,
            NODES,
            lambda name, found: self.told.append(f"{name} {len(found)}"),
            lambda name, event, obj: self.told.append(f"{name} {event} {obj['metadata']['name']}"),
            on_refused=lambda name: self.told.append(f"{name} refused"),
        )

    async def reach(self, cluster: Object) -> RemoteCluster:
        if self.unreached is not None:
            raise self.unreached
        return RemoteCluster(self.far)

    async def step(self, seconds: float = 0.0) -> list[str]:
        self.clock.step(seconds)
        for _ in range(20):
            await asyncio.sleep(0)
        told, self.told[:] = list(self.told), []
        return told


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.following.stop("east")
    await asyncio.sleep(0)


async def test_what_is_there_and_what_comes(world: World) -> None:
    world.far.listed = [{}, {}]
    world.following.start(EAST)
    assert await world.step() == ["east 2"]
    world.far.events.put_nowait({"type": "ADDED", "object": {"metadata": {"name": "n"}}})
    world.far.events.put_nowait({"type": "BOOKMARK", "object": {}})
    assert await world.step() == ["east ADDED n"]
    world.following.start(EAST)
    assert (await world.step(), world.far.lists) == ([], 1)
    world.following.start({"metadata": {**EAST["metadata"], "generation": 2}})
    assert (await world.step(), world.far.lists) == (["east 2"], 2)


async def test_a_cut_is_tried_again_later_and_later(world: World) -> None:
    world.following.start(EAST)
    assert await world.step() == ["east 0"]
    world.far.listed = Unreachable("dark")
    world.far.events.put_nowait(Unreachable("dark"))
    await world.step()
    tries = world.far.lists
    for _ in range(600):
        await world.step(0.5)
    assert 5 < world.far.lists - tries < 20
    world.far.listed = []
    assert "east 0" in [told for _ in range(70) for told in await world.step(0.5)]
    assert world.far.closed == world.far.lists - 1


async def test_a_watch_that_is_too_old_begins_anew(world: World) -> None:
    world.following.start(EAST)
    await world.step()
    world.far.events.put_nowait(Expired("too old"))
    await world.step()
    assert await world.step(0.5) == ["east 0"]


async def test_what_may_not_be_read_is_said_and_left_alone(world: World) -> None:
    world.far.listed = Forbidden("no")
    world.following.start(EAST)
    assert await world.step() == ["east refused"]
    assert await world.step(REFUSED_RETRY_SECONDS - 1) == []
    world.far.listed = []
    assert await world.step(2) == ["east 0"]


async def test_a_cluster_without_a_kubeconfig_waits(world: World) -> None:
    world.unreached = NoKubeconfig("the Secret is not there")
    world.following.start(EAST)
    assert await world.step() == []
    world.unreached = None
    assert await world.step(1) == ["east 0"]
    world.following.stop("east")
    await world.step()
    assert world.far.closed == 1
