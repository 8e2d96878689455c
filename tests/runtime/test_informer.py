"""Informer: indexes, own writes and handlers that fail; WriteExpectations on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import BASE_DELAY, MAX_DELAY, Informer
from shoal.runtime.informer_store import by_cluster, by_controller, by_namespace
from tests.client.scripted_transport import HOLD, Scripted, event, listed

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
THINGS = GroupVersionResource("example.com", "v1", "things")


def thing(name: str, revision: int, owner: str = "", namespace: str = "n", cluster: str = "c") -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "resourceVersion": str(revision), "uid": name}
    metadata["annotations"] = {"shoal.dev/cluster": cluster}
    if owner:
        metadata["ownerReferences"] = [
            {"name": "bystander", "uid": "b"},
            {"kind": "Set", "name": owner, "uid": owner, "controller": True},
        ]
    return {"metadata": metadata}


def names(objects: list[Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in objects)


@asynccontextmanager
async def informer(transport: Scripted, clock: FakeClock | None = None, **options: Any) -> AsyncIterator[Informer]:
    made = Informer(Client(transport), THINGS, clock or FakeClock(), **options)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def idle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_objects_are_found_by_index() -> None:
    first = [thing("a", 1, "x"), thing("b", 2), thing("c", 3, "x", cluster="other"), thing("d", 4, "x", namespace="m")]
    changes = [
        event("ADDED", thing("e", 6, "x")),
        event("MODIFIED", thing("a", 7)),
        event("MODIFIED", thing("b", 8, "y")),
        event("DELETED", thing("d", 9, "x", namespace="m")),
    ]
    seen: list[tuple[str, bool, bool]] = []
    script = Scripted([listed(5, *first)], [[*changes, HOLD]])
    async with informer(script, indexers=(by_controller, by_namespace, by_cluster)) as view:
        view.add_event_handler(lambda key, old, new: seen.append((key[2], old is not None, new is not None)))
        assert (view.has_synced, view.revision) == (False, 0)
        await idle()
        assert names(view.by_index(by_controller, ("c", "n", "x"))) == ["e"]
        assert names(view.by_index(by_controller, ("c", "n", "y"))) == ["b"]
        assert names(view.by_index(by_controller, ("c", "n", ""))) == ["a"]
        assert names(view.by_index(by_controller, ("other", "n", "x"))) == ["c"], "a uid counts in its own cluster only"
        assert view.by_index(by_controller, ("c", "m", "x")) == []
        assert names(view.by_index(by_namespace, ("c", "n"))) == ["a", "b", "e"]
        assert names(view.by_index(by_cluster, "other")) == ["c"]
        assert view.get(("c", "m", "d")) is None
        assert seen[4:] == [("e", False, True), ("a", True, True), ("b", True, True), ("d", True, False)]
        assert (view.has_synced, view.revision) == (True, 9)


async def test_an_own_write_is_shown_until_the_watch_has_it() -> None:
    gate = asyncio.Event()
    changes = [event("MODIFIED", thing("a", 6)), gate, event("MODIFIED", thing("a", 8, "y")), HOLD]
    delivered: list[tuple[str, str]] = []
    async with informer(Scripted([listed(5, thing("a", 1))], [changes]), indexers=(by_controller,)) as view:
        view.add_event_handler(lambda key, old, new: delivered.append((_revision(old), _revision(new))))
        await idle()
        view.observe_write(thing("a", 8, "x"), "c")
        view.observe_write(thing("a", 7), "c")
        assert names(view.by_index(by_controller, ("c", "n", "x"))) == ["a"], "an older response changes nothing"
        assert view.by_index(by_controller, ("c", "n", "")) == []
        assert delivered == [("", "1"), ("1", "6")], "handlers hear of it from the watch"
        gate.set()
        await idle()
        assert names(view.by_index(by_controller, ("c", "n", "y"))) == ["a"]
        assert delivered[2:] == [("6", "8")], "old is what was delivered last"
        view.observe_write(thing("a", 8, "x"), "c")
        assert names(view.by_index(by_controller, ("c", "n", "y"))) == ["a"], "a late response does not come back"


async def test_an_event_older_than_an_own_write_does_not_hide_it() -> None:
    gate, end = asyncio.Event(), asyncio.Event()
    changes = [gate, event("MODIFIED", thing("a", 6)), end, event("DELETED", thing("a", 9)), HOLD]
    async with informer(Scripted([listed(5, thing("a", 1))], [changes])) as view:
        await idle()
        view.observe_write(thing("a", 8), "c")
        gate.set()
        await idle()
        assert _revision(view.get(("c", "n", "a"))) == "8"
        end.set()
        await idle()
        assert view.get(("c", "n", "a")) is None
        view.observe_write(thing("a", 8), "c")
        assert view.get(("c", "n", "a")) is None, "the response of a write before the deletion does not bring it back"


async def test_an_own_write_that_the_selector_drops_is_not_shown_for_ever() -> None:
    gate = asyncio.Event()
    changes = [gate, event("BOOKMARK", {"metadata": {"resourceVersion": "8"}}), HOLD]
    async with informer(Scripted([listed(5)], [changes]), labels="team=a") as view:
        await idle()
        view.observe_write(thing("a", 7), "c")
        assert view.get(("c", "n", "a")) is not None
        gate.set()
        await idle()
        assert view.get(("c", "n", "a")) is None


async def test_what_is_known_to_be_deleted_is_hidden() -> None:
    gate = asyncio.Event()
    changes = [gate, event("MODIFIED", thing("z", 6)), event("MODIFIED", thing("b", 7)), HOLD]
    async with informer(Scripted([listed(5, thing("a", 1), thing("b", 2))], [changes])) as view:
        await idle()
        final = thing("a", 8)
        final["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        view.observe_write(final, "c")
        view.observe_missing(thing("b", 2))
        view.observe_missing(thing("b", 2) | {"metadata": {**thing("b", 2)["metadata"], "uid": "another"}})
        assert view.objects == {}
        gate.set()
        await idle()
        assert [key[2] for key in view.objects] == ["z", "b"], "an event of its key shows it again"


async def test_an_object_in_its_grace_period_is_shown() -> None:
    async with informer(Scripted([listed(5, thing("a", 1))], [[HOLD]])) as view:
        await idle()
        leaving = thing("a", 8)
        leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        view.observe_write(leaving, "c")
        assert _revision(view.get(("c", "n", "a"))) == "8"
        over = thing("a", 9)
        over["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
        view.observe_write(over, "c")
        assert view.get(("c", "n", "a")) is None


async def test_a_handler_that_fails_is_called_again_and_stops_no_other() -> None:
    clock, gate = FakeClock(), asyncio.Event()
    changes = [
        event("MODIFIED", thing("a", 6)),
        event("ADDED", thing("b", 7)),
        gate,
        event("MODIFIED", thing("a", 8)),
        HOLD,
    ]
    other: list[str] = []
    seen: list[tuple[str, str, str]] = []
    broken = {"a"}

    def fragile(key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and _revision(new) != "1" and key[2] in broken:
            raise KeyError("a defect")
        seen.append((key[2], _revision(old), _revision(new)))

    async with informer(Scripted([listed(5, thing("a", 1))], [changes]), clock) as view:
        view.add_event_handler(fragile)
        view.add_event_handler(lambda key, old, new: other.append(_revision(new)))
        await idle()
        assert (other, seen) == (["1", "6", "7"], [("a", "", "1"), ("b", "", "7")])
        gate.set()
        await idle()
        clock.step(BASE_DELAY)
        await idle()
        assert other == ["1", "6", "7", "8"]
        assert seen[2:] == [], "it fails again"
        broken.clear()
        clock.step(MAX_DELAY)
        await idle()
        assert seen[2:] == [("a", "1", "8")], "from what it saw last to what is there now"


async def test_an_informer_that_runs_again_delivers_what_changed_meanwhile() -> None:
    seen: list[tuple[str, str, str]] = []
    script = Scripted([listed(5, thing("a", 1), thing("b", 2)), listed(9, thing("a", 8))], [[HOLD], [HOLD]])
    view = Informer(Client(script), THINGS, FakeClock())
    view.add_event_handler(lambda key, old, new: seen.append((key[2], _revision(old), _revision(new))))
    for _ in range(2):
        task = asyncio.create_task(view.run())
        await idle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not view.has_synced
    assert seen == [("a", "", "1"), ("b", "", "2"), ("a", "1", "8"), ("b", "2", "")]


async def test_a_resumable_informer_keeps_its_copy_while_it_is_stopped() -> None:
    seen: list[tuple[str, str, str]] = []
    script = Scripted([listed(5, thing("a", 1), thing("b", 2))], [[HOLD], [event("MODIFIED", thing("b", 6)), HOLD]])
    view = Informer(Client(script), THINGS, FakeClock(), indexers=(by_cluster,), resumable=True)
    view.add_event_handler(lambda key, old, new: seen.append((key[2], _revision(old), _revision(new))))
    for revision in (5, 6):
        task = asyncio.create_task(view.run())
        await idle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (view.has_synced, view.revision) == (True, revision)
        assert names(view.by_index(by_cluster, "c")) == ["a", "b"]
    assert seen == [("a", "", "1"), ("b", "", "2"), ("b", "2", "6")], "what is known is not delivered again"


async def test_a_resumable_informer_hears_of_changes_that_others_saw_meanwhile() -> None:
    gate, seen = asyncio.Event(), list[tuple[str, str, str]]()
    changes = [gate, event("MODIFIED", thing("a", 6)), event("DELETED", thing("b", 7)), HOLD]
    client = Client(Scripted([listed(5, thing("a", 1), thing("b", 2), thing("c", 3))], [changes]))
    client.informers = {}
    other = asyncio.create_task(Informer(client, THINGS, FakeClock()).run())
    view = Informer(client, THINGS, FakeClock(), resumable=True)
    view.add_event_handler(lambda key, old, new: seen.append((key[2], _revision(old), _revision(new))))
    for _ in range(2):
        task = asyncio.create_task(view.run())
        await idle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gate.set()
        await idle()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert seen[3:] == [("a", "1", "6"), ("b", "2", "")]


def _revision(obj: Object | None) -> str:
    return str(obj["metadata"]["resourceVersion"]) if obj is not None else ""


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


def by_team(key: Key, obj: Object) -> tuple[str]:
    return (obj["metadata"]["labels"]["team"],)


async def test_an_index_function_that_fails_leaves_the_object_out(caplog: pytest.LogCaptureFixture) -> None:
    labelled = thing("b", 2)
    labelled["metadata"]["labels"] = {"team": "blue"}
    changes = [event("MODIFIED", thing("b", 6)), event("DELETED", thing("a", 7)), HOLD]
    async with informer(Scripted([listed(5, thing("a", 1), labelled)], [changes]), indexers=(by_team,)) as view:
        await idle()
        assert (list(view.objects), view.by_index(by_team, "blue")) == ([("c", "n", "b")], [])
    assert "index function by_team failed for c/n/a" in caplog.text


async def test_a_run_that_starts_while_the_last_one_ends_stays_synced() -> None:
    script = Scripted([listed(5, thing("a", 1)), listed(6, thing("a", 1))], [[HOLD], [HOLD]])
    client = Client(script)
    client.informers = {}
    other = asyncio.create_task(Informer(client, THINGS, FakeClock()).run())
    view = Informer(client, THINGS, FakeClock())

    async def run_in_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(view.run())

    first = asyncio.create_task(run_in_group())
    await idle()
    first.cancel()
    second = asyncio.create_task(view.run())
    await idle()
    assert view.has_synced
    for task in (other, first, second):
        task.cancel()
    await asyncio.gather(other, first, second, return_exceptions=True)
