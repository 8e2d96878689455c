"""IndexedInformer, and WriteExpectations on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import FakeClock
from shoal.runtime.dependents import Dependents
from shoal.runtime.ownwrites import OwnWrites
from tests.client.scripted import HOLD, Scripted, event, listed

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
THINGS = Kind("example.com", "v1", "things")


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
    view = Dependents(Client(Scripted([listed(5, *first)], [[*changes, HOLD]])), THINGS, FakeClock())
    told: list[tuple[str, bool, bool]] = []
    view.listeners.append(lambda key, before, now: told.append((key[2], before is not None, now is not None)))
    assert (view.synced, view.revision) == (False, 0)
    task = asyncio.create_task(view.run())
    for _ in range(200):
        await asyncio.sleep(0)
    owner: Key = ("c", "n", "whatever")
    assert names(view.owned(owner, "x")) == ["e"]
    assert names(view.owned(owner, "y")) == ["b"]
    assert names(view.orphans(owner)) == ["a"]
    assert names(view.owned(("other", "n", ""), "x")) == ["c"], "a uid counts in its own cluster only"
    assert view.owned(("c", "m", ""), "x") == []
    assert sorted(key[2] for key, _ in view.beside(owner)) == ["a", "b", "e"]
    assert view.get(("c", "m", "d")) is None
    assert told[4:] == [("e", False, True), ("a", True, True), ("b", True, True), ("d", True, False)]
    assert (view.synced, view.revision) == (True, 9)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class View:
    revision = 5


async def test_own_writes_are_waited_for() -> None:
    view = View()
    writes: OwnWrites[str] = OwnWrites(view)
    assert writes.in_sight("a")
    writes.wrote("a", thing("x", 7))
    writes.wrote("a", thing("y", 6))
    writes.wrote("b", thing("z", 5))
    assert not writes.in_sight("a")
    assert writes.in_sight("b")
    view.revision = 6
    assert not writes.in_sight("a")
    view.revision = 7
    assert writes.in_sight("a")
    view.revision = 0
    assert writes.in_sight("a"), "what was seen once stays seen"
    writes.wrote("a", thing("x", 9))
    writes.forget("a")
    assert writes.in_sight("a")
