"""Runs the controllers of a process together, and restarts all of them when one fails."""

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


async def run_manager(new_controllers: Callable[[], list[Runnable]], clock: Clock) -> None:
    """Runs until it is cancelled. Controllers share informers and queues, so an unhandled exception, which is a defect,
    ends all of them; they restart from the state of the API after 5 s.
    """
    while True:
        try:
            async with asyncio.TaskGroup() as group:
                for controller in new_controllers():
                    group.create_task(controller.run(), name=controller.name)
        except* Exception:
            log.exception("controller failed; restarting all controllers in %.0f s", RESTART_SECONDS)
        await clock.sleep(RESTART_SECONDS)
