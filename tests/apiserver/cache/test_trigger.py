"""Triggers: watches and lists by one field value give the same results as without an index."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.apiserver.cache import cacher
from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, WatchCache
from shoal.apiserver.cache.object_table import MIN_INDEXED_OBJECTS, ObjectTable
from shoal.apiserver.cache.trigger import Trigger, field_reader, field_value
from shoal.client.rest import Client
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.store.interface import StoreEvent
from tests.fleet.fleets import eventually, managed, server

Object = dict[str, Any]
ASSIGNED = "status.assignedWorker"
WORKERS, NAMES = ("w1", "w2", None), ("a", "b", "c", "d")
SELECTORS = (
    f"{ASSIGNED}=w1",
    f"{ASSIGNED}=w2",
    f"{ASSIGNED}=",
    f"{ASSIGNED}=w1,status.phase!=Running",
    "metadata.name=a",
    f"{ASSIGNED}=w2,metadata.name=b",
    f"{ASSIGNED}!=w1",
)
"""The last one is of no single value."""


def selects(selector: str, obj: Object | None) -> bool:
    """The plain meaning of it."""
    if obj is None:
        return False
    terms = (term.partition("=") for term in selector.split(","))
    return all((field_value(obj, path.removesuffix("!")) == value) != path.endswith("!") for path, _, value in terms)


def expected(selector: str, known: dict[str, Object], everything: list[Object]) -> list[Object]:
    """What a watch with the selector is told, from what one without was told."""
    known, found = dict(known), list[Object]()
    for event in everything:
        obj = event["object"]
        name = obj["metadata"]["name"]
        old, new = known.pop(name, None), None if event["type"] == "DELETED" else obj
        if new is not None:
            known[name] = new
        was, belongs = selects(selector, old), selects(selector, new)
        if belongs:
            found.append({"type": "MODIFIED" if was else "ADDED", "object": obj})
        elif was:
            assert old is not None
            last = {**old, "metadata": {**old["metadata"], "resourceVersion": obj["metadata"]["resourceVersion"]}}
            found.append({"type": "DELETED", "object": last})
    return found


class Following:
    def __init__(self, client: Client, selector: str, since: str) -> None:
        self.selector, self.events = selector, list[Object]()
        self._stream = client.watch(MANAGED_CLUSTERS, query={"resourceVersion": since, "fieldSelector": selector})
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for event in self._stream:
            self.events.append(event)

    async def has(self, count: int) -> None:
        async def enough() -> bool:
            return len(self.events) >= count

        await eventually(enough)

    async def shows(self, obj: Object) -> None:
        async def last() -> bool:
            return bool(self.events) and self.events[-1]["object"] == obj

        await eventually(last)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    async with server(Path(tmp_path_factory.mktemp("hub"))) as client:
        yield client


async def at_random(client: Client, dice: random.Random, steps: int) -> None:
    for _ in range(steps):
        name = dice.choice(NAMES)
        try:
            match dice.randrange(6):
                case 0 | 1:
                    await client.create(MANAGED_CLUSTERS, managed(name), "default")
                case 2:
                    await client.merge_patch(MANAGED_CLUSTERS, name, {"metadata": {"finalizers": None}}, "default")
                    await client.delete(MANAGED_CLUSTERS, name, "default")
                case _:
                    status = {"assignedWorker": dice.choice(WORKERS), "phase": dice.choice(("Running", "Pending"))}
                    await client.merge_patch(MANAGED_CLUSTERS, name, {"status": status}, "default", "status")
        except (AlreadyExists, NotFound):
            continue


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(6))
async def test_whoever_asks_for_a_value_is_told_as_if_all_were_compared(
    hub: Client, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(cacher, "SCAN_LIMIT", 3)  # then history is looked up by value, too
    before, since = await hub.list_all(MANAGED_CLUSTERS)
    known = {obj["metadata"]["name"]: obj for obj in before}
    everything, *others = [Following(hub, selector, since) for selector in ("", *SELECTORS)]
    await at_random(hub, random.Random(seed), 80)
    last = await hub.create(MANAGED_CLUSTERS, managed(f"last-{seed}"), "default")
    await everything.shows(last)
    now, _ = await hub.list_all(MANAGED_CLUSTERS)
    middle = everything.events[len(everything.events) // 2]["object"]["metadata"]["resourceVersion"]
    for one in others:
        wanted = expected(one.selector, known, everything.events)
        await one.has(len(wanted))
        again, resumed = (Following(hub, one.selector, start) for start in (since, middle))  # from history
        later = [event for event in wanted if int(event["object"]["metadata"]["resourceVersion"]) > int(middle)]
        await again.has(len(wanted))
        await resumed.has(len(later))
        assert (one.events, again.events, resumed.events) == (wanted, wanted, later), one.selector
        found, _ = await hub.list_all(MANAGED_CLUSTERS, fields=one.selector)
        assert found == [obj for obj in now if selects(one.selector, obj)], one.selector
        await again.close()
        await resumed.close()
    for one in (everything, *others):
        await one.close()


@pytest.mark.anyio
async def test_one_that_is_given_to_another_is_gone_for_the_first_and_new_for_the_second(hub: Client) -> None:
    made = await hub.create(MANAGED_CLUSTERS, managed("moving"), "default")
    first, second, third = (
        Following(hub, f"{ASSIGNED}={name}", made["metadata"]["resourceVersion"]) for name in ("x1", "x2", "x3")
    )
    revisions = []
    for worker in ("x1", "x2"):
        status = {"status": {"assignedWorker": worker}}
        found = await hub.merge_patch(MANAGED_CLUSTERS, "moving", status, "default", "status")
        revisions.append(found["metadata"]["resourceVersion"])
    await first.has(2)
    await second.has(1)
    assert [event["type"] for event in first.events] == ["ADDED", "DELETED"]
    assert first.events[1]["object"]["status"]["assignedWorker"] == "x1", "as it was last seen"
    assert first.events[1]["object"]["metadata"]["resourceVersion"] == revisions[1]
    assert [event["type"] for event in second.events] == ["ADDED"]
    assert third.events == []
    for each in (first, second, third):
        await each.close()


# --- what is kept ---


def entry(name: str, worker: object, revision: int = 1) -> CachedObject:
    obj = {"apiVersion": "v1", "kind": "K", "metadata": {"name": name}, "status": {"assignedWorker": worker}}
    return CachedObject("default", name, revision, orjson.dumps(obj))


def pin(value: str) -> Trigger:
    read = field_reader(ASSIGNED)
    return Trigger(ASSIGNED, ASSIGNED, value, lambda found: read(found.data))


def stored(revision: int, name: str, worker: str | None) -> StoreEvent:
    obj = {"apiVersion": "v1", "kind": "K", "metadata": {"name": name}, "status": {"assignedWorker": worker}}
    return StoreEvent(revision, f"g/k/root/default/{name}", orjson.dumps(obj) if worker is not None else None)


def test_only_those_concerned_are_asked_and_nothing_is_left_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cacher, "SCAN_LIMIT", 1)
    cache_of_all = WatchCache(lambda _kind, _cluster: ())
    kind = cache_of_all.resource_cache_by_key("g/k")
    heard: dict[str, list[int]] = {"w1": [], "w2": [], "w3": []}

    def listener(worker: str) -> Any:
        def hear(change: CacheEvent) -> None:
            heard[worker].append(change.revision)

        return hear

    listeners = {worker: listener(worker) for worker in heard}
    for worker, each in listeners.items():
        kind.add_event_handler("root", each, pin(worker))
    assert kind.watcher_count == 3
    cache_of_all.apply([stored(1, "a", "w1"), stored(2, "a", "w2"), stored(3, "a", "w2"), stored(4, "a", None)])
    assert heard == {"w1": [1, 2], "w2": [2, 3, 4], "w3": []}
    assert [change.revision for change in kind.missed_events("root", 1, pin("w1"))] == [2]
    cache_of_all.apply([stored(5, "b", "w9"), stored(6, "c", "w9")])
    cache_of_all.history.trim(2)
    assert [change.revision for change in kind.missed_events("root", 2, pin("w2"))] == [3, 4]
    assert kind.missed_events("root", 2, pin("w1")) == []
    for worker, each in listeners.items():
        kind.remove_event_handler("root", each, pin(worker))
    assert (kind.watcher_count, kind.trigger_watchers) == (0, {})


def test_one_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cache_of_all = WatchCache(lambda _kind, _cluster: ())
    kind = cache_of_all.resource_cache_by_key("g/k")
    heard: list[int] = []

    def failing(change: CacheEvent) -> None:
        raise RuntimeError("on purpose")

    kind.add_event_handler("root", failing, pin("w1"))
    kind.add_event_handler("root", lambda change: heard.append(change.revision), pin("w1"))
    cache_of_all.apply([stored(1, "a", "w1"), stored(2, "b", "w1")])
    assert heard == [1, 2]
    assert kind.watcher_count == 1
    assert len(caplog.records) == 1


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 2 * MIN_INDEXED_OBJECTS), st.sampled_from(["w1", "w2", "", None])),
        min_size=2 * MIN_INDEXED_OBJECTS,
        max_size=3 * MIN_INDEXED_OBJECTS,
    )
)
def test_an_index_finds_what_a_scan_finds(steps: list[tuple[int, str | None]]) -> None:
    table = ObjectTable()
    building: Iterator[None] = iter(())
    for number, (key, worker) in enumerate(steps):
        if worker is None:
            table.remove(f"default/o{key}")
        else:
            table.put(entry(f"o{key}", worker, number))
        for _ in islice(building, 2):
            pass  # the table is written to while the index is built
        if number % 40 == 20:
            building = table.build_index(pin("w1"))
        if number % 40 == 39:
            for wanted in ("w1", "w2", "", "w9"):
                one = pin(wanted)
                found = table.select("", "", one)
                assert [each for each in found if one.value_of(each) == wanted] == [
                    each for each in table.select("") if one.value_of(each) == wanted
                ]
                after = "default/o3"
                assert [each for each in table.select("default", after, one) if one.value_of(each) == wanted] == [
                    each for each in table.select("default", after) if one.value_of(each) == wanted
                ]
    if len(table.entries) >= MIN_INDEXED_OBJECTS:
        for each in (building, table.build_index(pin("w1")), table.build_index(pin("w1"))):
            for _ in each:
                pass
        assert len(table.select("", "", pin("w9"))) == 0, "it is not looked for"


def test_an_index_that_was_not_completed_is_built_again() -> None:
    table = ObjectTable()
    for number in range(MIN_INDEXED_OBJECTS):
        table.put(entry(f"o{number}", "w1", number))
    assert list(table.build_index(pin("w1"))) == [], "selected by for the first time"
    building = table.build_index(pin("w1"))
    next(building)
    assert len(table.select("", "", pin("w9"))) == MIN_INDEXED_OBJECTS, "not complete: everything is searched"
    building.close()
    assert len(list(table.build_index(pin("w1")))) == MIN_INDEXED_OBJECTS
    assert table.select("", "", pin("w9")) == []
    table.drop_derived()
    assert table.indexes is None


_leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4)
_objects = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b-c", "x"]), inner)
)


@given(st.dictionaries(st.sampled_from(["a", "b-c", "x"]), _objects), st.sampled_from(["a", "a.b-c", "a.b-c.x"]))
def test_reading_a_field_of_the_bytes_is_reading_it_of_the_object(obj: Object, path: str) -> None:
    assert field_reader(path)(orjson.dumps(obj)) == field_value(obj, path)
