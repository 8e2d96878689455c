"""Reflectors that share one store: one list, one watch, one object for all; a late reflector receives everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.runtime.informer import Informer
from tests.controlplane.world import World, world

Object = dict[str, Any]

MAPS = GroupVersionResource("", "v1", "configmaps")


class Follower:
    def __init__(self, client: Client, given: World, *, fields: str = "") -> None:
        self.told: list[tuple[str, str | None]] = []
        self.lists = 0
        self.informer = Informer(client, MAPS, given.clock, fields=fields)
        self.informer.add_event_handler(self._changed)
        self.informer.on_sync(self._listed)
        self._task: asyncio.Task[None] | None = None

    def _changed(self, key: Key, old: Object | None, obj: Object | None) -> None:
        assert self.informer.objects.get(key) is obj, "the copy is as far as what is told"
        if key[2] in ("a", "b"):
            self.told.append((key[2], obj["data"]["n"] if obj is not None else None))

    def _listed(self) -> None:
        self.lists += 1

    def start(self) -> None:
        self._task = asyncio.create_task(self.informer.run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None


@asynccontextmanager
async def followers(given: World, client: Client, number: int) -> AsyncIterator[list[Follower]]:
    made = [Follower(client, given) for _ in range(number)]
    try:
        yield made
    finally:
        for follower in made:
            await follower.stop()


async def put(client: Client, name: str, value: str) -> None:
    body = {"metadata": {"name": name, "namespace": "default"}, "data": {"n": value}}
    await client.apply(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **body}, "test")


@pytest.mark.anyio
async def test_all_are_told_the_same_of_one_copy(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False, root_profile="cluster") as given:
        client = given.client.in_cluster("root")
        client.informers = {}
        await put(client, "a", "1")
        async with followers(given, client, 3) as (first, second, third):
            first.start()
            second.start()
            await given.eventually(_seen(first, ("a", "1")))
            await put(client, "b", "1")
            await client.delete(MAPS, "a", "default")
            await given.eventually(_seen(second, ("a", None)))
            assert first.told == second.told == [("a", "1"), ("b", "1"), ("a", None)]
            assert first.informer.objects is second.informer.objects
            assert not any("managedFields" in obj["metadata"] for obj in first.informer.objects.values())
            assert (first.lists, second.lists) == (1, 1)

            assert not third.informer.has_synced, "the copy is complete, but this one has not been told"
            assert third.informer.revision == 0
            third.start()
            await given.eventually(_seen(third, ("b", "1")))
            assert (third.told, third.lists, third.informer.has_synced) == ([("b", "1")], 1, True)
            assert third.informer.revision == first.informer.revision


@pytest.mark.anyio
async def test_when_the_one_that_watches_leaves_the_next_goes_on(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False, root_profile="cluster") as given:
        client = given.client.in_cluster("root")
        client.informers = {}
        async with followers(given, client, 2) as (first, second):
            first.start()
            second.start()
            await put(client, "a", "1")
            await given.eventually(_seen(second, ("a", "1")))
            await first.stop()
            await put(client, "a", "2")
            await given.eventually(_seen(second, ("a", "2")))
            assert second.lists == 1
            assert first.told == [("a", "1")]
            await second.stop()
            await put(client, "a", "3")
            second.start()
            await given.eventually(_seen(second, ("a", "3")))
            assert second.told == [("a", "1"), ("a", "2"), ("a", "3")], "what it knows is not told again"


@pytest.mark.anyio
async def test_only_who_asks_for_the_same_through_one_client_shares(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False, root_profile="cluster") as given:
        client = given.client.in_cluster("root")
        client.informers = {}
        async with followers(given, client, 1) as (first,):
            others = [
                Follower(client, given, fields="metadata.name=a"),
                Follower(client.in_cluster("*"), given),
                Follower(given.client.in_cluster("root"), given),
            ]
            for follower in (first, *others):
                follower.start()
            await put(client, "a", "1")
            for follower in (first, *others):
                await given.eventually(_seen(follower, ("a", "1")))
            assert len({id(each.informer.objects) for each in (first, *others)}) == 4
            for follower in others:
                await follower.stop()


def _seen(follower: Follower, what: tuple[str, str | None]) -> Any:
    async def look() -> bool:
        return what in follower.told

    return look
