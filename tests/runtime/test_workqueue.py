"""The work queue: a key is queued once, never processed twice at a time, and retried after a failure. On a fake
clock.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import FakeClock
from shoal.runtime.workqueue import BASE_DELAY, MAX_DELAY, WorkQueue

pytestmark = pytest.mark.anyio


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def is_empty(queue: WorkQueue[str]) -> bool:
    taking = asyncio.create_task(queue.get())
    await settle()
    done = taking.done()
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    return not done


async def test_in_the_order_they_came() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    for key in "abc":
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_waiting_key_waits_once() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    for key in "aba":
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.done("a")
    queue.done("b")
    assert await is_empty(queue)


async def test_a_key_in_work_comes_back_after_it() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert await is_empty(queue), "nobody else gets it meanwhile"
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert await is_empty(queue)


async def test_whoever_waits_is_woken() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    takers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await settle()
    queue.add("a")
    queue.add("b")
    assert sorted(await asyncio.gather(*takers)) == ["a", "b"]


async def test_later() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 5)
    await settle()
    clock.step(4.9)
    assert await is_empty(queue)
    clock.step(0.2)
    assert await queue.get() == "a"


async def test_of_several_times_the_earliest_counts() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    for seconds in (9, 5, 7):
        queue.add_after("a", seconds)
    await settle()
    assert len(queue._delayed) == 1
    clock.step(5)
    assert await queue.get() == "a"
    queue.done("a")
    clock.step(5)
    assert await is_empty(queue)


async def test_a_failure_rests_longer_each_time() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    for attempt in range(14):
        assert await queue.get() == "a"
        pause = queue.retry("a")
        assert pause == min(BASE_DELAY * 2**attempt, MAX_DELAY)
        await settle()
        clock.step(pause * 0.9)
        assert await is_empty(queue)
        clock.step(pause)
        await settle()
    assert pause == MAX_DELAY


async def test_success_forgets_the_failures() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    for _ in range(3):
        await queue.get()
        queue.retry("a")
        await settle()
        clock.step(MAX_DELAY)
    await queue.get()
    queue.done("a")
    queue.add("a")
    await queue.get()
    assert queue.retry("a") == BASE_DELAY
    queue.close()


async def test_news_end_the_rest() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.retry("a")
    assert await queue.get() == "a", "it changed while it was worked on: look again at once"


async def test_a_resting_key_can_be_woken() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    await queue.get()
    queue.retry("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    queue.close()


async def test_news_that_fail_do_not_lengthen_the_rest() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    for _ in range(20):
        queue.add("a")
        await queue.get()
        assert queue.retry("a") == pytest.approx(BASE_DELAY, abs=1e-6), "however many come in that time"
    await settle()
    clock.step(BASE_DELAY)
    assert await queue.get() == "a"
    assert queue.retry("a") == pytest.approx(2 * BASE_DELAY, abs=1e-6)
    queue.close()


async def test_closing_queues_what_was_delayed_or_being_processed() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("b")
    assert await queue.get() == "b"
    queue.add_after("a", 1)
    await settle()
    queue.close()
    assert [await queue.get(), await queue.get()] == ["b", "a"]
    await settle()
    clock.step(2)
    assert await is_empty(queue), "the timer has ended"


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "done", "failed"]), st.sampled_from("abc")), max_size=60))
def test_no_key_is_worked_on_twice_and_none_is_lost(steps: list[tuple[str, str]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[str, str]]) -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    working: set[str] = set()
    due: set[str] = set()
    """What must still be handed out."""
    for step, key in steps:
        if step == "add":
            queue.add(key)
            due.add(key)
        elif step == "take":
            taking = asyncio.create_task(queue.get())
            await asyncio.sleep(0)
            if taking.done():
                assert taking.result() not in working
                working.add(taking.result())
                due.discard(taking.result())
            else:
                assert due <= working
                taking.cancel()
                await asyncio.gather(taking, return_exceptions=True)
        elif key in working:
            working.discard(key)
            if step == "done":
                queue.done(key)
            else:
                queue.retry(key)
                due.add(key)
                await asyncio.sleep(0)
                clock.step(MAX_DELAY)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
    queue.close()
    await asyncio.sleep(0)


async def test_a_key_comes_back_counted_from_when_it_was_taken() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    assert await queue.get() == "a"
    clock.step(31)
    queue.done("a", 30)
    assert await asyncio.wait_for(queue.get(), 60) == "a"
    queue.done("a", 30)
    assert await is_empty(queue)
    clock.step(30)
    assert await queue.get() == "a"
