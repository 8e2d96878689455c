"""WriteThroughInformer after its own writes and concurrent changes by others."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.capi.write_through_informer import WriteThroughInformer
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.objects.errors import NotFound

Object = dict[str, Any]

THINGS = GroupVersionResource("example.com", "v1", "things")
KEY = ("", "default", "a")


def thing(revision: int, uid: str = "1", **metadata: Any) -> Object:
    own = {"namespace": "default", "name": "a", "uid": uid, "resourceVersion": str(revision)}
    return {"metadata": {**own, **metadata}}


class Scripted(Client):
    """Answers what the test says."""

    informers = None

    def __init__(self, answer: Object | Exception) -> None:
        self.answer = answer

    async def request(self, *_: Any, **__: Any) -> Object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def resource_path(self, *_: Any, **__: Any) -> str:
        return "/"


def view(answer: Object | Exception) -> WriteThroughInformer:
    return WriteThroughInformer(
        Scripted(answer), THINGS, FakeClock(), indexers={"uid": lambda obj: [obj["metadata"]["uid"]]}
    )


@pytest.mark.anyio
async def test_a_write_is_seen_at_once_and_an_older_event_does_not_undo_it() -> None:
    looked = view(thing(2))
    await looked.create(thing(0))
    assert looked.get("default", "a") == thing(2)
    assert looked.by_index("uid", "1") == [thing(2)]
    looked._handle_object(KEY, thing(1))
    assert looked.get("default", "a") == thing(2)


@pytest.mark.anyio
async def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    looked = view(thing(2))
    looked._handle_object(KEY, thing(1))
    looked._handle_object(KEY, None)
    await looked.update_status(thing(1))
    assert looked.get("default", "a") is None
    assert looked.by_index("uid", "1") == []
    looked._handle_object(KEY, thing(3, uid="2"))
    assert looked.get("default", "a") == thing(3, uid="2")


@pytest.mark.anyio
async def test_an_object_whose_last_finalizer_was_taken_off_is_not_kept() -> None:
    looked = view(thing(2, deletionTimestamp="2023-11-14T22:13:20Z"))
    await looked.patch(thing(1), {})
    assert looked.get("default", "a") is None


@pytest.mark.anyio
async def test_what_is_not_found_is_forgotten() -> None:
    looked = view(NotFound("gone"))
    looked._handle_object(KEY, thing(1))
    with pytest.raises(NotFound):
        await looked.update_status(thing(1))
    assert looked.get("default", "a") is None
    looked._handle_object(KEY, thing(2, uid="2"))
    await looked.delete(thing(2, uid="2"))
    assert looked.get("default", "a") is None


def test_listeners_are_told_of_the_last_state_of_what_has_gone() -> None:
    looked = view({})
    told: list[Object] = []
    looked.add_event_handler(told.append)
    looked._handle_object(KEY, thing(1))
    looked._handle_object(KEY, None)
    assert told == [thing(1), thing(1)]
