"""Loops of a process: run together, and together begun anew when one of them fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from shoal.clock import Clock

log = logging.getLogger("shoal.assemble")

RESTART_SECONDS = 5.0


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


async def run_all(loops: Callable[[], list[Runnable]], clock: Clock) -> None:
    """Until it is cancelled. They share watches and queues, so when one fails on its own account, which is a defect,
    all of them end and begin anew from what the API says."""
    while True:
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops():
                    group.create_task(loop.run(), name=loop.name)
        except* Exception:
            log.exception("a loop failed; all of them start again in %.0f s", RESTART_SECONDS)
        await clock.sleep(RESTART_SECONDS)
