"""Event recording: repeated events are counted, and events about one object are rate limited."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.runtime.event_recorder import (
    BATCH_SIZE,
    BURST,
    EVENTS,
    MAX_QUEUED,
    OBJECT_BURST,
    OBJECT_REFILL_SECONDS,
    QPS,
    EventRecorder,
    EventSource,
    Object,
)
from tests.controlplane.world import world

SOURCE = EventSource("test-controller", "apps/v1", "Thing")


def thing(uid: str = "u") -> Object:
    return {"metadata": {"name": "web", "namespace": "default", "uid": uid, "resourceVersion": "7"}}


async def told(client: Client) -> list[Object]:
    found, _ = await client.list_all(EVENTS, "default")
    return [one for one in found if one["source"].get("component") == "test-controller"]


@pytest.mark.anyio
async def test_the_same_again_is_counted(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        recorder = EventRecorder(given.client.in_cluster, given.clock)
        task = asyncio.create_task(recorder.run())
        recorder.record(SOURCE, "c", thing(), "Warning", "FailedCreate", "no")
        await given.eventually(lambda: told(client))
        given.clock.step(60)
        recorder.record(SOURCE, "c", thing(), "Warning", "FailedCreate", "no")
        recorder.record(SOURCE, "c", thing(), "Warning", "FailedCreate", "no, and why")

        async def counted() -> list[Object]:
            found = await told(client)
            return found if sorted(one["count"] for one in found) == [1, 2] else []

        first, second = sorted(await given.eventually(counted), key=lambda one: -int(one["count"]))
        assert first["message"] == "no"
        assert first["firstTimestamp"] < first["lastTimestamp"] == second["firstTimestamp"]
        assert first["involvedObject"] == {
            "apiVersion": "apps/v1",
            "kind": "Thing",
            "namespace": "default",
            "name": "web",
            "uid": "u",
            "resourceVersion": "7",
        }
        await client.delete(EVENTS, first["metadata"]["name"], "default")
        recorder.record(SOURCE, "c", thing(), "Warning", "FailedCreate", "no")

        async def anew() -> bool:
            return any(one["message"] == "no" and one["count"] == 1 for one in await told(client))

        await given.eventually(anew)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.anyio
async def test_too_much_about_one_object_is_left_out(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        recorder = EventRecorder(given.client.in_cluster, given.clock)
        task = asyncio.create_task(recorder.run())
        for number in range(OBJECT_BURST + 10):
            recorder.record(SOURCE, "c", thing(), "Normal", "SuccessfulCreate", f"Created pod: {number}")
        recorder.record(SOURCE, "c", thing("other"), "Normal", "SuccessfulCreate", "Created pod: x")

        async def written(count: int) -> bool:
            return len(await told(client)) == count

        await given.eventually(lambda: written(OBJECT_BURST + 1))
        given.clock.step(OBJECT_REFILL_SECONDS)
        for number in range(2):
            recorder.record(SOURCE, "c", thing(), "Normal", "SuccessfulDelete", f"Deleted pod: {number}")
        await given.eventually(lambda: written(OBJECT_BURST + 2))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.anyio
async def test_with_an_action_an_event_has_the_form_of_events_k8s_io(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        recorder = EventRecorder(given.client.in_cluster, given.clock)
        source = EventSource("test-controller", "apps/v1", "Thing", instance="test-controller-1")
        recorder.record(source, "c", thing(), "Normal", "Bound", "x" * 2000, action="Binding", related=thing("other"))
        task = asyncio.create_task(recorder.run())

        async def named() -> list[Object]:
            return [one for one in (await client.list_all(EVENTS, "default"))[0] if one["reason"] == "Bound"]

        (one,) = await given.eventually(named)
        assert one["message"] == "x" * 1020 + " ..."
        assert (one["reportingComponent"], one["reportingInstance"]) == ("test-controller", "test-controller-1")
        assert (one["action"], one["source"], one["related"]["uid"]) == ("Binding", {}, "other")
        assert one["eventTime"].endswith(".000000Z")
        assert "series" not in one
        given.clock.step(1)
        recorder.record(source, "c", thing(), "Normal", "Bound", "x" * 2000, action="Binding", related=thing("other"))

        async def again() -> bool:
            (one,) = await named()
            return bool(one.get("series"))

        await given.eventually(again)
        (one,) = await named()
        assert one["series"]["count"] == 2
        assert one["series"]["lastObservedTime"] > one["eventTime"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Counting(Client):
    def __init__(self) -> None:
        self.made = list[Object]()

    async def create(
        self, gvr: GroupVersionResource, obj: Object, namespace: str = "", *, metadata_only: bool = False
    ) -> Object:
        self.made.append(obj)
        return obj


@pytest.mark.anyio
async def test_a_burst_is_told_at_once_and_the_rest_at_a_steady_pace() -> None:
    client, clock = Counting(), FakeClock()
    recorder = EventRecorder(lambda cluster: client, clock)
    task = asyncio.create_task(recorder.run())
    for number in range(int(BURST) + 500):
        recorder.record(SOURCE, "c", thing(f"u{number}"), "Normal", "Scheduled", "there")

    async def settle() -> int:
        before = -1
        while before != len(client.made):
            before = len(client.made)
            for _ in range(20):
                await asyncio.sleep(0)
        return before

    assert BURST - BATCH_SIZE < await settle() <= BURST
    clock.step(1)
    assert BURST + QPS - BATCH_SIZE < await settle() <= BURST + QPS
    names = [one["metadata"]["name"] for one in client.made]
    assert names == sorted(names), "a list of events tells the story in order"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.anyio
async def test_where_too_many_wait_the_oldest_go_and_the_same_are_one() -> None:
    client, clock = Counting(), FakeClock()
    recorder = EventRecorder(lambda cluster: client, clock)
    for number in range(MAX_QUEUED):
        recorder.record(SOURCE, "c", thing(f"u{number}"), "Normal", "Scheduled", "there")
    for _ in range(3):
        recorder.record(SOURCE, "c", thing("last"), "Normal", "Scheduled", "there")
    task = asyncio.create_task(recorder.run())
    for _ in range(MAX_QUEUED):
        clock.step(1)
        await asyncio.sleep(0)
    uids = [one["involvedObject"]["uid"] for one in client.made]
    assert (uids[0], uids[-1], len(uids)) == ("u3", "last", MAX_QUEUED - 2)
    assert client.made[-1]["count"] == 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
