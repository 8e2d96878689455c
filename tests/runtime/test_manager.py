"""Controllers that fail are restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from shoal.clock import FakeClock
from shoal.runtime.manager import RESTART_SECONDS, Runnable, run_manager


class CountingController:
    name = "counted"

    def __init__(self, runs: list[str], fail: bool) -> None:
        self._runs, self._fail = runs, fail

    async def run(self) -> None:
        self._runs.append("begun")
        try:
            if self._fail:
                raise KeyError("a defect")
            await asyncio.Event().wait()
        finally:
            self._runs.append("ended")


async def wait_until(done: Callable[[], bool], step: Callable[[], None] = lambda: None) -> None:
    async with asyncio.timeout(30):
        while not done():
            step()
            await asyncio.sleep(0.001)


async def test_one_that_fails_starts_all_of_them_anew(caplog: pytest.LogCaptureFixture) -> None:
    clock, runs, failures = FakeClock(), list[str](), [True, False]

    def new_controllers() -> list[Runnable]:
        return [CountingController(runs, False), CountingController(runs, failures.pop(0))]

    task = asyncio.ensure_future(run_manager(new_controllers, clock))
    await wait_until(lambda: "a defect" in caplog.text)
    assert "controller failed; restarting all controllers" in caplog.text
    assert len(runs) == 4
    await wait_until(lambda: len(runs) == 6, lambda: clock.step(RESTART_SECONDS))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert runs.count("ended") == 4
