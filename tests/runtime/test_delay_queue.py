"""DelayQueue: one sleeping task for any number of keys."""

from __future__ import annotations

import asyncio

import pytest

from shoal.clock import FakeClock
from shoal.runtime.delay_queue import DelayQueue


@pytest.mark.anyio
async def test_alarms_ring_in_order_with_one_sleeper() -> None:
    clock, rung = FakeClock(), list[str]()
    alarms = DelayQueue(clock, rung.append)
    task = asyncio.create_task(alarms.run())
    start = clock.now()
    for number in range(100):
        alarms.schedule(f"k{number}", start + 10 + number)
    alarms.schedule("early", start + 5)
    alarms.schedule("moved", start + 6)
    alarms.schedule("moved", start + 8)
    alarms.schedule("never", start + 7)
    alarms.schedule("never", None)
    before = len(asyncio.all_tasks())
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= before + 2

    async def step(seconds: float) -> list[str]:
        clock.step(seconds)
        for _ in range(10):
            await asyncio.sleep(0)
        return rung

    assert await step(4.9) == []
    assert await step(0.1) == ["early"]
    assert await step(2.5) == ["early"], "what was moved or taken back does not ring"
    assert await step(0.5) == ["early", "moved"]
    assert await step(100) == ["early", "moved", *(f"k{number}" for number in range(99))]
    task.cancel()
