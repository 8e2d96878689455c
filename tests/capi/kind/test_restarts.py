"""Whatever fails around it, a creation under way goes on: kind is not started twice, and nothing else ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from shoal.capi.providers.kind.command import KindCommand, KindRunner
from shoal.capi.providers.kind.errors import KindError
from shoal.capi.providers.kind.jobs import KindJobs
from shoal.runtime.controller import Controller
from tests.capi.kind.kind_environment import Place, kind_cluster

pytestmark = pytest.mark.anyio
Object = dict[str, Any]


class Breaking(KindCommand):
    """Lists of clusters fail in a way that nobody expects, on request."""

    is_broken = False
    broke = 0

    async def clusters(self) -> frozenset[str]:
        if self.is_broken:
            self.broke += 1
            raise ValueError("no list")
        return await super().clusters()


async def creating(place: Place) -> None:
    """The cluster is being created, and kind waits."""
    place.standin.write("hold-create")
    await place.create(kind_cluster("a"))
    await place.until(lambda: place.standin.clusters() == ["a"])


async def ends_whole(place: Place) -> None:
    place.standin.unlink("hold-create")
    ready = await place.ready("a")
    reasons = [entry["reason"] for entry in ready["status"]["history"]]
    assert (reasons[0], reasons[-1]) == ("Created", "Ready")
    assert place.standin.calls("create") == ["create cluster a"]


async def test_a_list_that_fails_unexpectedly_ends_nothing(still: Place) -> None:
    command = Breaking(environment=still.standin.environment)
    still.start(command=command)
    await creating(still)
    command.is_broken = True
    still.tick = 1.0
    await still.until(lambda: command.broke > 2)
    command.is_broken = False
    await ends_whole(still)


async def test_a_controller_that_fails_runs_again_and_finds_its_jobs(still: Place) -> None:
    fails = asyncio.Event()

    async def source() -> None:
        runs.append("run")
        await fails.wait()
        fails.clear()
        raise ValueError("a defect")

    runs: list[str] = []
    still.start()
    controller = next(each for each in still.loops if isinstance(each, Controller))
    controller.sources.append(source)
    await creating(still)
    assert runs == ["run"]
    fails.set()
    still.tick = 0.1
    await still.until(lambda: runs == ["run", "run"])
    await ends_whole(still)


class Slow(KindRunner):
    """Creates when it is told to, and reports one line."""

    host_id = ""

    def __init__(self, outcome: BaseException | None = None) -> None:
        self.outcome, self.goes_on = outcome, asyncio.Event()

    async def clusters(self) -> frozenset[str]:
        return frozenset()

    async def create(self, name: str, config: Object, progress: Callable[[str], None]) -> None:
        progress("Preparing nodes")
        await self.goes_on.wait()
        if self.outcome is not None:
            raise self.outcome

    async def delete(self, name: str, progress: Callable[[str], None]) -> None:
        return

    async def kubeconfig(self, name: str) -> str:
        raise ValueError("a cluster that was created stays")

    async def image_ids(self, images: Sequence[str]) -> dict[str, str]:
        return {}

    async def load_images(self, name: str, images: Sequence[str], progress: Callable[[str], None]) -> None:
        return


async def idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_progress_handler_that_fails_does_not_end_the_job() -> None:
    def fail(uid: str) -> None:
        raise ValueError(uid)

    command = Slow()
    jobs = KindJobs(command, 1, fail)
    jobs.create("u", "a", {})
    await idle()
    job = jobs.get("u")
    assert job is not None
    assert (job.done, job.progress) == (False, "Preparing nodes")
    command.goes_on.set()
    await idle()
    assert (job.done, job.error) == (True, None)


@pytest.mark.parametrize("outcome", [ValueError("x"), asyncio.CancelledError(), KindError("CommandFailed", "x")])
async def test_every_end_of_a_job_is_reported(outcome: BaseException) -> None:
    told: list[str] = []
    command = Slow(outcome)
    jobs = KindJobs(command, 1, told.append)
    jobs.create("u", "a", {})
    command.goes_on.set()
    await idle()
    job = jobs.get("u")
    assert job is not None
    assert job.done
    assert job.error is not None
    assert job.error.message == ("x" if isinstance(outcome, KindError) else type(outcome).__name__)
    assert told[-1] == "u"
    jobs.forget_finished("u")
    assert jobs.uids() == []


async def test_a_cancellation_that_was_interrupted_can_be_repeated() -> None:
    jobs = KindJobs(Slow(), 1, lambda uid: None)
    jobs.create("u", "a", {})
    await idle()
    first = asyncio.create_task(jobs.cancel("u"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await jobs.cancel("u")
    assert jobs.uids() == []
