"""Runs the controllers of a process together. A controller that fails restarts alone, with backoff."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from shoal.client.transport import is_task_cancelled
from shoal.clock import Clock
from shoal.runtime.controller import Controller, FailureHandler
from shoal.runtime.metrics import restarts

log = logging.getLogger("shoal.runtime")

BASE_DELAY, MAX_DELAY = 1.0, 60.0
HEALTHY_SECONDS = 120.0
"""A controller that ran this long is healthy: its next failure starts with the shortest delay."""


class Runnable(Protocol):
    """A controller or another background activity. `run` runs until it is cancelled, and may be called again after it
    failed; it then starts from the state of the API.
    """

    name: str

    async def run(self) -> None: ...


async def run_manager(
    controllers: Iterable[Runnable], clock: Clock, on_failure: FailureHandler = lambda name, error: None
) -> None:
    """Runs until it is cancelled. An exception that a controller does not handle is a defect. It restarts that
    controller and no other.
    """
    async with asyncio.TaskGroup() as group:
        for controller in controllers:
            if isinstance(controller, Controller):
                controller.on_failure = on_failure
            group.create_task(_run_with_restarts(controller, clock, on_failure), name=controller.name)


async def _run_with_restarts(controller: Runnable, clock: Clock, on_failure: FailureHandler) -> None:
    name, delay = controller.name.partition(" ")[0], BASE_DELAY
    restarts.setdefault(name, 0)
    has_failed = False
    while True:
        started = clock.monotonic()
        health_check = asyncio.create_task(_report_healthy(name, clock, on_failure)) if has_failed else None
        try:
            await controller.run()
            return
        except asyncio.CancelledError:
            # A library may raise it too. This task is cancelled only if it was asked to.
            if is_task_cancelled():
                raise
            error = "cancelled"
            log.exception("controller %s was cancelled from within", controller.name)
        except Exception as failure:
            error = _error_text(failure)
            log.exception("controller %s failed", controller.name)
        finally:
            if health_check is not None:
                health_check.cancel()
        if clock.monotonic() - started >= HEALTHY_SECONDS:
            delay = BASE_DELAY
        has_failed = True
        restarts[name] += 1
        log.warning("restarting controller %s in %.0f s", controller.name, delay)
        on_failure(name, error)
        await clock.sleep(delay)
        delay = min(delay * 2, MAX_DELAY)


async def _report_healthy(name: str, clock: Clock, on_failure: FailureHandler) -> None:
    await clock.sleep(HEALTHY_SECONDS)
    on_failure(name, "")


def _error_text(error: BaseException) -> str:
    """The first error of nested task groups: type and message."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
