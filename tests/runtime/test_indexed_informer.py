"""IndexedInformer, and WriteExpectations on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.indexed_informer import IndexedInformer
from tests.client.scripted_transport import HOLD, Scripted, event, listed

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
THINGS = GroupVersionResource("example.com", "v1", "things")


def thing(name: str, revision: int, owner: str = "", namespace: str = "n", cluster: str = "c") -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "resourceVersion": str(revision)}
    metadata["annotations"] = {"shoal.dev/cluster": cluster}
    if owner:
        metadata["ownerReferences"] = [
            {"name": "bystander", "uid": "b"},
            {"kind": "Set", "name": owner, "uid": owner, "controller": True},
        ]
    return {"metadata": metadata}


def names(objects: list[Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in objects)


async def test_objects_are_found_by_owner_and_by_namespace() -> None:
    first = [thing("a", 1, "x"), thing("b", 2), thing("c", 3, "x", cluster="other"), thing("d", 4, "x", namespace="m")]
    changes = [
        event("ADDED", thing("e", 6, "x")),
        event("MODIFIED", thing("a", 7)),
        event("MODIFIED", thing("b", 8, "y")),
        event("DELETED", thing("d", 9, "x", namespace="m")),
    ]
    view = IndexedInformer(Client(Scripted([listed(5, *first)], [[*changes, HOLD]])), THINGS, FakeClock())
    told: list[tuple[str, bool, bool]] = []
    view.event_handlers.append(lambda key, before, now: told.append((key[2], before is not None, now is not None)))
    assert (view.has_synced, view.revision) == (False, 0)
    task = asyncio.create_task(view.run())
    for _ in range(200):
        await asyncio.sleep(0)
    owner: Key = ("c", "n", "whatever")
    assert names(view.by_controller(owner, "x")) == ["e"]
    assert names(view.by_controller(owner, "y")) == ["b"]
    assert names(view.orphans(owner)) == ["a"]
    assert names(view.by_controller(("other", "n", ""), "x")) == ["c"], "a uid counts in its own cluster only"
    assert view.by_controller(("c", "m", ""), "x") == []
    assert sorted(key[2] for key, _ in view.by_namespace(owner)) == ["a", "b", "e"]
    assert view.get(("c", "m", "d")) is None
    assert told[4:] == [("e", False, True), ("a", True, True), ("b", True, True), ("d", True, False)]
    assert (view.has_synced, view.revision) == (True, 9)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class View:
    revision = 5


async def test_own_writes_are_waited_for() -> None:
    view = View()
    writes: WriteExpectations[str] = WriteExpectations(view)
    assert writes.satisfied("a")
    writes.expect("a", thing("x", 7))
    writes.expect("a", thing("y", 6))
    writes.expect("b", thing("z", 5))
    assert not writes.satisfied("a")
    assert writes.satisfied("b")
    view.revision = 6
    assert not writes.satisfied("a")
    view.revision = 7
    assert writes.satisfied("a")
    view.revision = 0
    assert writes.satisfied("a"), "what was seen once stays seen"
    writes.expect("a", thing("x", 9))
    writes.forget("a")
    assert writes.satisfied("a")
