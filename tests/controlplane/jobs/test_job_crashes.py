"""Tests of Job controllers that crash after every n-th write: their successors finish with the right counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import rfc3339
from shoal.controlplane.controllers import new_workload_controllers
from shoal.kinds.batch.job import COMPLETION_INDEX_ANNOTATION, TRACKING_FINALIZER, is_finished
from shoal.kinds.core.pod.status import is_active
from tests.controlplane.jobs.crash_harness import JOB_KIND, POD_KIND, CrashingTransport, job, run_with_crashes
from tests.controlplane.replicasets.test_replica_sets import SlowPods
from tests.controlplane.world import World, world

Object = dict[str, Any]


class Life:
    """Pods end as they were told to; time passes."""

    def __init__(self, given: World, client: Client) -> None:
        self.given, self.client = given, client
        self.seen: list[str] = []
        self.rounds = 0

    def phase(self, pod: Object) -> str:
        """The second and the fourth pod fail."""
        return "Failed" if self.seen.index(pod["metadata"]["name"]) in (1, 3) else "Succeeded"

    async def __call__(self) -> bool:
        self.rounds += 1
        if self.rounds % 5 == 0:
            self.given.clock.step(700)
        for pod in (await self.client.list_all(POD_KIND, "default"))[0]:
            name = pod["metadata"]["name"]
            if name not in self.seen:
                self.seen.append(name)
            elif is_active(pod):
                terminated = {"exitCode": 1, "finishedAt": rfc3339(self.given.clock.now())}
                container = {"name": "c", "image": "", "imageID": "", "ready": False, "restartCount": 0}
                status = {
                    "phase": self.phase(pod),
                    "containerStatuses": [{**container, "state": {"terminated": terminated}}],
                }
                await self.client.merge_patch(POD_KIND, name, {"status": status}, "default", "status")
        return is_finished(await self.client.get(JOB_KIND, "j", "default"))

    async def is_all_let_go(self) -> bool:
        found = (await self.client.list_all(POD_KIND, "default"))[0]
        return not any(TRACKING_FINALIZER in pod["metadata"].get("finalizers", ()) for pod in found)


@pytest.mark.anyio
@pytest.mark.parametrize("writes", [1, 2, 3, 5, 8])
async def test_counts_are_right_whenever_the_loop_dies(tmp_path: Path, writes: int) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        await client.create(JOB_KIND, job(parallelism=2, completions=5), "default")
        life = Life(given, client)
        assert await run_with_crashes(given, writes, life) > 20 // writes
        status = (await client.get(JOB_KIND, "j", "default"))["status"]
        assert (status["succeeded"], status["failed"], len(life.seen)) == (5, 2, 7)
        assert status["uncountedTerminatedPods"] == {}
        assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert await life.is_all_let_go()


class ByIndex(Life):
    def phase(self, pod: Object) -> str:
        """Index 1 fails once, index 2 always."""
        index = pod["metadata"]["annotations"][COMPLETION_INDEX_ANNOTATION]
        again = pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] != "0"
        return "Failed" if index == "2" or (index == "1" and not again) else "Succeeded"


@pytest.mark.anyio
@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_indexes_are_right_whenever_the_loop_dies(tmp_path: Path, writes: int) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        spec: dict[str, Any] = {
            "completionMode": "Indexed",
            "parallelism": 3,
            "completions": 4,
            "backoffLimitPerIndex": 1,
        }
        await client.create(JOB_KIND, job(**spec), "default")
        life = ByIndex(given, client)
        await run_with_crashes(given, writes, life)
        status = (await client.get(JOB_KIND, "j", "default"))["status"]
        assert (status["completedIndexes"], status["failedIndexes"]) == ("0,1,3", "2")
        assert (status["succeeded"], status["failed"], len(life.seen)) == (3, 3, 6)
        assert [one["type"] for one in status["conditions"]] == ["FailureTarget", "Failed"]


@pytest.mark.anyio
@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_failing_job_takes_its_pods_along_whenever_the_loop_dies(tmp_path: Path, writes: int) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        await client.create(JOB_KIND, job(parallelism=4, completions=4, backoffLimit=0), "default")
        failed = False

        async def live() -> bool:
            nonlocal failed
            found = (await client.list_all(POD_KIND, "default"))[0]
            given.clock.step(1)
            if len(found) == 4 and not failed:
                failed = True
                patch = {"status": {"phase": "Failed"}}
                await client.merge_patch(POD_KIND, found[0]["metadata"]["name"], patch, "default", "status")
            return is_finished(await client.get(JOB_KIND, "j", "default"))

        await run_with_crashes(given, writes, live)
        status = (await client.get(JOB_KIND, "j", "default"))["status"]
        assert (status["failed"], status.get("active", 0), status["terminating"]) == (4, 0, 0)
        assert len((await client.list_all(POD_KIND, "default"))[0]) == 1


class LateList(CrashingTransport):
    """A transport on which a list of pods takes until it is let through."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, 10**6)
        self.through = asyncio.Event()

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method == "GET" and path.endswith("/pods"):
            await self.through.wait()
        return await super().request(method, path, query, headers, body)


@pytest.mark.anyio
async def test_nothing_is_decided_before_all_pods_are_known(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        await client.create(JOB_KIND, job(parallelism=2, completions=9), "default")

        async def running() -> bool:
            found = await client.get(JOB_KIND, "j", "default")
            return bool(found["status"].get("active") == 2)

        await run_with_crashes(given, 10**6, running)
        before = await client.get(JOB_KIND, "j", "default")
        late = LateList(given.server.transport())
        late_client = Client(late, "admin", cluster="root")
        late_client.informers = {}
        loops = new_workload_controllers(late_client, given.clock)
        tasks = [asyncio.create_task(loop.run()) for loop in loops]
        await asyncio.sleep(0.05)
        assert await client.get(JOB_KIND, "j", "default") == before
        late.through.set()
        await asyncio.sleep(0.02)
        given.clock.step(1)
        await asyncio.sleep(0.05)
        assert await client.get(JOB_KIND, "j", "default") == before
        assert len((await client.list_all(POD_KIND, "default"))[0]) == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_a_slow_watch_of_pods_counts_none_twice(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        slow = Client(SlowPods(given.server.transport()), "admin", cluster="root")  # type: ignore[arg-type]
        slow.informers = {}
        tasks = [asyncio.create_task(loop.run()) for loop in new_workload_controllers(slow, given.clock)]
        await client.create(JOB_KIND, job(parallelism=4, completions=12), "default")
        life = Life(given, client)

        async def nudged() -> bool:
            """Changes of the Job itself wake the loop before it sees what became of the pods."""
            await client.merge_patch(JOB_KIND, "j", {"metadata": {"labels": {"n": str(life.rounds)}}}, "default")
            return await life()

        await given.eventually(nudged)
        status = (await client.get(JOB_KIND, "j", "default"))["status"]
        assert (status["succeeded"], status["failed"], len(life.seen)) == (12, 2, 14)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
