"""Events about workloads: the same again is counted, and who has too much to tell is heard less often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.client.requests import Client
from shoal.controlplane.recorder import BURST, EVENTS, REFILL_SECONDS, Object, Recorder, Source
from tests.controlplane.world import world

SOURCE = Source("test-controller", "apps/v1", "Thing")


def thing(uid: str = "u") -> Object:
    return {"metadata": {"name": "web", "namespace": "default", "uid": uid, "resourceVersion": "7"}}


async def told(client: Client) -> list[Object]:
    found, _ = await client.list_all(EVENTS, "default")
    return [one for one in found if one["source"].get("component") == "test-controller"]


@pytest.mark.anyio
async def test_the_same_again_is_counted(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        recorder = Recorder(given.client, given.clock)
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
        recorder = Recorder(given.client, given.clock)
        task = asyncio.create_task(recorder.run())
        for number in range(BURST + 10):
            recorder.record(SOURCE, "c", thing(), "Normal", "SuccessfulCreate", f"Created pod: {number}")
        recorder.record(SOURCE, "c", thing("other"), "Normal", "SuccessfulCreate", "Created pod: x")

        async def written(count: int) -> bool:
            return len(await told(client)) == count

        await given.eventually(lambda: written(BURST + 1))
        given.clock.step(REFILL_SECONDS)
        for number in range(2):
            recorder.record(SOURCE, "c", thing(), "Normal", "SuccessfulDelete", f"Deleted pod: {number}")
        await given.eventually(lambda: written(BURST + 2))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
