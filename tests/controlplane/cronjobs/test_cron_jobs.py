"""Tests of CronJobs in a running server on a fake clock, which starts at 2023-11-14T22:13:20Z."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.batch.job import SCHEDULED_TIMESTAMP_ANNOTATION, finished_condition, is_finished
from tests.controlplane.jobs.crash_harness import JOB_KIND, NODE, POD_KIND, run_with_crashes
from tests.controlplane.jobs.crash_harness import job as job_of
from tests.controlplane.world import World, world

Object = dict[str, Any]

CRON_JOBS, NODES, EVENTS = (
    GroupVersionResource("batch", "v1", "cronjobs"),
    GroupVersionResource("", "v1", "nodes", False),
    GroupVersionResource("", "v1", "events"),
)
MINUTE = 1_700_000_000 // 60
"""The one in which the clock starts."""


def cron_job(schedule: str = "* * * * *", run_for: str = "1s", **spec: Any) -> Object:
    template = {"spec": job_of(run_for=run_for)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "cj"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


class CronJobWorld:
    def __init__(self, given: World, client: Client) -> None:
        self.given, self.client = given, client

    async def create(self, obj: Object) -> Object:
        made = await self.client.create(CRON_JOBS, obj, "default")
        await asyncio.sleep(0.05)
        return made

    async def cron_job(self) -> Object:
        return await self.client.get(CRON_JOBS, "cj", "default")

    async def jobs(self) -> dict[int, Object]:
        """By their minute, counted from the one in which the clock started."""
        found = (await self.client.list_all(JOB_KIND, "default"))[0]
        return {int(one["metadata"]["name"].rpartition("-")[2]) - MINUTE: one for one in found}

    async def has(self, *minutes: int) -> dict[int, Object]:
        async def look() -> bool:
            return [*await self.jobs()] == [*minutes]

        await self.given.eventually(look)
        return await self.jobs()

    async def step(self, seconds: int) -> None:
        """Second by second, and none before what the last one led to is written: simulated pods end in time."""
        for _ in range(seconds):
            self.given.clock.step(1)
            before = -1
            while before != self.given.server.core.cache.revision:
                before = self.given.server.core.cache.revision
                await asyncio.sleep(0.003)

    async def active(self, *minutes: int) -> None:
        """Waits until these are its active Jobs."""

        async def look() -> bool:
            found = (await self.cron_job())["status"].get("active", ())
            return [one["name"] for one in found] == [f"cj-{MINUTE + minute}" for minute in minutes]

        await self.given.eventually(look)

    async def event_reasons(self) -> set[str]:
        return {one["reason"] for one in (await self.client.list_all(EVENTS, "default"))[0]}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[CronJobWorld]:
    async with world(tmp_path) as given:
        client = await given.cluster("c")
        await client.create(NODES, NODE)
        yield CronJobWorld(given, client)


@pytest.mark.anyio
async def test_a_job_at_every_time_of_the_schedule(here: CronJobWorld) -> None:
    made = await here.create(cron_job())
    assert not await here.jobs()
    await here.step(45)
    (job,) = (await here.has(1)).values()
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("CronJob", made["metadata"]["uid"], True)
    assert job["metadata"]["annotations"][SCHEDULED_TIMESTAMP_ANNOTATION] == "2023-11-14T22:14:00Z"
    await here.step(60)
    jobs = await here.has(1, 2)

    async def noted() -> bool:
        return bool((await here.cron_job())["status"]["lastScheduleTime"] == "2023-11-14T22:15:00Z")

    await here.given.eventually(noted)
    await here.step(5)
    await here.active()
    status = (await here.cron_job())["status"]
    last = (await here.jobs())[2]["status"]["completionTime"]
    assert status["lastSuccessfulTime"] == last
    assert (finished_condition(jobs[1]) or {})["type"] == "Complete"
    assert {"SuccessfulCreate", "SawCompletedJob"} <= await here.event_reasons()
    assert not {"UnexpectedJob", "MissingJob"} & await here.event_reasons()


@pytest.mark.anyio
async def test_whoever_still_runs_is_left_or_keeps_others_out_or_goes(here: CronJobWorld) -> None:
    await here.create(cron_job(run_for="1h"))
    await here.step(105)
    await here.has(1, 2)
    await here.active(1, 2)
    await here.client.merge_patch(CRON_JOBS, "cj", {"spec": {"concurrencyPolicy": "Forbid"}}, "default")
    await here.step(120)
    assert len(await here.jobs()) == 2
    assert "JobAlreadyActive" in await here.event_reasons()
    await here.client.merge_patch(CRON_JOBS, "cj", {"spec": {"concurrencyPolicy": "Replace"}}, "default")
    await here.has(4)
    await here.step(60)
    await here.has(5)
    await here.active(5)


@pytest.mark.anyio
async def test_suspended_it_starts_nothing_and_afterwards_the_latest(here: CronJobWorld) -> None:
    await here.create(cron_job(suspend=True))
    await here.step(200)
    assert not await here.jobs()
    await here.client.merge_patch(CRON_JOBS, "cj", {"spec": {"suspend": False}}, "default")
    await here.has(3)


@pytest.mark.anyio
async def test_its_history_is_short(here: CronJobWorld) -> None:
    await here.create(cron_job(successfulJobsHistoryLimit=2))
    for minute in range(1, 6):
        await here.step(60)

        async def is_done(minute: int = minute) -> bool:
            here.given.clock.step(0.01)
            found = await here.jobs()
            return minute in found and is_finished(found[minute])

        await here.given.eventually(is_done)
    await here.has(4, 5)

    async def only_theirs() -> bool:
        return len((await here.client.list_all(POD_KIND, "default"))[0]) == 2

    await here.given.eventually(only_theirs)


@pytest.mark.anyio
async def test_a_job_that_vanishes_is_not_active_any_more(here: CronJobWorld) -> None:
    await here.create(cron_job(run_for="1h", concurrencyPolicy="Forbid"))
    await here.step(45)
    (job,) = (await here.has(1)).values()
    path = here.client.resource_path(JOB_KIND, job["metadata"]["name"], "default")
    await here.client.request("DELETE", path, body={"propagationPolicy": "Background"})

    async def forgotten() -> bool:
        return "active" not in (await here.cron_job())["status"] and "MissingJob" in await here.event_reasons()

    await here.given.eventually(forgotten)
    await here.step(60)
    await here.has(2)


@pytest.mark.anyio
@pytest.mark.parametrize("policy", ["Allow", "Replace"])
async def test_active_references_that_name_no_job_are_removed(here: CronJobWorld, policy: str) -> None:
    """Clients with access to the status write what they like."""
    await here.create(cron_job(run_for="1h", concurrencyPolicy=policy))
    await here.step(45)
    (job,) = (await here.has(1)).values()
    active: list[Object] = [{}, {"kind": "Job"}, {"name": "x" * 1000}, {"uid": job["metadata"]["uid"]}]
    await here.client.merge_patch(CRON_JOBS, "cj", {"status": {"active": active}}, "default", "status")

    async def is_cleaned() -> bool:
        return "active" not in (await here.cron_job())["status"]

    await here.given.eventually(is_cleaned)
    await here.step(60)
    await here.given.eventually(lambda: _runs(here, 2))


async def _runs(here: CronJobWorld, minute: int) -> bool:
    return minute in await here.jobs()


@pytest.mark.anyio
async def test_a_time_zone_and_a_change_of_schedule(here: CronJobWorld) -> None:
    await here.create(cron_job("15 23 * * *", timeZone="Europe/Berlin"))
    await here.step(50)
    assert not await here.jobs()
    # The new schedule would have had its last time at 22:14.
    await here.client.merge_patch(CRON_JOBS, "cj", {"spec": {"schedule": "*/2 * * * *"}}, "default")
    await here.step(40)
    assert not await here.jobs()
    await here.step(76)
    jobs = await here.has(3)
    assert jobs[3]["metadata"]["annotations"][SCHEDULED_TIMESTAMP_ANNOTATION] == "2023-11-14T23:16:00+01:00"


@pytest.mark.anyio
async def test_a_job_made_by_hand_is_not_counted_as_its_own(here: CronJobWorld) -> None:
    made = await here.create(cron_job("0 0 1 1 *"))
    manual = job_of("manual-0", run_for="1h")
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "cj", "uid": made["metadata"]["uid"]}
    manual["metadata"] |= {
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [{**reference, "controller": True}],
    }
    await here.client.create(JOB_KIND, manual, "default")

    async def unexpected() -> bool:
        return "UnexpectedJob" in await here.event_reasons()

    await here.given.eventually(unexpected)
    assert (await here.cron_job())["status"] == {}


@pytest.mark.anyio
async def test_many_of_them_sleep_in_one_task_and_look_only_when_it_is_time(here: CronJobWorld) -> None:
    await here.create(cron_job("0 12 * * *"))
    await asyncio.sleep(0.05)
    tasks = len(asyncio.all_tasks())
    for number in range(30):
        made = cron_job(f"{number} 12 * * *")
        made["metadata"]["name"] = f"other-{number}"
        await here.client.create(CRON_JOBS, made, "default")
    await asyncio.sleep(0.1)
    revision = here.given.server.core.cache.revision
    assert len(asyncio.all_tasks()) == tasks
    for _ in range(10):
        here.given.clock.step(3600)
        await asyncio.sleep(0.01)
    written = (await here.client.list_all(JOB_KIND, "default"))[0]
    assert not written, "it is 08:13 in the morning"
    assert here.given.server.core.cache.revision == revision


@pytest.mark.anyio
@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_one_job_for_each_time_whenever_the_loop_dies(tmp_path: Path, writes: int) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        here = CronJobWorld(given, client)
        await client.create(CRON_JOBS, cron_job(successfulJobsHistoryLimit=9, concurrencyPolicy="Forbid"), "default")
        seen: dict[str, str] = {}

        async def live() -> bool:
            """Pods succeed; time goes on when the Job of the minute is done."""
            for pod in (await client.list_all(POD_KIND, "default"))[0]:
                patch = {"status": {"phase": "Succeeded"}}
                await client.merge_patch(POD_KIND, pod["metadata"]["name"], patch, "default", "status")
            found = (await client.list_all(JOB_KIND, "default"))[0]
            for one in found:
                assert seen.setdefault(one["metadata"]["name"], one["metadata"]["uid"]) == one["metadata"]["uid"]
            status = (await here.cron_job())["status"]
            settled = "active" not in status and all(map(is_finished, found))
            minute = int(given.clock.now()) // 60 - MINUTE
            if settled and len(found) == minute:
                if minute == 4:
                    return True
                given.clock.step(60)
            given.clock.step(0.1)
            return False

        await run_with_crashes(given, writes, live)
        jobs = await here.jobs()
        assert [*jobs] == [1, 2, 3, 4]
        assert [one["status"]["succeeded"] for one in jobs.values()] == [1, 1, 1, 1]
        status = (await here.cron_job())["status"]
        assert "active" not in status
        assert status["lastScheduleTime"] == "2023-11-14T22:17:00Z"
