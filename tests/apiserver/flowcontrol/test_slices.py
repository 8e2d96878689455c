"""The scheduler of long reads: short ones are answered at once, long ones share the turns of the event loop."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Generator

import pytest

from shoal.apiserver.flowcontrol import slices
from shoal.apiserver.flowcontrol.fairqueue import FairQueue
from shoal.apiserver.flowcontrol.slices import QueuePath, SliceConfig, SliceScheduler
from shoal.objects.errors import BadRequest, TooManyRequests

STEPWISE = SliceConfig(first_seconds=0, crowded_seconds=0, turn_seconds=1e-9, running_per_cluster=2, running=3)
"""One step in each slice."""


def path(cluster: str, flow: str = "") -> QueuePath:
    return (cluster, 1.0), ((cluster, "level"), 1.0), (flow, 1.0)


def counting(steps: int, name: str, log: list[str]) -> Generator[None, None, str]:
    for _ in range(steps):
        log.append(name)
        yield
    return name


async def started(scheduler: SliceScheduler, where: QueuePath, steps: int, log: list[str]) -> asyncio.Future[str]:
    answer = scheduler.run(where, counting(steps, str(where[0][0]), log))
    assert inspect.isawaitable(answer)
    task = asyncio.ensure_future(answer)
    await asyncio.sleep(0)
    return task


async def test_a_short_read_is_answered_at_once() -> None:
    assert SliceScheduler(SliceConfig(first_seconds=60)).run(path("a"), counting(1000, "a", [])) == "a"


async def test_a_long_read_leaves_the_loop_to_others_after_every_slice() -> None:
    scheduler, turns, log = SliceScheduler(STEPWISE), 0, list[str]()
    task = await started(scheduler, path("a"), 50, log)
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await task, len(log)) == ("a", 50)
    assert turns >= 40
    assert scheduler.running_count == scheduler.waiting_count == 0


async def test_clusters_take_turns_however_many_reads_each_has(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every look at the clock is one tick later, so that every slice takes as long as any other.
    monkeypatch.setattr(slices, "perf_counter", itertools.count().__next__)
    scheduler, log = SliceScheduler(STEPWISE), list[str]()
    hogs = [await started(scheduler, path("hog", str(number)), 2000, log) for number in range(10)]
    log.clear()
    assert await (await started(scheduler, path("other"), 100, log)) == "other"
    assert log.count("hog") < 1.5 * log.count("other"), "the ten reads of one cluster weigh as one"
    for hog in hogs:
        hog.cancel()
    await asyncio.gather(*hogs, return_exceptions=True)


async def test_a_cluster_runs_only_so_many_reads_at_once_and_the_others_wait() -> None:
    scheduler, log = SliceScheduler(STEPWISE), list[str]()
    tasks = [await started(scheduler, path("a", str(number)), 30, log) for number in range(5)]
    assert (scheduler.running_count, scheduler.waiting_count) == (2, 3)
    other = await started(scheduler, path("b"), 30, log)
    assert (scheduler.running_count, scheduler.waiting_count) == (3, 3), "it does not wait behind another cluster"
    assert await asyncio.gather(*tasks, other) == ["a"] * 5 + ["b"]
    assert scheduler.running_count == scheduler.waiting_count == 0


async def test_too_many_waiting_reads_are_rejected() -> None:
    config = SliceConfig(0, 0, 1e-9, running_per_cluster=1, waiting_per_cluster=1)
    scheduler, log = SliceScheduler(config), list[str]()
    tasks = [await started(scheduler, path("a"), 10, log) for _ in range(3)]
    with pytest.raises(TooManyRequests, match="Too many requests, please try again later"):
        await tasks[2]
    assert await asyncio.gather(*tasks[:2]) == ["a", "a"]


async def test_a_cancelled_read_gets_no_further_slice_and_makes_room() -> None:
    scheduler, log = SliceScheduler(STEPWISE), list[str]()
    first, second, third = [await started(scheduler, path("a", str(each)), 20, log) for each in range(3)]
    first.cancel()
    third.cancel()
    assert await second == "a"
    await asyncio.sleep(0)
    assert scheduler.running_count == scheduler.waiting_count == 0
    assert len(log) <= 20 + 2 * 5


async def test_an_error_reaches_the_client_at_once_and_later() -> None:
    def failing(steps: int) -> Generator[None, None, None]:
        for _ in range(steps):
            yield
        raise BadRequest("no")

    scheduler = SliceScheduler(STEPWISE)
    with pytest.raises(BadRequest):
        scheduler.run(path("a"), failing(0))
    with pytest.raises(BadRequest):
        await scheduler.complete(path("a"), failing(5))
    assert scheduler.running_count == 0


async def test_a_slice_counts_for_its_flow_only_while_others_wait() -> None:
    charged: list[tuple[QueuePath, float]] = []
    scheduler = SliceScheduler(STEPWISE)
    scheduler.on_slice = lambda where, seconds: charged.append((where, seconds))
    await scheduler.complete(path("a"), counting(10, "a", []))
    assert {where for where, _ in charged} == {path("a")}
    assert all(seconds > 0 for _, seconds in charged)

    queue: FairQueue[str] = FairQueue()
    queue.charge(path("a"), 100.0)
    for name in ("a", "b", "a", "b"):
        queue.push(path(name), name)
    assert [queue.pop()[0] for _ in range(2)] == ["a", "b"]  # type: ignore[index]
    queue.charge(path("a"), 100.0)
    queue.push(path("a"), "a")
    for _ in range(3):
        queue.push(path("b"), "b")
    assert [queue.pop()[0] for _ in range(6)] == ["a", "b", "b", "b", "b", "a"]  # type: ignore[index]
