"""Writer: an informer after own writes and concurrent changes by others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shoal.capi.writer import Writer
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.objects.errors import NotFound
from shoal.runtime.informer import Informer
from tests.client.scripted_transport import HOLD, Scripted, listed

pytestmark = pytest.mark.anyio
Object = dict[str, Any]

THINGS = GroupVersionResource("example.com", "v1", "things")
KEY = ("", "default", "a")


def thing(revision: int, uid: str = "1", **metadata: Any) -> Object:
    own = {"namespace": "default", "name": "a", "uid": uid, "resourceVersion": str(revision)}
    return {"metadata": {**own, **metadata}}


class Answering(Client):
    """Answers what the test says."""

    def __init__(self, answer: Object | Exception) -> None:
        self.answer = answer
        self.clusters: list[str] = []

    def in_cluster(self, name: str) -> Client:
        self.clusters.append(name)
        return self

    async def request(self, *_: Any, **__: Any) -> Object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def resource_path(self, *_: Any, **__: Any) -> str:
        return "/"


@asynccontextmanager
async def watching(*objects: Object) -> AsyncIterator[Informer]:
    """An informer that has listed the objects at revision 1 and sees no event."""
    informer = Informer(Client(Scripted([listed(1, *objects)], [[HOLD]])), THINGS, FakeClock())
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_for_sync()
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_write_is_seen_at_once() -> None:
    async with watching() as informer:
        writer = Writer(Answering(thing(2)))
        assert await writer.create(informer, thing(0)) == thing(2)
        assert informer.get(KEY) == thing(2)
        writer = Writer(Answering(thing(3, labels={"a": "b"})))
        await writer.patch(informer, thing(2), {"metadata": {"labels": {"a": "b"}}})
        assert informer.get(KEY) == thing(3, labels={"a": "b"})
        await Writer(Answering(thing(2))).get_live(informer, "default", "a")
        assert informer.get(KEY) == thing(3, labels={"a": "b"}), "an older answer"


async def test_an_object_of_a_logical_cluster_is_written_there() -> None:
    async with watching() as informer:
        client = Answering(thing(2))
        created = await Writer(client).create(informer, thing(0), "east")
        assert informer.get(("east", "default", "a")) is created
        await Writer(client).update(informer, created)
        assert client.clusters == ["east", "east"]


async def test_an_object_whose_last_finalizer_was_taken_off_is_not_shown() -> None:
    async with watching(thing(1)) as informer:
        await Writer(Answering(thing(2, deletionTimestamp="2023-11-14T22:13:20Z"))).patch(informer, thing(1), {})
        assert informer.get(KEY) is None


async def test_what_is_not_found_is_hidden() -> None:
    async with watching(thing(1)) as informer:
        with pytest.raises(NotFound):
            await Writer(Answering(NotFound("gone"))).update_status(informer, thing(1))
        assert informer.get(KEY) is None


async def test_deletion_of_what_is_not_found_is_no_error() -> None:
    async with watching(thing(1)) as informer:
        await Writer(Answering(NotFound("gone"))).delete(informer, thing(1, uid="2"))
        assert informer.get(KEY) is not None, "another object with the name"
        await Writer(Answering(NotFound("gone"))).delete(informer, thing(1))
        assert informer.get(KEY) is None


async def test_a_deletion_that_waits_for_finalizers_is_shown() -> None:
    deleting = thing(2, deletionTimestamp="2023-11-14T22:13:20Z", finalizers=["x"])
    async with watching(thing(1)) as informer:
        await Writer(Answering(deleting)).delete(informer, thing(1))
        assert informer.get(KEY) == deleting
