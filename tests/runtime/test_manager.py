"""A controller that fails restarts alone, with backoff, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from shoal.clock import FakeClock
from shoal.runtime.manager import BASE_DELAY, HEALTHY_SECONDS, MAX_DELAY, run_manager
from shoal.runtime.metrics import render, restarts

pytestmark = pytest.mark.anyio
Failures = list[tuple[str, str]]


class CountingController:
    def __init__(self, name: str, failures: list[BaseException]) -> None:
        """Each run raises the next failure. After the last one it runs."""
        self.name, self.failures, self.runs = name, failures, 0

    async def run(self) -> None:
        self.runs += 1
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.Event().wait()


@asynccontextmanager
async def manager(clock: FakeClock, *controllers: CountingController) -> AsyncIterator[Failures]:
    reported: Failures = []
    restarts.clear()
    task = asyncio.create_task(run_manager(controllers, clock, lambda name, error: reported.append((name, error))))
    try:
        yield reported
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(done: Callable[[], bool]) -> None:
    for _ in range(200):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("never")


async def test_only_the_one_that_fails_restarts(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    steady, failing = CountingController("steady", []), CountingController("failing east", [KeyError("a defect")])
    async with manager(clock, steady, failing) as reported:
        await until(lambda: bool(reported))
        assert reported == [("failing", "KeyError: 'a defect'")]
        clock.step(BASE_DELAY)
        await until(lambda: failing.runs == 2)
        assert steady.runs == 1
        assert dict(restarts) == {"steady": 0, "failing": 1}
        assert 'shoal_controller_restarts_total{name="failing"} 1' in render()
        assert "restarting controller failing east in 1 s" in caplog.text
        for _ in range(10):
            await asyncio.sleep(0)
        clock.step(HEALTHY_SECONDS)
        await until(lambda: len(reported) == 2)
        assert reported[1] == ("failing", "")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ExceptionGroup("tasks", [ExceptionGroup("inner", [OSError("gone")])]), "OSError: gone"),
        (asyncio.CancelledError(), "cancelled"),
        (TimeoutError(), "TimeoutError: "),
    ],
)
async def test_any_failure_restarts(failure: BaseException, text: str) -> None:
    clock = FakeClock()
    failing = CountingController("failing", [failure])
    async with manager(clock, failing) as reported:
        await until(lambda: bool(reported))
        assert reported == [("failing", text)]
        clock.step(BASE_DELAY)
        await until(lambda: failing.runs == 2)


async def test_the_delay_doubles_and_is_bounded() -> None:
    clock = FakeClock()
    failing = CountingController("failing", [KeyError(str(number)) for number in range(9)])
    async with manager(clock, failing) as reported:
        for number, delay in enumerate((1.0, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_DELAY, MAX_DELAY, MAX_DELAY)):
            await until(lambda expected=number + 1: len(reported) == expected)  # type: ignore[misc]
            clock.step(delay - 0.1)
            await asyncio.sleep(0)
            assert failing.runs == number + 1
            clock.step(0.1)
        await until(lambda: failing.runs == 10)
